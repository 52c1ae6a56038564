"""Tests datasets in foreign file formats: an export reads back unchanged, and its meaning is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.foreign_datasets import SUFFIX, columns, dataset

from rlox.errors import CheckpointError, ConfigError, MissingExtraError, ShapeError
from rlox.extras import install_command
from rlox.offline import ConversionOptions, convert_dataset, export_dataset
from rlox.offline.foreign import limits, reader_client, readers
from rlox.offline.foreign.formats import detect_format
from rlox.sources import file_columns
from rlox.sources.dataset_file import DATA_FILE, Dataset

KINDS: dict[str, dict[str, Any]] = {
    "vectors": {},
    "one number": {"obs": (1,), "action": (1,)},
    "choices": {"action": 4},
    "long": {"n": 3_000},
}


def arrays(found: Dataset) -> dict[str, Any]:
    return {name: np.asarray(column) for name, column in found.columns.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", SUFFIX)
def test_an_exported_dataset_converts_back_with_equal_rows_and_metadata(
    form: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_columns, "BYTES_PER_READ", 4_000)  # several blocks
    given = dataset(tmp_path / "given", {"env": "Some-v0", "quality": "medium"}, **KINDS[kind])
    path = tmp_path / f"written{SUFFIX[form]}"
    export_dataset(given, path, form)
    assert detect_format(path) == form
    found = convert_dataset(path, tmp_path / "found")
    assert found.digest == given.digest
    assert {"env": "Some-v0", "quality": "medium"}.items() <= found.about.items()
    assert found.about["converted_from"] == {"format": form, "file": path.name}
    assert (tmp_path / "found" / DATA_FILE).read_bytes() == (tmp_path / "given" / DATA_FILE).read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_blocks_of_parquet_rows_are_limited_by_their_decoded_size(
    tmp_path: Path,
) -> None:
    n, width = 400, 28_000
    frames = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n * width, "u1")), width)
    lists = frames.cast(pa.list_(pa.uint8()))
    rest = {name: column for name, column in raw(n).items() if name != "observations"}
    table = {"observations": lists, "next_observations": frames, "unread": lists}
    table |= {name: pa.array(column.tolist()) for name, column in rest.items()}
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    sizes = [len(b["rewards"]) for b in readers.read_parquet(tmp_path / "x.parquet").blocks]
    assert sum(sizes) == n
    assert 100 < max(sizes) <= limits.BYTES_PER_READ // (2 * width)


def d4rl(path: Path, **given: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, column in given.items():
            file[name] = column
    return path


def raw(n: int = 10) -> dict[str, Any]:
    """Makes steps 0 to 9 with observations 0, 1, ...; step 3 terminates, step 7 is truncated."""
    k = np.arange(n)
    return {
        "observations": k[:, None].astype("f8"),
        "actions": np.zeros((n, 1), "f4"),
        "rewards": k.astype("f8"),
        "terminals": k == 3,
        "timeouts": k == 7,
    }


def test_derived_next_observations_are_the_next_rows_without_truncated_steps(
    tmp_path: Path,
) -> None:
    found = arrays(convert_dataset(d4rl(tmp_path / "x.hdf5", **raw()), tmp_path / "a"))
    # the next observations of row 7 and of row 9, the last one, are unknown
    assert found["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 8]
    assert found["next_obs"][:, 0].tolist() == [1, 2, 3, 3, 5, 6, 7, 9]
    assert np.flatnonzero(found["terminated"]).tolist() == [3]
    assert np.flatnonzero(found["truncated"]).tolist() == [6]


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_the_block_size_does_not_change_the_converted_transitions(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlox.offline.foreign.transitions import to_transitions

    rows = columns(200)
    names = ("obs", "actions", "rewards", "terminated", "truncated")

    def joined(size: int, limit: int | None) -> dict[str, Any]:
        parts = ({n: rows[n][i : i + size] for n in names} for i in range(0, 200, size))
        blocks = list(to_transitions(parts, "x", limit))
        return {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}

    for limit in (None, 7, 25, 40):
        one, other = joined(at_once, limit), joined(200, limit)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=f"{name} {limit}")


def test_a_step_cut_off_behind_a_termination_marks_nothing_else(tmp_path: Path) -> None:
    given = raw(4) | {"terminals": np.array([0, 1, 0, 0]), "timeouts": np.array([0, 0, 1, 0])}
    found = arrays(convert_dataset(d4rl(tmp_path / "x.hdf5", **given), tmp_path / "a"))
    assert found["obs"][:, 0].tolist() == [0, 1]
    assert found["truncated"].tolist() == [False, False]


def test_ends_at_a_given_time_limit_are_truncations(tmp_path: Path) -> None:
    given = raw(10) | {"next_observations": np.arange(1.0, 11)[:, None]}
    given["terminals"], given["timeouts"] = np.isin(np.arange(10), (1, 4, 7)), np.zeros(10, bool)
    path = d4rl(tmp_path / "x.hdf5", **given)
    found = convert_dataset(path, tmp_path / "a", ConversionOptions(env="Mine-v0", time_limit=3))
    rows = arrays(found)
    assert np.flatnonzero(rows["terminated"]).tolist() == [1]
    assert np.flatnonzero(rows["truncated"]).tolist() == [4, 7]
    assert (found.about["env"], found.about["time_limit"]) == ("Mine-v0", 3)


def long(n: int = 600) -> dict[str, Any]:
    """Makes episodes of 200 steps that the time limit ends; the file calls these ends terminations."""
    return raw(n) | {"terminals": np.arange(n) % 200 == 199, "timeouts": np.zeros(n, bool)}


UNMARKED = {n: c for n, c in long().items() if n != "timeouts"}
UNENDED = {n: c for n, c in long(601).items() if n != "timeouts"} | {"terminals": np.zeros(601)}


@pytest.mark.parametrize(
    ("form", "given"),
    [*((form, long()) for form in ("rlox", *SUFFIX)), ("rlox", UNMARKED), ("rlox", UNENDED)],
)
def test_a_later_time_limit_gives_the_same_dataset_as_an_immediate_one(
    form: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = d4rl(tmp_path / "x.hdf5", **given)
    much = None if "timeouts" in given else 10_000
    monkeypatch.setattr(file_columns, "BYTES_PER_READ", 2_000)  # several blocks
    first = convert_dataset(path, tmp_path / "first", ConversionOptions(time_limit=much))
    assert first.about["next_obs_derived"] is True
    between = tmp_path / "first"
    if form != "rlox":
        between = tmp_path / f"between{SUFFIX[form]}"
        export_dataset(first, between, form)
    then = convert_dataset(between, tmp_path / "then", ConversionOptions(time_limit=200))
    once = convert_dataset(path, tmp_path / "once", ConversionOptions(time_limit=200))
    found, expected = arrays(then), arrays(once)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)
    assert len(expected["rewards"]) == 597


def test_a_file_without_timeouts_needs_a_time_limit(tmp_path: Path) -> None:
    given = raw()
    del given["timeouts"]
    path = d4rl(tmp_path / "x.hdf5", **given)
    with pytest.raises(ConfigError, match="give time_limit=N"):
        convert_dataset(path, tmp_path / "a")
    more = {**given, "next_observations": np.arange(1.0, 11)[:, None]}
    with pytest.raises(ConfigError, match=r"y\.hdf5 has no timeouts"):
        convert_dataset(d4rl(tmp_path / "y.hdf5", **more), tmp_path / "c")
    assert len(convert_dataset(path, tmp_path / "b", ConversionOptions(time_limit=1000)).columns["obs"]) == 9


def npz(path: Path, **given: Any) -> Path:
    np.savez(path, **given)
    return path


def parquet(path: Path, **given: Any) -> Path:
    pq.write_table(pa.table({n: c.tolist() for n, c in given.items()}), path)
    return path


@pytest.mark.parametrize("write", [d4rl, npz, parquet])
def test_foreign_files_may_use_synonyms_of_column_names(write: Any, tmp_path: Path) -> None:
    given = raw() | {"next_observations": np.arange(1.0, 11)[:, None]}
    names = {
        "observations": "obs",
        "terminals": "terminations",
        "timeouts": "truncated",
        "actions": "action",
    }
    suffix = {d4rl: ".h5", npz: ".npz", parquet: ".parquet"}[write]
    path = write(tmp_path / f"x{suffix}", **{names.get(n, n): c for n, c in given.items()})
    found = arrays(convert_dataset(path, tmp_path / "a"))
    assert found["obs"].dtype == found["rewards"].dtype == np.float32
    assert found["obs"][:, 0].tolist() == list(range(10))
    assert np.flatnonzero(found["truncated"]).tolist() == [7]


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no rewards": ({"rewards": None}, ConfigError, "has no rewards"),
    "two names": ({"obs": np.zeros((10, 1))}, ConfigError, "observations and obs, expected one"),
    "lengths": (
        {"actions": np.zeros((9, 1))},
        CheckpointError,
        "actions has 9 rows for 10 rewards",
    ),
    "flags": ({"terminals": np.full(10, 2)}, CheckpointError, "terminated has 2, expected 0 or 1"),
    "large": ({"rewards": np.full(10, 1e300)}, CheckpointError, "beyond float32"),
    "vectors of rewards": (
        {"rewards": np.zeros((10, 2))},
        ConfigError,
        "expected one number a row",
    ),
    "complex": ({"actions": np.zeros((10, 1), "c8")}, CheckpointError, "expected numbers"),
    "nothing": ({n: c[:0] for n, c in raw().items()}, ShapeError, "no transitions"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_converting_a_malformed_hdf5_dataset_is_refused_with_the_reason(wrong: str, tmp_path: Path) -> None:
    changes, kind, said = WRONG[wrong]
    given = {n: c for n, c in (raw() | changes).items() if c is not None}
    with pytest.raises(kind, match=said):
        convert_dataset(d4rl(tmp_path / "x.hdf5", **given), tmp_path / "a")
    assert not (tmp_path / "a" / "dataset.json").exists()


def test_a_file_that_was_changed_since_it_was_written_is_refused(tmp_path: Path) -> None:
    export_dataset(dataset(tmp_path / "a"), tmp_path / "x.hdf5", "d4rl")
    with h5py.File(tmp_path / "x.hdf5", "a") as file:
        file["rewards"][3] = 7.0
    with pytest.raises(CheckpointError, match="damaged or changed since rlox wrote it"):
        convert_dataset(tmp_path / "x.hdf5", tmp_path / "b")


def test_a_reader_that_dies_or_hangs_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(tmp_path / "x.npz", **raw())
    die = f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    monkeypatch.setattr(reader_client, "READER_COMMAND", (sys.executable, "-c", die))
    with pytest.raises(CheckpointError, match=r"x\.npz ended the process that read it \(signal 11"):
        convert_dataset(path, tmp_path / "a")
    lies = {
        "no arrays": {"columns": [["obs", "O", [3]]]},
        "no list": {"columns": 7},
        "no header": {},
    }
    for said in lies.values():
        text = json.dumps(said).encode()
        lie = f"import os; os.write(1, {len(text).to_bytes(8, 'little') + text!r})"
        monkeypatch.setattr(reader_client, "READER_COMMAND", (sys.executable, "-c", lie))
        with pytest.raises(CheckpointError, match="its reader sent an invalid"):
            convert_dataset(path, tmp_path / "c")
    # with the limits of a real reader, which must not write files
    limits = "from rlox.offline.foreign.reader_process import apply_limits; apply_limits(); "
    much = limits + "import os; os.write(2, b'x' * 1_000_000); os.write(2, b'\\nthe end'); os._exit(3)"
    monkeypatch.setattr(reader_client, "READER_COMMAND", (sys.executable, "-c", much))
    with pytest.raises(CheckpointError, match=r"exit code 3: the end"):
        convert_dataset(path, tmp_path / "d")
    monkeypatch.setattr(
        reader_client, "READER_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)")
    )
    monkeypatch.setattr(reader_client, "READ_TIMEOUT", 0.6)
    with pytest.raises(CheckpointError, match="its reader made no progress"):
        convert_dataset(path, tmp_path / "b")


def test_a_reader_that_closes_its_output_but_does_not_end_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(tmp_path / "x.npz", **raw())
    silent = "import os, time; os.close(1); time.sleep(60)"
    monkeypatch.setattr(reader_client, "READER_COMMAND", (sys.executable, "-c", silent))
    monkeypatch.setattr(reader_client, "READ_TIMEOUT", 0.6)
    with pytest.raises(CheckpointError, match="its reader made no progress"):
        convert_dataset(path, tmp_path / "a")


def test_a_reader_ends_with_the_conversion_even_if_its_error_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(tmp_path / "x.npz", **(raw(1_000_000) | {"rewards": np.full(1_000_000, 1e300)}))
    program = (
        "import os, sys; from pathlib import Path\n"
        "from rlox.offline.foreign.reader_process import write_frames\n"
        f"Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "write_frames(sys.stdout.buffer, sys.argv[1], Path(sys.argv[2]))\n"
    )
    monkeypatch.setattr(reader_client, "READER_COMMAND", (sys.executable, "-c", program))
    with pytest.raises(CheckpointError, match="beyond float32") as caught:
        convert_dataset(path, tmp_path / "a")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert caught.value.__traceback__ is not None


def test_a_missing_package_is_named_with_the_extra(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", **raw())
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("h5py", "minari", "pyarrow"):
        (hidden / f"{name}.py").write_text("raise ImportError('not here')")
    program = (
        "import sys; from pathlib import Path; from rlox.offline import *\n"
        "given = convert_dataset(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "for form in ('d4rl', 'minari', 'parquet'):\n"
        "    try: export_dataset(given, Path(sys.argv[2]) / form, form)\n"
        "    except ImportError as error: print(error)\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", program, path, tmp_path / "a"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.count(install_command("datasets")) == 3
    d4rl(tmp_path / "x.hdf5", **raw())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", env["PYTHONPATH"])
        with pytest.raises(MissingExtraError, match=r"h5py reads: pip install 'h5py"):
            convert_dataset(tmp_path / "x.hdf5", tmp_path / "c")


def test_paths_may_be_texts_and_other_things_are_refused(tmp_path: Path) -> None:
    found = convert_dataset(str(npz(tmp_path / "x.npz", **raw())), str(tmp_path / "a"))
    export_dataset(found, str(tmp_path / "y.parquet"), "parquet")
    assert detect_format(tmp_path / "y.parquet") == "parquet"
    with pytest.raises(ConfigError, match="format 'csv' cannot be written, expected one of d4rl"):
        export_dataset(found, tmp_path / "y.csv", "csv")
    with pytest.raises(ConfigError, match="dataset is a str, expected"):
        export_dataset("a", tmp_path / "y.npz", "npz")  # type: ignore[arg-type]


def test_an_npz_whose_sum_is_wrong_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", **raw(100_000))
    data = bytearray(path.read_bytes())
    data[data.rindex(b"rewards.npy") - 46 + 16] ^= 1  # a bit of the checksum in the list of members
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"rewards\.npy is damaged: Bad CRC"):
        convert_dataset(path, tmp_path / "a")
