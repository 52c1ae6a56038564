"""Tests dataset folders with a matching digest but other defects. Each use of one returns its rows or raises
an error of rlox, and takes no more memory than the rows.

A folder may come from a stranger, who can change rows and compute the digest again. The changes of bytes,
columns and document are random; 300 in CI, thousands nightly. tests/reliability/test_damaged_datasets.py
tests changes without a new digest.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from gymnasium import spaces
from helpers.foreign_datasets import columns, spaces_metadata
from helpers.selection import examples

from rlox.envs.parts_codec import codec_of
from rlox.envs.space_json import space_from_json
from rlox.errors import CheckpointError, RloxError, ShapeError
from rlox.offline import convert_dataset, export_dataset
from rlox.offline.checks import find_problems
from rlox.runs.record import make_dataset, write_dataset
from rlox.sources.dataset_file import (
    DATA_FILE,
    DOCUMENT_FILE,
    digest_of,
    read_dataset,
    read_document,
)
from rlox.sources.file_columns import read_file_columns
from rlox_cli.commands.dataset import DatasetConfig
from rlox_cli.runs.datasets import run_dataset_command

N_EXAMPLES = examples(ci=300, nightly=3_000, full=100_000)
MAX_BYTES = 32 << 20  # the rows are thousandths of that
Columns = dict[str, np.ndarray]
Change = Callable[[np.random.Generator, Path], None]

VALUES: list[Any] = [
    None, True, 0, -1, 2**63, 10**400, 1.5, float("nan"), "", "x", "1", "[]", "{}", [], [1], {}, {"x": 1},
    {"x": "y"}, {"x": None}, [[["x"]]], "\ud800", '{"type": "Discrete", "n": -1}',
    '{"type": "Dict", "subspaces": [1]}', '{"type": "Tuple", "subspaces": {"a": 1}}',
    '{"type": "MultiBinary", "n": 1099511627776}', '{"type": "MultiDiscrete", "nvec": [[1], [2, 3]]}',
    '{"type": "Box", "dtype": "float32", "shape": [1099511627776], "low": 0, "high": 1}',
    '{"type": "Box", "dtype": "O", "shape": [1], "low": [0], "high": [1]}', '{"max_episode_steps": "x"}',
    '{"max_episode_steps": 1' + "0" * 400 + "}", '{"max_episode_steps": true}',
    "[" * 100_000,
]  # fmt: skip
KEYS = [
    "env", "algo", "quality", "checkpoint", "scores", "spec", "observation_space", "action_space", "format",
    "digest", "returns", "transitions", "time_limit", "converted_from", "rlox", "behaviour",
]  # fmt: skip
SHAPES: list[Callable[[np.ndarray], tuple[int, ...]]] = [
    lambda a: (a.size,),
    lambda a: (*a.shape, 1),
    lambda a: (1, *a.shape),
    lambda a: (len(a), -1, 1, 1, 1),
    lambda a: a.shape[::-1],
    lambda a: (a.size, 1),
]
DTYPES = ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?", "u8"]
NUMBERS = [np.nan, np.inf, -np.inf, 3e38, -1, 2**62, 0]


def damage_bytes(rng: np.random.Generator, folder: Path) -> None:
    """Change a few bytes of one of the files."""
    path = folder / (DATA_FILE, DOCUMENT_FILE)[int(rng.integers(2))]
    data = bytearray(path.read_bytes())
    # most changes are in the header
    limit = len(data) if rng.integers(3) == 0 else min(len(data), 600)
    for position in rng.integers(0, limit, int(rng.integers(1, 4))):
        data[position] = rng.choice([int(rng.integers(256)), ord(str(rng.choice(list('0123456789"[]{},:'))))])
    path.write_bytes(data)


def change_columns(rng: np.random.Generator, folder: Path) -> None:
    """Change the type, shape, length or name of a column, or its numbers."""
    columns_by_name = safetensors.numpy.load_file(folder / DATA_FILE)
    name = str(rng.choice(list(columns_by_name)))
    column, kind = columns_by_name[name], int(rng.integers(9))
    if kind == 0:
        column = column.reshape(-1).view(np.uint8)
        column = column[: column.size // 8 * 8].view(DTYPES[rng.integers(len(DTYPES))])
        column = column.reshape(column.size // 15, -1) if column.size % 15 == 0 else column
    elif kind == 1:
        column = column.reshape(SHAPES[rng.integers(len(SHAPES))](column))
    elif kind == 2:
        column = column[: int(rng.integers(3)) * len(column) // 3]
    elif kind == 3:
        column = column[:, :0] if column.ndim > 1 else column[:, None][:, :0]
    elif kind == 4:
        with np.errstate(all="ignore"):
            column = column.astype(DTYPES[rng.integers(len(DTYPES))])
    elif kind == 5:
        number = NUMBERS[rng.integers(len(NUMBERS))]
        with np.errstate(all="ignore"):
            column[rng.integers(len(column))] = np.array(number).astype(column.dtype)
    elif kind == 6:
        other = str(rng.choice(list(columns_by_name)))
        column, columns_by_name[other] = columns_by_name[other], column
    elif kind == 7:
        column = np.array(column.reshape(-1)[0])
    else:
        columns_by_name["more"] = columns_by_name.pop(name)
        name = str(rng.choice(["more", "obs", "actions"]))
        column = columns_by_name.get(name, columns_by_name["more"])
    # if all columns are cut alike, the remaining rows fit
    if rng.integers(4) == 0:
        columns_by_name = {key: other[: column.size] for key, other in columns_by_name.items()}
    columns_by_name[name] = column
    safetensors.numpy.save_file(
        {k: np.array(v, order="C") for k, v in columns_by_name.items()}, folder / DATA_FILE
    )


def change_document(rng: np.random.Generator, folder: Path) -> None:
    """Change or remove a value somewhere in the document."""
    document = json.loads((folder / DOCUMENT_FILE).read_text())
    key, value = str(rng.choice(KEYS)), VALUES[rng.integers(len(VALUES))]
    if rng.integers(20) == 0:
        document = value
    elif rng.integers(10) == 0:
        document.pop(key, None)
    elif isinstance(document.get(key), dict) and rng.integers(2):
        document[key][str(rng.choice([*document[key], "\ud800"]))] = value
    else:
        document[key] = value
    (folder / DOCUMENT_FILE).write_text(json.dumps(document))


def write_digest(folder: Path) -> bool:
    """Write the digest of the present rows into the document; return whether that was possible."""
    try:
        columns_by_name = {name: column[:] for name, column in read_file_columns(folder / DATA_FILE).items()}
        document = json.loads((folder / DOCUMENT_FILE).read_bytes())
        document["digest"] = digest_of(columns_by_name)
        (folder / DOCUMENT_FILE).write_text(json.dumps(document))
    except (RloxError, ValueError, TypeError, LookupError, RecursionError):
        return False
    return True


def use_dataset(folder: Path, number: int) -> Columns:
    """Do everything that rlox does with a dataset, and return its rows."""
    rows: Columns = {}
    for max_bytes in (0.0, 1e9):
        dataset = read_dataset(folder, max_bytes)
        rows = {name: np.asarray(column) for name, column in dataset.columns.items()}
    for action in ("show", "check"):
        for as_json in (False, True):
            run_dataset_command(DatasetConfig(action, str(folder), json=as_json), None)
    metadata = read_document(folder)
    for key in ("observation_space", "action_space"):
        if isinstance(metadata.get(key), str):
            codec_of(space_from_json(metadata[key]))
    if number % 10 == 0:
        convert_dataset(folder, folder.parent / "again")
        export_dataset(dataset, folder.parent / "out.npz", "npz")
    for max_bytes in (0.0, 1e9):
        read_dataset(folder, max_bytes).buffer(1).sample(4, 0)
    return rows


@pytest.fixture(autouse=True)
def skip_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the interval of the mean return, which takes most of the time."""
    monkeypatch.setattr("rlox.offline.description.bootstrap_ci", lambda values: (0.0, 1.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("change", [damage_bytes, change_columns, change_document])
def test_a_forged_dataset_is_refused_or_returns_its_stored_rows(
    change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = spaces_metadata(spaces.Box(-1, 1, (3,)), spaces.Discrete(4))
    about = {"env": "Some-v0", "scores": {"random": 1.0, "expert": 2.0}, "returns": [1.0], **said}
    rng = np.random.default_rng(len(change.__name__))
    whole, folder = [], tmp_path / "data"
    for kind in (4, (2,)):
        write_dataset(make_dataset(columns(40, action=kind), about), folder)
        whole.append({name: (folder / name).read_bytes() for name in (DATA_FILE, DOCUMENT_FILE)})
    outcomes = {"refused": 0, "read": 0}
    for number in range(N_EXAMPLES // 3):
        for name, data in whole[number % 2].items():
            (folder / name).write_bytes(data)
        change(rng, folder)
        fits = write_digest(folder)
        tracemalloc.start()
        try:
            rows = use_dataset(folder, number)
        except RloxError as error:
            assert str(error)
            outcomes["refused"] += 1
        else:
            expected = safetensors.numpy.load_file(folder / DATA_FILE)
            assert fits
            assert rows.keys() == expected.keys()
            for name, column in rows.items():
                np.testing.assert_array_equal(column, expected[name], strict=True)
            outcomes["read"] += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MAX_BYTES, number
        capsys.readouterr()
    assert min(outcomes.values()) > N_EXAMPLES // 30, outcomes


INVALID_DOCUMENTS = [
    ({"env": 3}, "env is 3, expected text"),
    ({"algo": ["x"] * 100}, r"algo is \['x', 'x', .{60,70}\.\.\., expected text"),
    ({"quality": "\ud800"}, "quality is '.ud800', expected text"),
    ({"spec": {}}, "spec is {}, expected text"),
    ({"action_space": False}, "action_space is False, expected text"),
    ({"scores": [1]}, r"scores is \[1\], expected a number for each name"),
    ({"scores": {"random": "1"}}, "scores is {'random': '1'}, expected a number for each name"),
    (
        {"scores": {"random": 10**400}},
        "scores is {'random': 10+.*, expected a number for each name",
    ),
    ({"scores": {"\ud800": 1}}, "scores is {'.ud800': 1}, expected a number for each name"),
]


@pytest.mark.parametrize(("said", "told"), INVALID_DOCUMENTS)
def test_a_document_field_of_a_wrong_type_is_refused_by_name(
    said: dict[str, Any], told: str, tmp_path: Path
) -> None:
    write_dataset(make_dataset(columns(40), {"env": "Some-v0"}), tmp_path)
    document = json.loads((tmp_path / DOCUMENT_FILE).read_text())
    (tmp_path / DOCUMENT_FILE).write_text(json.dumps(document | said))
    with pytest.raises(CheckpointError, match=rf"dataset\.json: {told}"):
        read_dataset(tmp_path)


def test_a_document_may_leave_out_everything_but_format_and_digest(tmp_path: Path) -> None:
    write_dataset(make_dataset(columns(40), {}), tmp_path)
    document = json.loads((tmp_path / DOCUMENT_FILE).read_text())
    assert document.keys() == {"format", "transitions", "digest"}
    nothing = dict.fromkeys(("env", "spec", "scores", "observation_space"))
    (tmp_path / DOCUMENT_FILE).write_text(json.dumps(document | nothing))
    assert read_dataset(tmp_path).digest == document["digest"]


@pytest.mark.parametrize("name", ["obs", "actions"])
def test_rows_without_columns_are_refused(name: str, tmp_path: Path) -> None:
    given = columns(40)
    empty = {key: given[key][:, :0] for key in ({"obs", "next_obs"} if name == "obs" else {name})}
    with pytest.raises(ShapeError, match=rf"{name} has shape \(40, 0\), expected rows"):
        make_dataset({**given, **empty}, {})


@pytest.mark.parametrize("name", ["obs", "actions", "rewards"])
def test_a_column_that_is_one_number_is_refused(name: str, tmp_path: Path) -> None:
    write_dataset(make_dataset(columns(40), {}), tmp_path)
    there = safetensors.numpy.load_file(tmp_path / DATA_FILE)
    safetensors.numpy.save_file(there | {name: np.array(1.0, np.float32)}, tmp_path / DATA_FILE)
    with pytest.raises(ShapeError, match=rf"{name} has shape \(\), expected rows"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("parts", ["[1]", "3", "null", '"x"'])
@pytest.mark.parametrize("kind", ["Dict", "Tuple"])
def test_a_space_whose_parts_are_no_spaces_is_refused(kind: str, parts: str) -> None:
    with pytest.raises(ShapeError, match=r"^not the JSON of a space: "):
        space_from_json(f'{{"type": "{kind}", "subspaces": {parts}}}')


def test_a_document_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    write_dataset(make_dataset(columns(40), {}), tmp_path)
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(CheckpointError, match=r"is not a dataset: .*Permission denied"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("spec", ["[" * 100_000, "[]", "x", '{"max_episode_steps": "x"}'])
def test_a_specification_without_a_valid_time_limit_is_ignored(spec: str) -> None:
    assert list(find_problems(columns(40), {"spec": spec})) == []


def test_a_file_with_metadata_of_a_wrong_type_is_not_converted(tmp_path: Path) -> None:
    export_dataset(make_dataset(columns(40), {"scores": [1]}), tmp_path / "x.npz", "npz")
    with pytest.raises(CheckpointError, match=r"x\.npz: scores is \[1\], expected a number"):
        convert_dataset(tmp_path / "x.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
