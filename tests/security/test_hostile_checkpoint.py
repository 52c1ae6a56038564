"""Tests untrusted checkpoints: a typed error or the same data; no code runs, memory stays small."""

from __future__ import annotations

import hashlib
import json
import random
import resource
import shutil
import sys
import tracemalloc
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.report import record
from helpers.selection import FULL

from rlox.algorithms import PPO
from rlox.errors import CheckpointError, RloxError
from rlox.runs.checkpoint import Checkpoint, read_checkpoint

MUTANTS = 2_000 if FULL else 300
PARTS = ("state.json", "weights.safetensors", "optimizer.safetensors", "state.safetensors")
SPARE = 256 << 20  # a wrong size that rlox believes takes gigabytes
FORBIDDEN = (
    "pickle.", "marshal.", "exec", "compile", "subprocess.", "os.system", "os.exec", "os.spawn",
    "os.posix_spawn", "ctypes.dlopen", "socket.connect", "shutil.unpack",
)  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "good"
    algorithm = PPO("CartPole-v1", n_envs=2, n_steps=16, net_arch=(4,), normalize_obs=True)
    algorithm.train(64)
    algorithm.save(folder)
    return folder


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def sign(folder: Path, change: Callable[[dict[str, Any]], None] = lambda manifest: None) -> None:
    """Correct the sizes and checksums, so that the code behind them runs."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for name in PARTS:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "blake2b": digest(data)}
    change(manifest)
    manifest.pop("blake2b", None)
    manifest["blake2b"] = digest(json.dumps(manifest, sort_keys=True).encode())
    (folder / "manifest.json").write_text(json.dumps(manifest))


class Watch:
    """Records audit events of code that is run or loaded, while `on`; a hook cannot be removed again."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on or not event.startswith(FORBIDDEN):
            return
        # `typing` compiles the annotations of rlox's own configuration classes
        if sys._getframe(1).f_code.co_filename != typing.__file__:
            self.seen.append(f"{event}{args!r:.80}")


@pytest.fixture(scope="module")
def watch(good: Path) -> Watch:
    PPO.from_checkpoint(good)  # imports all late modules now
    return Watch()


def leaves(saved: Checkpoint) -> str:
    """Return all the data as comparable text, with a hash of every array."""

    def plain(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {k: plain(v) for k, v in tree.items()}
        if isinstance(tree, list):
            return [plain(v) for v in tree]
        if isinstance(tree, str | int | float | None):
            return tree
        array = np.asarray(tree)
        return [str(array.dtype), array.shape, digest(np.ascontiguousarray(array).tobytes())]

    return json.dumps([plain(vars(saved)[name]) for name in sorted(vars(saved))], sort_keys=True)


def check_refused_or_equal(folder: Path, good: Path | None, watch: Watch) -> str:
    """Load the folder under the hook; return `refused`, `equal`, or `loaded` (only if `good` is None)."""
    size = sum(p.stat().st_size for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.on = True
    tracemalloc.start()
    try:
        saved = read_checkpoint(folder)
        if good is None:
            PPO.from_checkpoint(folder).close()
        kind = "loaded"
    except RloxError as error:
        assert str(folder) in str(error) or good is None, error
        kind = "refused"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        watch.on = False
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    seen, watch.seen = watch.seen, []
    assert seen == []
    assert peak < size + SPARE
    assert grown < size + SPARE
    if kind == "loaded" and good is not None:
        assert leaves(saved) == leaves(read_checkpoint(good))
        return "equal"
    return kind


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def swapped(data: bytes, chance: random.Random) -> bytes:
    a, b = sorted(chance.sample(range(len(data)), 2))
    return data[:a] + data[b:] + data[a:b]


def filled(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(16) + data[at + 16 :]


DAMAGES = (flipped, cut, swapped, filled)


def test_random_damage_is_refused_or_changes_nothing(good: Path, watch: Watch, tmp_path: Path) -> None:
    chance = random.Random(11)
    counts = {"refused": 0, "equal": 0}
    folder = tmp_path / "mutant"
    for _ in range(MUTANTS // 2):
        shutil.copytree(good, folder)
        path = folder / chance.choice(("manifest.json", *PARTS))
        data = path.read_bytes()
        path.write_bytes(chance.choice(DAMAGES)(data, chance))
        counts[check_refused_or_equal(folder, good, watch)] += 1
        shutil.rmtree(folder)
    record("hostile checkpoints, random damage", {"mutants": MUTANTS // 2, **counts, "code run": 0})
    assert counts["refused"] > MUTANTS // 2 * 0.95


def test_random_damage_with_right_checksums_is_refused_or_loads_as_data(
    good: Path, watch: Watch, tmp_path: Path
) -> None:
    chance = random.Random(12)
    counts = {"refused": 0, "loaded": 0}
    folder = shutil.copytree(good, tmp_path / "mutant")
    sign(folder)
    assert check_refused_or_equal(folder, None, watch) == "loaded"  # else nothing here is reached
    shutil.rmtree(folder)
    for _ in range(MUTANTS // 2):
        shutil.copytree(good, folder)
        path = folder / chance.choice(PARTS)
        data = path.read_bytes()
        head = int.from_bytes(data[:8], "little") + 8 if path.suffix == ".safetensors" else len(data)
        path.write_bytes(chance.choice(DAMAGES)(data[:head], chance) + data[head:])
        sign(folder)
        counts[check_refused_or_equal(folder, None, watch)] += 1
        shutil.rmtree(folder)
    record("hostile checkpoints, signed damage", {"mutants": MUTANTS // 2, **counts, "code run": 0})
    assert counts["refused"] > MUTANTS // 20


def tensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file of any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(shape: list[Any], end: int = 8, dtype: str = "F32") -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


FILES: dict[str, tuple[str, bytes]] = {
    "a header of 2^63 bytes": ("weights.safetensors", tensors({}, length=2**63)),
    "a header of 2^62 bytes": ("weights.safetensors", tensors({}, length=2**62)),
    "a header of 99 MB that is not there": ("weights.safetensors", tensors({}, length=99_000_000)),
    "a shape of 2^63": ("weights.safetensors", tensors(entry([2**63]), bytes(8))),
    "a shape of 2^40 x 2^40": ("weights.safetensors", tensors(entry([2**40, 2**40]), bytes(8))),
    "a shape of 2^62 x 4, which is 0": ("weights.safetensors", tensors(entry([2**62, 4], 0))),
    "a negative shape": ("weights.safetensors", tensors(entry([-2]), bytes(8))),
    "offsets beyond the end": ("weights.safetensors", tensors(entry([2**30], 2**32), bytes(8))),
    "an unknown dtype": ("weights.safetensors", tensors(entry([2], dtype="O"), bytes(8))),
    "a header that is deep": ("state.safetensors", tensors(b"[" * 200_000)),
    "a header of text": ("state.safetensors", tensors(b"\"cos\nsystem\n(S'id'\ntR.\"")),
    "a pickle": (
        "state.safetensors",
        b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix.",
    ),
    "duplicate tensors": (
        "weights.safetensors",
        tensors(
            b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
            b'"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
            bytes(8),
        ),
    ),
    "deep JSON": ("state.json", b'{"config":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep JSON that parses": ("state.json", b'{"a":' * 900 + b"1" + b"}" * 900),
    "a number of 10^6 digits": ("state.json", b'{"config":' + b"9" * 1_000_000 + b"}"),
    "an array in place of the state": ("state.json", b"[]"),
    "null": ("state.json", b"null"),
    "no UTF-8": ("state.json", b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_made_up_file_with_right_checksums_is_refused(
    what: str, good: Path, watch: Watch, tmp_path: Path
) -> None:
    folder = shutil.copytree(good, tmp_path / "made up")
    name, data = FILES[what]
    (folder / name).write_bytes(data)
    sign(folder)
    assert check_refused_or_equal(folder, None, watch) == "refused"


def set_in(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        node = manifest
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value

    return change


WEIGHTS = ("files", "weights.safetensors")
FIELDS = [("format",), ("clock",), ("logs",), ("files",), ("clock", "env_steps"), WEIGHTS]
FIELDS += [(*WEIGHTS, "bytes"), (*WEIGHTS, "blake2b")]
ODD: list[Any] = [None, "text", -1, 2**63, 1e308, [], {}, [[1]], {"$array": "x"}, True]


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_a_manifest_field_of_another_type_is_refused_or_changes_nothing(
    field: tuple[str, ...], good: Path, watch: Watch, tmp_path: Path
) -> None:
    for number, value in enumerate(ODD):
        folder = shutil.copytree(good, tmp_path / str(number))
        sign(folder, set_in(*field, value=value))
        kind = check_refused_or_equal(folder, None, watch)
        harmless: dict[str, list[Any]] = {"format": [True], "clock": [{}], "logs": [{}]}
        allowed = harmless.get(".".join(field), [])
        if field == ("clock", "env_steps"):
            allowed = [-1, 2**63, 1e308, True]  # these are numbers; restoring the run refuses them
        assert kind == "refused" or value in allowed, (field, value)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "weights.safetensors/../x"])
def test_a_path_in_the_manifest_is_never_followed(
    name: str, good: Path, watch: Watch, tmp_path: Path
) -> None:
    folder = shutil.copytree(good, tmp_path / "in")
    (tmp_path / "outside").write_bytes((good / "weights.safetensors").read_bytes())
    opened: list[str] = []
    on = [True]
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if on and event == "open" else None)

    def move(manifest: dict[str, Any]) -> None:
        manifest["files"][name] = manifest["files"].pop("weights.safetensors")

    sign(folder, move)
    opened.clear()
    kind = check_refused_or_equal(folder, None, watch)
    on.clear()
    assert kind == "refused"
    assert {Path(p).name for p in opened} <= {"manifest.json"}


@pytest.mark.parametrize("name", ["manifest.json", *PARTS])
def test_a_checkpoint_with_a_symbolic_link_is_refused(
    name: str, good: Path, watch: Watch, tmp_path: Path
) -> None:
    folder = shutil.copytree(good, tmp_path / "linked")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert check_refused_or_equal(folder, good, watch) == "refused"


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors"])
def test_a_folder_or_pipe_in_place_of_a_file_is_refused(
    name: str, good: Path, watch: Watch, tmp_path: Path
) -> None:
    import os

    for kind in ("folder", "pipe"):
        folder = shutil.copytree(good, tmp_path / kind)
        (folder / name).unlink()
        if kind == "folder":
            (folder / name).mkdir()
        else:
            os.mkfifo(folder / name)
        assert check_refused_or_equal(folder, good, watch) == "refused"


def test_a_state_that_names_a_missing_array_is_refused(good: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(good, tmp_path / "names")
    state = json.loads((folder / "state.json").read_bytes())
    state["weights"] = {"x": {"$tensor": "../../etc/passwd"}}
    (folder / "state.json").write_text(json.dumps(state))
    sign(folder)
    with pytest.raises(CheckpointError, match="no array"):
        read_checkpoint(folder)


def test_a_huge_manifest_is_refused_before_it_is_read(good: Path, watch: Watch, tmp_path: Path) -> None:
    folder = shutil.copytree(good, tmp_path / "huge")
    with (folder / "manifest.json").open("r+b") as file:
        file.truncate(1 << 40)  # a sparse file takes no space on the disk
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read_checkpoint(folder)


def test_the_audit_watch_detects_unpickling_and_executed_code(watch: Watch) -> None:
    import pickle

    watch.on = True
    pickle.loads(pickle.dumps(Path))
    exec("1")
    watch.on = False
    found, watch.seen = watch.seen, []
    assert any("pickle.find_class" in s for s in found)
    assert any(s.startswith("exec") for s in found)
