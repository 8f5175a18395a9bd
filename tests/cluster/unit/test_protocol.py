"""Bytes of the group protocol, captured from connect-runtime 4.2.0 (kafka-connect.md §5.2)."""

from __future__ import annotations

import pytest

from penstock.cluster.protocol import (
    Assignment,
    AssignmentError,
    GroupBytesMalformed,
    MemberMetadata,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    offered,
    protocol_version,
)
from penstock.ids import TaskId

URL = "http://h:8083/"
HEAD = "0000 00036d2d31 000e687474703a2f2f683a383038332f 000000000000000c"
WORK = (
    "00000003 000161 00000003 ffffffff 00000000 00000002 000162 00000001 ffffffff"
    "0002c3bc 00000001 00000003"
)
REVOKED = "00000002 00017a 00000002 ffffffff 00000001 000179 00000001 00000000"

EAGER = Assignment(
    "m-1", URL, 12, Work(("a", "b"), (TaskId("a", 0), TaskId("a", 2), TaskId("ü", 3)))
)
COOPERATIVE = Assignment(
    "m-1", URL, 12, EAGER.work, Work(("z",), (TaskId("z", 1), TaskId("y", 0))), 1500
)
MISMATCH = Assignment("m-1", "u", 13, error=AssignmentError.CONFIG_MISMATCH)

ASSIGNMENTS = [
    (0, EAGER, f"0000 {HEAD} {WORK}"),
    (1, COOPERATIVE, f"0001 {HEAD} {WORK} {REVOKED} 000005dc"),
    (2, COOPERATIVE, f"0002 {HEAD} {WORK} {REVOKED} 000005dc"),
    (0, MISMATCH, "0000 0001 00036d2d31 000175 000000000000000d 00000000"),
    (2, MISMATCH, "0002 0001 00036d2d31 000175 000000000000000d 00000000 00000000 00000000"),
    (
        2,
        Assignment("m-1", URL, 12, Work(("a",), (TaskId("a", 0),))),
        f"0002 {HEAD} 00000001 000161 00000002 ffffffff 00000000 00000000 00000000",
    ),
]


@pytest.mark.parametrize(("version", "assignment", "data"), ASSIGNMENTS)
def test_assignments_have_exactly_these_bytes(
    version: int, assignment: Assignment, data: str
) -> None:
    assert encode_assignment(assignment, version) == bytes.fromhex(data)
    assert decode_assignment(bytes.fromhex(data)) == assignment
    assert protocol_version(bytes.fromhex(data)) == version


BARE = "000e687474703a2f2f683a383038332f 000000000000000c"

METADATA = [
    (0, MemberMetadata(URL, 12), f"0000 {BARE}"),
    (1, MemberMetadata(URL, 12), f"0001 {BARE} ffffffff"),
    (2, MemberMetadata(URL, 12), f"0002 {BARE} ffffffff"),
    (
        2,
        MemberMetadata(URL, 12, COOPERATIVE),
        f"0002 {BARE} 00000071 0002 {HEAD} {WORK} {REVOKED} 000005dc",
    ),
    (
        1,
        MemberMetadata(URL, 12, COOPERATIVE),
        f"0001 {BARE} 00000071 0001 {HEAD} {WORK} {REVOKED} 000005dc",
    ),
]


@pytest.mark.parametrize(("version", "metadata", "data"), METADATA)
def test_metadata_has_exactly_these_bytes(
    version: int, metadata: MemberMetadata, data: str
) -> None:
    assert encode_metadata(metadata, version) == bytes.fromhex(data)
    assert decode_metadata(bytes.fromhex(data)) == metadata


def test_version_0_does_not_carry_what_a_member_runs() -> None:
    assert encode_metadata(MemberMetadata(URL, 12, EAGER), 0) == bytes.fromhex(f"0000 {BARE}")


TOLERATED = [
    f"0001 {HEAD}",
    f"0001 {HEAD} 00000000",
    f"0001 {HEAD} ffffffff ffffffff",
    f"0000 {HEAD} ffffffff",
    f"0063 {HEAD} 00000000 00000000 00000000 aabbcc",
]


@pytest.mark.parametrize("data", TOLERATED)
def test_missing_and_unknown_fields_at_the_end_are_tolerated(data: str) -> None:
    assert decode_assignment(bytes.fromhex(data)) == Assignment("m-1", URL, 12)


@pytest.mark.parametrize("data", [f"0001 {BARE}", f"0009 {BARE} ffffffff 01"])
def test_metadata_of_other_versions_is_tolerated(data: str) -> None:
    assert decode_metadata(bytes.fromhex(data)) == MemberMetadata(URL, 12)


MALFORMED = [
    "",
    "00",
    "ffff 0000",
    "0002 0000 0005 61",
    "0002 0000 ffff",
    "0002 0000 0001 ff",
    f"0002 {HEAD} 0000",
    f"0002 {HEAD} 7fffffff 0001",
    f"0002 {HEAD} fffffffe",
]


@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_bytes_are_named_as_such(data: str) -> None:
    with pytest.raises(GroupBytesMalformed):
        decode_assignment(bytes.fromhex(data))


def test_a_malformed_allocation_is_named_as_such() -> None:
    with pytest.raises(GroupBytesMalformed):
        decode_metadata(bytes.fromhex(f"0002 {BARE} 00000001 00"))


def test_a_worker_offers_its_protocol_and_the_older_ones() -> None:
    assert offered("sessioned") == ("sessioned", "compatible", "default")
    assert offered("compatible") == ("compatible", "default")
    assert offered("eager") == ("default",)
    with pytest.raises(ValueError, match="default"):
        offered("default")
