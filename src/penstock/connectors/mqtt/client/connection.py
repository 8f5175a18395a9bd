"""A connection to a broker.

paho-mqtt connects, does TLS, subscribes, keeps the connection alive and disconnects. The frequent
packets, messages and their acknowledgements, are read in blocks and sent in bulk: paho needs
three system calls and an object with a lock for each packet. It also acknowledges a message of
QoS 2 before its callback, so that a crash would lose messages that are not in Kafka yet.

The subclass of paho's client replaces only the parsing of packets. One thread uses a connection.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.connectors.mqtt.client import packets as p
from penstock.connectors.mqtt.client.errors import (
    TAKEN_OVER,
    Refused,
    TakenOver,
    Unreachable,
    refusal,
)
from penstock.connectors.mqtt.client.options import Options, Server

_READ_BYTES: Final = 1 << 17
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_LINGER_S: Final = 1.0
_OF_ANSWERS: Final = frozenset({p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP})


class _Client(paho.Client):
    """paho's client with reads and writes in blocks."""

    def __init__(self, options: Options, client_id: str) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if options.v5 else options.clean,
            protocol=paho.MQTTv5 if options.v5 else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.messages: list[p.Message] = []
        self.answers: list[p.Answer] = []
        self.pongs = 0
        self.tls_error: ssl.SSLError | None = None
        self._v5 = options.v5
        self._chunks: list[bytes] = []
        self._received_bytes = 0
        self._needed_bytes = 2

    def forget(self) -> None:
        """Discards the state of an earlier connection."""
        self.messages, self.answers, self.pongs = [], [], 0
        self._chunks, self._received_bytes, self._needed_bytes = [], 0, 2
        self.tls_error = None

    def receive(self) -> None:
        """Reads a block, if available, and handles its complete packets. Closes the socket if the
        connection is lost."""
        try:
            block = self._sock_recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                self.tls_error = error
            block = b""
        if not block:
            self._loop_rc_handle(paho.MQTT_ERR_CONN_LOST)
            return
        self._last_bytes_received = time.monotonic()
        self.acknowledge_soon()
        self._chunks.append(block)
        self._received_bytes += len(block)
        if self._received_bytes < self._needed_bytes:
            return
        self._handle(block if len(self._chunks) == 1 else b"".join(self._chunks))

    def _handle(self, block: bytes) -> None:
        """Handles the packets of a block, and keeps an incomplete one."""
        position, size, v5 = 0, len(block), self._v5
        self._needed_bytes = 0
        add_message = self.messages.append
        while size - position >= 2:
            first, length, body = block[position], block[position + 1], position + 2
            if length > 127:
                try:
                    length, body = p.read_length(block, position + 1)
                except IndexError:
                    self._needed_bytes = size - position + 1
                    break
            end = body + length
            if end > size:
                self._needed_bytes = end - position
                break
            kind = first & 0xF0
            if kind == p.PUBLISH:
                add_message(p.read_publish(first, block, body, end, v5=v5))
            elif kind in _OF_ANSWERS and length >= 2:
                reason = block[body + 2] if length > 2 else 0
                self.answers.append(p.Answer(kind, block[body] << 8 | block[body + 1], reason))
            else:
                if kind == p.PINGRESP:
                    self.pongs += 1
                self._in_packet["command"] = first
                self._in_packet["packet"] = bytearray(block[body:end])
                self._in_packet["remaining_length"] = length
                if (rc := self._packet_handle()) != paho.MQTT_ERR_SUCCESS:
                    self._loop_rc_handle(rc)
                    return
            position = end
        self._chunks = [block[position:]] if position < size else []
        self._received_bytes = size - position
        self._needed_bytes = max(self._needed_bytes, 2)

    def acknowledge_soon(self) -> None:
        """Makes the kernel acknowledge received data at once: a broker without TCP_NODELAY waits
        for that before its next small packet. The kernel itself resets the option."""
        sock: Any = self._sock
        if _QUICKACK is not None and sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)

    def _create_socket_connection(self) -> socket.socket:
        raw = super()._create_socket_connection()
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return raw

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        assert self._ssl_context is not None, "set for secure servers"
        wrapped = self._ssl_context.wrap_socket(
            tcp_sock, server_hostname=self._host, do_handshake_on_connect=False
        )
        try:
            wrapped.settimeout(self._connect_timeout)
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()  # paho leaves it open
            raise
        return wrapped

    def send_packets(self, data: bytes) -> None:
        """Sends complete packets; queues what the socket does not accept yet."""
        self._packet_queue(p.PUBACK, memoryview(data), 0, 1)  # type: ignore[arg-type]

    def ping(self) -> None:
        self._send_pingreq()

    def stay(self, *, reads: bool) -> None:
        """Keeps the connection alive. Without reads, it expects no PINGRESP."""
        if reads:
            self.loop_misc()
            return
        now = time.monotonic()
        if self._keepalive and now - self._last_msg_out >= self._keepalive:
            self._send_pingreq()
        self._ping_t = 0.0
        self._last_bytes_received = now

    def abort(self) -> None:
        self._sock_close()


class Connection:
    """A connection to the first broker that answers. It can be reopened."""

    def __init__(self, options: Options, client_id: str) -> None:
        self._options = options
        self._client = _Client(options, client_id)
        self._next_server = 0
        self._connack: tuple[bool, Any, Any] | None = None
        self._suback: tuple[int | None, Sequence[Any]] | None = None
        self._goodbye: Any = None
        self.server = options.servers[0]
        self.session_present = False
        self.receive_maximum = 65_535
        """The broker's limit of unacknowledged messages of QoS 1 and 2."""
        self.maximum_packet_bytes = p.MAX_BYTES
        client = self._client
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.connect_timeout = options.connect_s
        if options.username is not None:
            password = None if options.password is None else options.password.value
            client.username_pw_set(options.username, password)
        if options.will is not None:
            will = options.will
            client.will_set(will.topic, will.payload.encode(), will.qos, will.retain)

    @property
    def is_open(self) -> bool:
        return self._client.socket() is not None

    def take(self) -> list[p.Message]:
        """The messages received since the last call."""
        messages, self._client.messages = self._client.messages, []
        return messages

    def take_answers(self) -> list[p.Answer]:
        """The acknowledgements received since the last call."""
        answers, self._client.answers = self._client.answers, []
        return answers

    @property
    def pongs(self) -> int:
        """The number of answered pings."""
        return self._client.pongs

    def open(self) -> None:
        """Connects to one of the servers. Raises Unreachable if none answers, Refused if one
        refuses the connection."""
        problems: list[str] = []
        servers = self._options.servers
        for step in range(len(servers)):
            server = servers[(self._next_server + step) % len(servers)]
            try:
                self._open(server)
            except Unreachable as error:
                problems.append(str(error))
            else:
                self._next_server = servers.index(server)
                return
        raise Unreachable(f"{' '.join(problems)} ({self._options.names.servers})")

    def _open(self, server: Server) -> None:
        client, options = self._client, self._options
        client.forget()
        self._connack = self._goodbye = None
        client._ssl = server.secure
        client._ssl_context = options.tls
        try:
            client.connect(
                server.host,
                server.port,
                options.keepalive_s,
                clean_start=options.clean if options.v5 else paho.MQTT_CLEAN_START_FIRST_ONLY,
                properties=self._connect_properties(),
            )
            if not self._await(lambda: self._connack is not None):
                if self.is_open:
                    raise Unreachable(f"The broker {server} did not respond in time.")
                raise self._connect_error(server)
            self._accept_connack(server)
        except ssl.SSLCertVerificationError as error:
            self.abort()
            raise Refused(
                f"The certificate of the broker {server} is not trusted: {error.verify_message}. "
                f"Check {options.names.trust}."
            ) from error
        except ssl.SSLError as error:
            self.abort()
            raise Refused(
                f"TLS with the broker {server} failed: {error.reason or error}. Check "
                f"{options.names.servers} and {options.names.trust}."
            ) from error
        except OSError as error:
            self.abort()
            text = error.strerror or str(error) or type(error).__name__
            raise Unreachable(f"Cannot connect to the broker {server}: {text}.") from error
        except BaseException:
            self.abort()
            raise

    def _accept_connack(self, server: Server) -> None:
        assert self._connack is not None, "waited for"
        present, reason, properties = self._connack
        if reason.is_failure:
            raise refusal(server, reason.value, str(reason), self._options.names)
        self.server = server
        self.session_present = present
        self.receive_maximum = getattr(properties, "ReceiveMaximum", 65_535)
        self.maximum_packet_bytes = getattr(properties, "MaximumPacketSize", p.MAX_BYTES)

    def _connect_error(self, server: Server) -> Exception:
        if self._client.tls_error is not None:
            return self._client.tls_error
        if self._goodbye is not None and self._goodbye.is_failure:
            return refusal(server, self._goodbye.value, str(self._goodbye), self._options.names)
        return Unreachable(f"The broker {server} closed the connection.")

    def _connect_properties(self) -> PahoProperties | None:
        options = self._options
        if not options.v5:
            return None
        properties = PahoProperties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = options.receive_maximum
        if not options.clean:
            properties.SessionExpiryInterval = options.session_expiry_s
        return properties

    def loss(self) -> Exception:
        """The reason for the lost connection: Unreachable or TakenOver."""
        goodbye = self._goodbye
        if goodbye is not None and goodbye.value == TAKEN_OVER:
            return TakenOver(
                f"Another client connected to {self.server} with the client id of this task. Give "
                f"each client a unique {self._options.names.client_id}."
            )
        detail = f": {goodbye}" if goodbye is not None and goodbye.is_failure else ""
        return Unreachable(f"The connection to the broker {self.server} was lost{detail}.")

    def subscribe(self, filters: Iterable[str], qos: int) -> None:
        """Subscribes, and waits for the SUBACK. Raises Refused with the refused filters, or
        Unreachable."""
        topic_filters = list(filters)
        self._suback = None
        subscriptions: Any = [(topic_filter, qos) for topic_filter in topic_filters]
        if self._options.v5:
            subscriptions = [
                (topic_filter, SubscribeOptions(qos=qos)) for topic_filter in topic_filters
            ]
        rc, mid = self._client.subscribe(subscriptions)
        if rc != paho.MQTT_ERR_SUCCESS or not self._await(lambda: self._suback is not None):
            self.abort()
            raise self.loss()
        reasons = self._reasons(mid)
        refused = [
            f"{topic_filter} ({reason})"
            for topic_filter, reason in zip(topic_filters, reasons, strict=True)
            if reason.is_failure
        ]
        if refused:
            self.abort()
            raise Refused(
                f"The broker {self.server} refused to subscribe to {', '.join(refused)}: check "
                f"{self._options.names.filters} and the user's permissions."
            )

    def _reasons(self, mid: int | None) -> Sequence[Any]:
        assert self._suback is not None, "waited for"
        assert self._suback[0] == mid, "one request at a time"
        return self._suback[1]

    def _await(self, arrived: Callable[[], bool]) -> bool:
        """Pumps until `arrived`; False after a timeout or a lost connection."""
        deadline = time.monotonic() + self._options.connect_s
        while not arrived():
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not self.is_open:
                return False
            self.pump(remaining_s)
        return True

    def unsubscribe(self, filters: Sequence[str]) -> None:
        """Unsubscribes without waiting for the UNSUBACK."""
        self._client.unsubscribe(list(filters))

    def pump(self, timeout_s: float, *, reads: bool = True, wakes: int | None = None) -> None:
        """Sends and receives once the socket is ready; waits for `timeout_s` at most, or until
        `wakes` is readable. With `reads=False` it receives nothing."""
        client = self._client
        sock: Any = client.socket()
        if sock is None:
            return
        pending = getattr(sock, "pending", None)
        ready = reads and pending is not None and pending() > 0
        writes = client.want_write()
        poll = select.poll()
        if wakes is not None:
            poll.register(wakes, select.POLLIN)
        if reads or writes:
            handle = sock.fileno()
            poll.register(
                handle, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0)
            )
        else:
            handle = -1
        events = dict(poll.poll(0 if ready else max(0, timeout_s) * 1000)).get(handle, 0)
        if writes and events & ~select.POLLIN:
            client.loop_write()
        if reads and (ready or events & ~select.POLLOUT):
            client.receive()
        if client.socket() is not None:
            client.stay(reads=reads)

    def send(self, data: bytes) -> None:
        """Sends packets; `pump` sends what the socket does not accept now."""
        if data and self.is_open:
            self._client.send_packets(data)

    def ping(self) -> None:
        """Sends a PINGREQ; `pongs` counts the answers, which prove that all was read."""
        if self.is_open:
            self._client.ping()

    def abort(self) -> None:
        """Closes the connection without DISCONNECT: the broker publishes the will."""
        self._client.abort()

    def close(self) -> None:
        """Disconnects from the broker."""
        if self.is_open:
            with contextlib.suppress(OSError, ValueError):
                self._client.disconnect()
                deadline = time.monotonic() + _LINGER_S
                while self.is_open and self._client.want_write() and time.monotonic() < deadline:
                    self.pump(0.1, reads=False)
        self.abort()

    def _on_connect(
        self, _client: object, _data: object, flags: Any, reason: Any, properties: Any
    ) -> None:
        self._connack = bool(flags.session_present), reason, properties

    def _on_subscribe(
        self, _client: object, _data: object, mid: int, reasons: Sequence[Any], _props: object
    ) -> None:
        self._suback = mid, reasons

    def _on_disconnect(
        self, _client: object, _data: object, flags: Any, reason: Any, _props: object
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._goodbye = reason
