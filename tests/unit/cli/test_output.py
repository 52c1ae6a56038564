"""Tests that a command whose result is its output reports a full disk, and that it ignores a closed pipe."""

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

from rlox_cli.shell.output import NonFailingStream

FULL_DEVICE = Path("/dev/full")


@contextmanager
def redirect_stdout(stream: TextIO) -> Iterator[None]:
    """Redirect standard output to a stream."""
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
def test_a_full_standard_output_ends_a_printing_command_with_5(cli: Cli, args: tuple[str, ...]) -> None:
    with redirect_stdout(FULL_DEVICE.open("w")):
        result = cli(*args)
    assert result.code == 5
    assert "standard output cannot be written: No space left on device" in result.err
    assert "make room there" in result.err


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="the system has no /dev/full")
def test_a_full_standard_output_does_not_change_the_code_of_a_working_command(
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


def test_an_unbuffered_stream_keeps_the_error_of_an_incomplete_write(tmp_path: Path) -> None:
    """As with PYTHONUNBUFFERED: a disk takes a part of a text; then it takes the rest, or refuses it."""

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
