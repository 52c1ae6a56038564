"""Dataset folders whose digest fits, whatever else is wrong with them: all that rlox does with one ends in
its rows or in an error of rlox, and takes no more memory than its rows.

A folder comes from elsewhere: who changed its rows can have computed the digest anew. Drawn changes of the
bytes, of the columns and of the document; 300 in CI, thousands nightly. Without the digest's repair:
tests/reliability/test_damaged_datasets.py.
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
from helpers.foreign import columns, spaces_said
from helpers.selection import examples

from rlox.envs.space_text import space_of
from rlox.envs.spaces import ObservationCodec
from rlox.errors import CheckpointError, RloxError, ShapeError
from rlox.offline import converted, exported
from rlox.offline.checked import findings
from rlox.runs.record import dataset_of, write_dataset
from rlox.sources.dataset_file import DATA, DOCUMENT, digest_of, read_about, read_dataset
from rlox.sources.file_columns import file_columns
from rlox_cli.commands.dataset import DatasetConfig
from rlox_cli.datasets import done

COUNT = examples(ci=300, nightly=3_000, full=100_000)
ROOM = 32 << 20  # bytes at most: the rows are thousandths of that
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
TYPES = ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?", "u8"]
NUMBERS = [np.nan, np.inf, -np.inf, 3e38, -1, 2**62, 0]


def damaged_bytes(rng: np.random.Generator, folder: Path) -> None:
    """A few bytes of one of the files are others."""
    path = folder / (DATA, DOCUMENT)[int(rng.integers(2))]
    found = bytearray(path.read_bytes())
    # most of them where the header is
    most = len(found) if rng.integers(3) == 0 else min(len(found), 600)
    for at in rng.integers(0, most, int(rng.integers(1, 4))):
        found[at] = rng.choice(
            [int(rng.integers(256)), ord(str(rng.choice(list('0123456789"[]{},:'))))]
        )
    path.write_bytes(found)


def other_columns(rng: np.random.Generator, folder: Path) -> None:
    """Another type, shape, length or name of a column, or other numbers in it."""
    there = safetensors.numpy.load_file(folder / DATA)
    name = str(rng.choice(list(there)))
    column, how = there[name], int(rng.integers(9))
    if how == 0:
        column = column.reshape(-1).view(np.uint8)
        column = column[: column.size // 8 * 8].view(TYPES[rng.integers(len(TYPES))])
        column = column.reshape(column.size // 15, -1) if column.size % 15 == 0 else column
    elif how == 1:
        column = column.reshape(SHAPES[rng.integers(len(SHAPES))](column))
    elif how == 2:
        column = column[: int(rng.integers(3)) * len(column) // 3]
    elif how == 3:
        column = column[:, :0] if column.ndim > 1 else column[:, None][:, :0]
    elif how == 4:
        with np.errstate(all="ignore"):
            column = column.astype(TYPES[rng.integers(len(TYPES))])
    elif how == 5:
        number = NUMBERS[rng.integers(len(NUMBERS))]
        with np.errstate(all="ignore"):
            column[rng.integers(len(column))] = np.array(number).astype(column.dtype)
    elif how == 6:
        other = str(rng.choice(list(there)))
        column, there[other] = there[other], column
    elif how == 7:
        column = np.array(column.reshape(-1)[0])
    else:
        there["more"] = there.pop(name)
        name = str(rng.choice(["more", "obs", "actions"]))
        column = there.get(name, there["more"])
    # where all columns are cut alike the rows that are left fit
    if rng.integers(4) == 0:
        there = {key: other[: column.size] for key, other in there.items()}
    there[name] = column
    safetensors.numpy.save_file(
        {k: np.array(v, order="C") for k, v in there.items()}, folder / DATA
    )


def other_document(rng: np.random.Generator, folder: Path) -> None:
    """A value somewhere in the document is another one, or is missing."""
    document = json.loads((folder / DOCUMENT).read_text())
    key, value = str(rng.choice(KEYS)), VALUES[rng.integers(len(VALUES))]
    if rng.integers(20) == 0:
        document = value
    elif rng.integers(10) == 0:
        document.pop(key, None)
    elif isinstance(document.get(key), dict) and rng.integers(2):
        document[key][str(rng.choice([*document[key], "\ud800"]))] = value
    else:
        document[key] = value
    (folder / DOCUMENT).write_text(json.dumps(document))


def with_its_digest(folder: Path) -> bool:
    """Write the digest of the rows that there are into the document, where that can be done."""
    try:
        columns_there = {name: column[:] for name, column in file_columns(folder / DATA).items()}
        document = json.loads((folder / DOCUMENT).read_bytes())
        document["digest"] = digest_of(columns_there)
        (folder / DOCUMENT).write_text(json.dumps(document))
    except (RloxError, ValueError, TypeError, LookupError, RecursionError):
        return False
    return True


def use(folder: Path, number: int) -> Columns:
    """All that is done with a dataset; the rows of it."""
    found: Columns = {}
    for most in (0.0, 1e9):
        dataset = read_dataset(folder, most)
        found = {name: np.asarray(column) for name, column in dataset.columns.items()}
    for what in ("show", "check"):
        for as_json in (False, True):
            done(DatasetConfig(what, str(folder), json=as_json), None)
    about = read_about(folder)
    for key in ("observation_space", "action_space"):
        if isinstance(about.get(key), str):
            ObservationCodec.of(space_of(about[key]))
    if number % 10 == 0:
        converted(folder, folder.parent / "again")
        exported(dataset, folder.parent / "out.npz", "npz")
    for most in (0.0, 1e9):
        read_dataset(folder, most).buffer(1).sample(4, 0)
    return found


@pytest.fixture(autouse=True)
def no_bootstraps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the interval of the mean return, which takes most of the time."""
    monkeypatch.setattr("rlox.offline.description.bootstrap_ci", lambda values: (0.0, 1.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("change", [damaged_bytes, other_columns, other_document])
def test_a_forged_dataset_is_read_as_it_is_or_refused(
    change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = spaces_said(spaces.Box(-1, 1, (3,)), spaces.Discrete(4))
    about = {"env": "Some-v0", "scores": {"random": 1.0, "expert": 2.0}, "returns": [1.0], **said}
    rng = np.random.default_rng(len(change.__name__))
    whole, folder = [], tmp_path / "data"
    for kind in (4, (2,)):
        write_dataset(dataset_of(columns(40, action=kind), about), folder)
        whole.append({name: (folder / name).read_bytes() for name in (DATA, DOCUMENT)})
    outcomes = {"refused": 0, "read": 0}
    for number in range(COUNT // 3):
        for name, data in whole[number % 2].items():
            (folder / name).write_bytes(data)
        change(rng, folder)
        fits = with_its_digest(folder)
        tracemalloc.start()
        try:
            rows = use(folder, number)
        except RloxError as error:
            assert str(error)
            outcomes["refused"] += 1
        else:
            expected = safetensors.numpy.load_file(folder / DATA)
            assert fits
            assert rows.keys() == expected.keys()
            for name, column in rows.items():
                np.testing.assert_array_equal(column, expected[name], strict=True)
            outcomes["read"] += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < ROOM, number
        capsys.readouterr()
    assert min(outcomes.values()) > COUNT // 30, outcomes


HOSTILE = [
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


@pytest.mark.parametrize(("said", "told"), HOSTILE)
def test_a_document_that_says_another_type_is_refused_by_name(
    said: dict[str, Any], told: str, tmp_path: Path
) -> None:
    write_dataset(dataset_of(columns(40), {"env": "Some-v0"}), tmp_path)
    document = json.loads((tmp_path / DOCUMENT).read_text())
    (tmp_path / DOCUMENT).write_text(json.dumps(document | said))
    with pytest.raises(CheckpointError, match=rf"dataset\.json: {told}"):
        read_dataset(tmp_path)


def test_a_document_may_leave_out_everything_but_format_and_digest(tmp_path: Path) -> None:
    write_dataset(dataset_of(columns(40), {}), tmp_path)
    document = json.loads((tmp_path / DOCUMENT).read_text())
    assert document.keys() == {"format", "transitions", "digest"}
    nothing = dict.fromkeys(("env", "spec", "scores", "observation_space"))
    (tmp_path / DOCUMENT).write_text(json.dumps(document | nothing))
    assert read_dataset(tmp_path).digest == document["digest"]


@pytest.mark.parametrize("name", ["obs", "actions"])
def test_rows_of_no_numbers_are_refused(name: str, tmp_path: Path) -> None:
    given = columns(40)
    empty = {key: given[key][:, :0] for key in ({"obs", "next_obs"} if name == "obs" else {name})}
    with pytest.raises(ShapeError, match=rf"{name} has shape \(40, 0\), expected rows"):
        dataset_of({**given, **empty}, {})


@pytest.mark.parametrize("name", ["obs", "actions", "rewards"])
def test_a_column_that_is_one_number_is_refused(name: str, tmp_path: Path) -> None:
    write_dataset(dataset_of(columns(40), {}), tmp_path)
    there = safetensors.numpy.load_file(tmp_path / DATA)
    safetensors.numpy.save_file(there | {name: np.array(1.0, np.float32)}, tmp_path / DATA)
    with pytest.raises(ShapeError, match=rf"{name} has shape \(\), expected rows"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("parts", ["[1]", "3", "null", '"x"'])
@pytest.mark.parametrize("kind", ["Dict", "Tuple"])
def test_a_space_whose_parts_are_no_spaces_is_refused(kind: str, parts: str) -> None:
    with pytest.raises(ShapeError, match=r"^a space is not one: "):
        space_of(f'{{"type": "{kind}", "subspaces": {parts}}}')


def test_a_document_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    write_dataset(dataset_of(columns(40), {}), tmp_path)
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(CheckpointError, match=r"is not a dataset: .*Permission denied"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("spec", ["[" * 100_000, "[]", "x", '{"max_episode_steps": "x"}'])
def test_a_specification_that_says_no_time_limit_is_passed_over(spec: str) -> None:
    assert list(findings(columns(40), {"spec": spec})) == []


def test_a_file_that_says_another_type_of_itself_is_not_converted(tmp_path: Path) -> None:
    exported(dataset_of(columns(40), {"scores": [1]}), tmp_path / "x.npz", "npz")
    with pytest.raises(CheckpointError, match=r"x\.npz: scores is \[1\], expected a number"):
        converted(tmp_path / "x.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
