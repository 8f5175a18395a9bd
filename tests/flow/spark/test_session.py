"""How the worker's session is set up."""

from __future__ import annotations

import stat
from pathlib import Path

from penstock.flow.spark.session import Session


def test_the_jvm_and_python_talk_through_local_sockets_that_nobody_else_reaches(
    session: Session,
) -> None:
    spark = session.get()
    assert spark.range(1, numSlices=1).count() == 1
    folder = Path(spark.getConf().get("spark.python.unix.domain.socket.dir") or "")
    assert list(folder.glob(".*.sock"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
