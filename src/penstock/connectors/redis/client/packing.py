"""The encoding of commands (RESP)."""

from __future__ import annotations


def pack(*words: bytes) -> bytes:
    """Encodes a command.

    >>> pack(b"GET", b"k")
    b'*2\\r\\n$3\\r\\nGET\\r\\n$1\\r\\nk\\r\\n'
    """
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(w), w) for w in words])


def unpack(data: bytes) -> list[bytes]:
    """Decodes a packed command.

    >>> unpack(pack(b"GET", b"k"))
    [b'GET', b'k']
    """
    end = data.index(b"\r\n")
    count, position = int(data[1:end]), end + 2
    words = []
    for _ in range(count):
        end = data.index(b"\r\n", position)
        size, position = int(data[position + 1 : end]), end + 2
        words.append(data[position : position + size])
        position += size + 2
    return words
