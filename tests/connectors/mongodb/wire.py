"""A server that speaks MongoDB's wire protocol as far as the source needs it: OP_MSG (and OP_QUERY
for the first `hello`), reads and writes of single documents, and change streams as MongoDB
documents them: events, resume tokens, `postBatchResumeToken`, `startAfter`, `startAtOperationTime`,
lost history, `invalidate`. It is not MongoDB. `python wire.py PORT` serves on loopback.

The command `penstockTest` is for tests: `{forget: true}` loses the history, `{fail: CODE, on:
COMMAND, times: N}` has commands fail.
"""

from __future__ import annotations

import socketserver
import struct
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

import bson
from bson import Int64, ObjectId, Timestamp
from bson.codec_options import CodecOptions

MSG, QUERY, REPLY = 2013, 2004, 1
OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
ERRORS = {
    26: "NamespaceNotFound", 59: "CommandNotFound", 43: "CursorNotFound",
    286: "ChangeStreamHistoryLost",
}  # fmt: skip


class Failure(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class State:
    """Everything the server knows; guarded by `changed`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.changed = threading.Condition()
        self.collections: dict[tuple[str, str], dict[bytes, dict[str, Any]]] = {}
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.number = 0
        self.oldest = 0
        self.cursors: dict[int, dict[str, Any]] = {}
        self.next_cursor = 1
        self.failing: dict[str, list[int]] = {}

    def emit(self, db: str, coll: str, kind: str, **more: Any) -> None:
        self.number += 1
        event = {
            "_id": token(self.number),
            "operationType": kind,
            "clusterTime": Timestamp(1_700_000_000 + self.number, 1),
            "wallTime": datetime.fromtimestamp(1_700_000_000 + self.number, UTC),
            "ns": {"db": db, "coll": coll},
            **more,
        }
        self.events.append((self.number, event))
        self.changed.notify_all()


def token(number: int) -> dict[str, str]:
    return {"_data": f"82{number:016X}"}


def number_of(resume: dict[str, Any]) -> int:
    data = resume.get("_data", "")
    try:
        return int(data[2:18], 16)
    except ValueError:
        raise Failure(50811, f"bad resume token: {data}") from None


def key_of(value: Any) -> bytes:
    return bson.encode({"": value})


class Commands:
    def __init__(self, state: State) -> None:
        self.state = state

    def run(self, command: dict[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        failing = self.state.failing.get(name)
        if failing:
            code = failing.pop()
            raise Failure(code, f"{name} fails with {code}, as was asked for")
        method = getattr(self, f"do_{name.lower()}", None)
        if method is None:
            raise Failure(59, f"no such command: '{name}'")
        with self.state.changed:
            found: dict[str, Any] = method(command, command.get("$db", "admin"))
        return {**found, "ok": 1.0}

    def do_hello(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        me = f"127.0.0.1:{self.state.port}"
        return {
            "helloOk": True, "ismaster": True, "isWritablePrimary": True, "setName": "rs",
            "setVersion": 1, "hosts": [me], "primary": me, "me": me, "secondary": False,
            "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000, "localTime": datetime.now(UTC),
            "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 21,
            "readOnly": False, "electionId": ObjectId("7fffffff0000000000000001"),
        }  # fmt: skip

    do_ismaster = do_hello

    def do_ping(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        return {}

    do_endsessions = do_ping

    def do_buildinfo(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        return {"version": "6.0.0", "versionArray": [6, 0, 0, 0]}

    def do_connectionstatus(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        return {"authInfo": {"authenticatedUsers": [], "authenticatedUserPrivileges": []}}

    def do_listdatabases(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        names = sorted({each for each, _ in self.state.collections} | {"admin", "local"})
        return {"databases": [{"name": each} for each in names]}

    def do_listcollections(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        names = sorted(coll for each, coll in self.state.collections if each == db)
        rows = [{"name": each, "type": "collection"} for each in names]
        return {"cursor": {"id": Int64(0), "ns": f"{db}.$cmd", "firstBatch": rows}}

    def do_insert(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        documents = self.state.collections.setdefault((db, command["insert"]), {})
        for each in command["documents"]:
            documents[key_of(each["_id"])] = each
            key = {"_id": each["_id"]}
            self.state.emit(db, command["insert"], "insert", documentKey=key, fullDocument={**each})
        return {"n": len(command["documents"])}

    def do_update(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        coll = command["update"]
        documents = self.state.collections.setdefault((db, coll), {})
        done = 0
        for each in command["updates"]:
            found = documents.get(key_of(each["q"].get("_id")))
            if found is None:
                continue
            done += 1
            key = {"_id": found["_id"]}
            changes = each["u"]
            if next(iter(changes), "").startswith("$"):
                updated, removed = changes.get("$set", {}), [*changes.get("$unset", {})]
                found.update(updated)
                for name in removed:
                    found.pop(name, None)
                description = {
                    "updatedFields": updated, "removedFields": removed, "truncatedArrays": []
                }  # fmt: skip
                self.state.emit(db, coll, "update", documentKey=key, updateDescription=description)
            else:
                whole = {"_id": found["_id"], **changes}
                documents[key_of(found["_id"])] = whole
                self.state.emit(db, coll, "replace", documentKey=key, fullDocument=whole)
        return {"n": done, "nModified": done}

    def do_delete(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        coll = command["delete"]
        documents = self.state.collections.setdefault((db, coll), {})
        done = 0
        for each in command["deletes"]:
            found = documents.pop(key_of(each["q"].get("_id")), None)
            if found is not None:
                done += 1
                self.state.emit(db, coll, "delete", documentKey={"_id": found["_id"]})
        return {"n": done}

    def do_drop(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        self.state.collections.pop((db, command["drop"]), None)
        self.state.emit(db, command["drop"], "drop")
        return {}

    def do_find(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        rows = [*self.state.collections.get((db, command["find"]), {}).values()]
        where = command.get("filter", {})
        rows = [each for each in rows if all(each.get(k) == v for k, v in where.items())]
        return self._cursor(db, command["find"], rows)

    def do_aggregate(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        stages = [*command["pipeline"]]
        if stages and "$changeStream" in stages[0]:
            return self._stream(command, db, stages)
        rows = [*self.state.collections.get((db, command["aggregate"]), {}).values()]
        for stage in stages:
            rows = [made for each in rows if (made := _staged(each, stage)) is not None]
        return self._cursor(db, command["aggregate"], rows)

    def _cursor(self, db: str, coll: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {"cursor": {"id": Int64(0), "ns": f"{db}.{coll}", "firstBatch": rows}}

    def _stream(
        self, command: dict[str, Any], db: str, stages: list[dict[str, Any]]
    ) -> dict[str, Any]:
        state, options = self.state, stages[0]["$changeStream"]
        coll = command["aggregate"] if isinstance(command["aggregate"], str) else None
        after = state.number
        resume = options.get("startAfter") or options.get("resumeAfter")
        if resume is not None:
            after = number_of(resume)
            if after < state.oldest:
                raise Failure(
                    286,
                    "PlanExecutor error during aggregation :: caused by :: Resume of change stream "
                    "was not possible, as the resume point may no longer be in the oplog.",
                )
        elif "startAtOperationTime" in options:
            start = options["startAtOperationTime"]
            earlier = [at for at, each in state.events if each["clusterTime"] < start]
            after = earlier[-1] if earlier else 0
        cursor = {
            "db": None if options.get("allChangesForCluster") else db,
            "coll": coll, "after": after, "stages": stages[1:], "options": options, "ended": False,
            "size": command.get("cursor", {}).get("batchSize", 101),
        }  # fmt: skip
        number = state.next_cursor
        state.next_cursor += 1
        state.cursors[number] = cursor
        rows, last = self._read(cursor)
        return {
            "cursor": {
                "id": Int64(number),
                "ns": f"{db}.{coll or '$cmd.aggregate'}",
                "firstBatch": rows,
                "postBatchResumeToken": last,
            },
            "operationTime": Timestamp(1_700_000_000 + state.number, 1),
        }

    def _read(self, cursor: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
        rows: list[dict[str, Any]] = []
        for number, event in self.state.events:
            if number <= cursor["after"]:
                continue
            if len(rows) >= (cursor["size"] or 1_000_000):
                break
            cursor["after"] = number
            ns = event["ns"]
            if cursor["db"] not in (None, ns["db"]) or cursor["coll"] not in (None, ns["coll"]):
                continue
            made: dict[str, Any] | None = self._looked_up(event, cursor["options"])
            for stage in cursor["stages"]:
                made = None if made is None else _staged(made, stage)
            if made is not None:
                rows.append(made)
            if event["operationType"] == "drop" and cursor["coll"] is not None:
                rows.append({**event, "operationType": "invalidate"})
                cursor["ended"] = True
                break
        return rows, token(cursor["after"])

    def _looked_up(self, event: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        if event["operationType"] != "update" or options.get("fullDocument") != "updateLookup":
            return event
        place = (event["ns"]["db"], event["ns"]["coll"])
        found = self.state.collections.get(place, {}).get(key_of(event["documentKey"]["_id"]))
        return {**event, "fullDocument": found}

    def do_getmore(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        state, number = self.state, int(command["getMore"])
        cursor = state.cursors.get(number)
        if cursor is None:
            raise Failure(43, f"cursor id {number} not found")
        cursor["size"] = command.get("batchSize", 101)
        until = time.monotonic() + command.get("maxTimeMS", 1000) / 1000
        rows, last = self._read(cursor)
        while not rows and (left := until - time.monotonic()) > 0:
            state.changed.wait(left)
            rows, last = self._read(cursor)
        if cursor["ended"]:
            del state.cursors[number]
        return {
            "cursor": {
                "id": Int64(0 if cursor["ended"] else number),
                "ns": f"{db}.{command['collection']}",
                "nextBatch": rows,
                "postBatchResumeToken": last,
            }
        }

    def do_killcursors(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        for each in command["cursors"]:
            self.state.cursors.pop(int(each), None)
        return {"cursorsKilled": command["cursors"]}

    def do_penstocktest(self, command: dict[str, Any], db: str) -> dict[str, Any]:
        if command.get("forget"):
            self.state.emit("penstock", "forgotten", "insert")
            self.state.oldest = self.state.number
        if "fail" in command:
            self.state.failing[command["on"]] = [command["fail"]] * command.get("times", 1)
        return {}


def _staged(document: dict[str, Any], stage: dict[str, Any]) -> dict[str, Any] | None:
    """A document after a stage: `$match` by equality, `$replaceRoot` as the copy has it."""
    if "$match" in stage:
        return document if all(document.get(k) == v for k, v in stage["$match"].items()) else None
    if "$replaceRoot" in stage:
        made: dict[str, Any] = _expression(stage["$replaceRoot"]["newRoot"], document)
        return made
    if "$addFields" in stage:
        return {**document, **stage["$addFields"]}
    raise Failure(40324, f"Unrecognized pipeline stage name: '{next(iter(stage))}'")


def _expression(given: Any, document: dict[str, Any]) -> Any:
    if isinstance(given, dict):
        if "$literal" in given:
            return given["$literal"]
        return {name: _expression(each, document) for name, each in given.items()}
    if given == "$$ROOT":
        return document
    if isinstance(given, str) and given.startswith("$"):
        return document.get(given[1:])
    return given


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        commands: Commands = self.server.commands  # type: ignore[attr-defined]
        while True:
            head = self._exactly(16)
            if head is None:
                return
            size, number, _, kind = struct.unpack("<iiii", head)
            body = self._exactly(size - 16)
            if body is None:
                return
            command = _message(body) if kind == MSG else _query(body)
            try:
                answer = commands.run(command)
            except Failure as failure:
                name = ERRORS.get(failure.code, "Error")
                answer = {"ok": 0.0, "code": failure.code, "codeName": name, "errmsg": str(failure)}
            data = bson.encode(answer)
            if kind == MSG:
                payload, answer_kind = struct.pack("<iB", 0, 0) + data, MSG
            else:
                payload, answer_kind = struct.pack("<iqii", 8, 0, 0, 1) + data, REPLY
            try:
                self.request.sendall(
                    struct.pack("<iiii", 16 + len(payload), 0, number, answer_kind) + payload
                )
            except OSError:
                return

    def _exactly(self, size: int) -> bytes | None:
        parts = b""
        while len(parts) < size:
            try:
                part = self.request.recv(size - len(parts))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return parts


def _message(body: bytes) -> dict[str, Any]:
    command: dict[str, Any] = {}
    at = 4
    while at < len(body):
        kind = body[at]
        at += 1
        (size,) = struct.unpack_from("<i", body, at)
        if kind == 0:
            command.update(bson.decode(body[at : at + size], OPTIONS))
        else:
            end = body.index(b"\0", at + 4)
            name = body[at + 4 : end].decode()
            command[name] = bson.decode_all(body[end + 1 : at + size], OPTIONS)
        at += size
    return command


def _query(body: bytes) -> dict[str, Any]:
    end = body.index(b"\0", 4)
    start = end + 1 + 8
    (size,) = struct.unpack_from("<i", body, start)
    return bson.decode(body[start : start + size], OPTIONS)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main() -> None:
    port = int(sys.argv[1])
    with Server(("127.0.0.1", port), Handler) as server:
        server.commands = Commands(State(port))  # type: ignore[attr-defined]
        server.serve_forever()


if __name__ == "__main__":
    main()
