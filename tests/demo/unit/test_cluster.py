"""Where the demo's cluster listens."""

from __future__ import annotations

import socket

from penstock.demo.cluster import near_port


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        assert near_port(port) > port
    assert near_port(port) == port
