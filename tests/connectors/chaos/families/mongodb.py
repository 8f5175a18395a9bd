"""The MongoDB sink under chaos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import MongoClient

from tests.servers.mongodb import MongoServer

from .base import JSON, Marking


class Mongo(Marking):
    """Documents by key in mongo-java-server, which forgets them when it is killed; a unique index
    refuses those whose mark another one has.

    FerretDB keeps its documents, but its response to a refused update lacks what clients require.
    """

    kills = False

    def __init__(self) -> None:
        super().__init__()
        self._server = MongoServer()
        self._server.start()
        self._client: MongoClient[dict[str, Any]] = MongoClient(self._server.uri)
        self._documents = self._client["chaos"]["rows"]

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        self._documents.create_index("mark", unique=True)

    def config(self, topic: str, port: int) -> dict[str, str]:
        strategy = "com.mongodb.kafka.connect.sink.processor.id.strategy.ProvidedInKeyStrategy"
        return {
            "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
            "connection.uri": f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=2000"
            "&socketTimeoutMS=10000",
            "max.batch.size": "200",
            "database": "chaos",
            "collection": "rows",
            "document.id.strategy": strategy,
            "delete.on.null.values": "true",
            # The id is the field `_id` of the key.
            "transforms": "key",
            "transforms.key.type": "org.apache.kafka.connect.transforms.HoistField$Key",
            "transforms.key.field": "_id",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

    def mark(self, key: str, number: int) -> str:
        return f"refused {key}"

    def refuse_marks(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._documents.replace_one(
                {"_id": f"~{key}"}, {"mark": self.mark(key, 0)}, upsert=True
            )

    def accept_marks(self) -> None:
        self._documents.delete_many({"_id": {"$regex": "^~"}})

    def stored(self) -> Iterable[tuple[str, int]]:
        for document in self._documents.find():
            yield str(document["_id"]), int(document["n"])

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._client.close()
        self._server.close()
