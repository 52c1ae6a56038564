"""Standard output that takes no more: a full disk is told where the output is all, a closed pipe is not."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from helpers.cli import Cli

from rlox_cli.output import NonFailingStream

FULL_DEVICE = Path("/dev/full")


@contextmanager
def redirect_stdout(stream: TextIO) -> Iterator[None]:
    """Standard output is a stream."""
    with stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    "args",
    [
        ("completion", "bash"),
        ("list", "algo"),
        ("train", "--cfg", "job"),
        ("resume", "--help"),
        ("dataset", "--help"),
        ("--help",),
        ("--version",),
    ],
)
def test_output_that_a_full_disk_cut_short_ends_with_5(cli: Cli, args: tuple[str, ...]) -> None:
    with redirect_stdout(FULL_DEVICE.open("w")):
        result = cli(*args)
    assert result.code == 5
    assert "standard output cannot be written: No space left on device" in result.err
    assert "make room there" in result.err


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="the system has no /dev/full")
def test_work_that_is_done_ends_with_its_own_code_whatever_its_display(
    cli: Cli,
) -> None:
    with redirect_stdout(FULL_DEVICE.open("w")):
        assert cli("train", "total_steps=256", "dry_run=true").code == 0
    with redirect_stdout(FULL_DEVICE.open("w")):
        assert cli("dataset", "make", "nowhere", "policy=random").code == 2


def test_a_pipe_that_nobody_reads_is_dropped_in_silence(cli: Cli) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with redirect_stdout(os.fdopen(writer, "w")):
        result = cli("completion", "bash")
    assert (result.code, result.err) == (0, "")


def test_a_stream_without_a_buffer_says_what_it_could_not_write(tmp_path: Path) -> None:
    """As PYTHONUNBUFFERED makes it: a disk that takes a part of a text takes the rest, or refuses it."""

    class Nearly(io.FileIO):
        def write(self, data: Any) -> int:
            if self.tell() >= 10:
                raise OSError(errno.EFBIG, "File too large")
            return super().write(data[: 10 - self.tell()])

    with Nearly(tmp_path / "shown", "w") as raw:
        shown = NonFailingStream(io.TextIOWrapper(cast(Any, raw), "utf-8", write_through=True))
        shown.write("0123456789 and more")
        assert shown.disk_full_error is not None and shown.disk_full_error.errno == errno.EFBIG
    assert (tmp_path / "shown").read_text() == "0123456789"
