"""Tests disks without some operations: links, syncing of folders, locks."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from faults.disk import FaultyDisk

from rlox.disk import Disk, is_transient, link_target, lock_file
from rlox.errors import StorageError

NEVER = [
    errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOSYS,
    errno.ENOTDIR, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EROFS, errno.EXDEV,
]  # fmt: skip
PASSES = [
    errno.EACCES, errno.EAGAIN, errno.EBUSY, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.EMLINK,
    errno.ENFILE, errno.ENODEV, errno.ENOENT, errno.ENOLCK, errno.ENOMEM, errno.ENOSPC, errno.ENOTCONN,
    errno.ENOTEMPTY, errno.ENXIO, errno.EREMOTEIO, errno.ESTALE, errno.ETIMEDOUT, errno.ETXTBSY,
]  # fmt: skip


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_disk_without_links_keeps_the_name_in_a_file(refusal: int, tmp_path: Path) -> None:
    for target in ("step-1", "step-2"):
        with FaultyDisk(1, until=9**9, error=refusal, only="symlink"):
            Disk().link(tmp_path / "last", target)
        assert not (tmp_path / "last").is_symlink()
        assert link_target(tmp_path / "last") == target
    Disk().link(tmp_path / "last", "step-3")  # later, on a disk with links
    assert (tmp_path / "last").is_symlink()
    assert link_target(tmp_path / "last") == "step-3"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_link_that_cannot_be_put_into_its_place_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "mine").touch()
    with pytest.raises(OSError):
        Disk().link(tmp_path / "last", "step-1")
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
    assert link_target(tmp_path / "last") is None


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_refuses_to_sync_folders_is_no_error(refusal: int, tmp_path: Path) -> None:
    with FaultyDisk(1, error=refusal) as disk:
        Disk().sync_folder(tmp_path)
    assert disk.failed == ["fsync"]
    with FaultyDisk(1, error=errno.EIO), pytest.raises(OSError):
        Disk().sync_folder(tmp_path)


def test_only_errors_that_may_pass_are_transient() -> None:
    wrapped = StorageError("cannot write")
    wrapped.__cause__ = OSError(errno.EROFS, "read-only")
    assert [errno.errorcode[n] for n in NEVER if is_transient(OSError(n, ""))] == []
    assert [errno.errorcode[n] for n in PASSES if not is_transient(OSError(n, ""))] == []
    assert not is_transient(wrapped)
    assert is_transient(StorageError("the disk is full"))


def test_a_lock_excludes_a_second_holder_and_some_disks_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = (os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock_file(mine)
    with pytest.raises(BlockingIOError):
        lock_file(theirs)

    def none(*args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    assert not lock_file(theirs)
    for descriptor in (mine, theirs):
        os.close(descriptor)


def test_a_write_through_a_link_is_refused_and_keeps_the_links_target(
    tmp_path: Path,
) -> None:
    victim, link = tmp_path / "victim", tmp_path / ".config.yaml.new"
    victim.write_text("kept")
    link.symlink_to(victim)
    with pytest.raises(OSError, match="Too many levels of symbolic links") as refused:
        Disk().write(link, b"overwritten")
    assert victim.read_text() == "kept"
    assert not is_transient(refused.value)  # rlox does not wait until the link is gone
