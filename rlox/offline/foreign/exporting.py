"""A dataset in the files of others."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.space_text import space_of
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install
from rlox.offline.description import lengths_of
from rlox.offline.foreign.kinds import ALIASES, MINARI_FILES, NOTE, format_of
from rlox.sources.dataset_file import Dataset
from rlox.sources.file_columns import blocks

__all__ = ["exported"]

CHOICES = (spaces.Discrete, spaces.MultiDiscrete)


def exported(dataset: Dataset, path: Path | str, kind: str) -> None:
    """Write `path`, a file or for Minari a folder, in place of what is there; half of one is none.

    `RloxError`s name what a format cannot hold; `MissingExtraError` the package that writes it.
    """
    writers = {"d4rl": _d4rl, "minari": _minari, "npz": _npz, "parquet": _parquet}
    if kind not in writers:
        raise ConfigError(f"format {kind!r} is not written, expected one of {', '.join(writers)}")
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset is a {type(dataset).__name__}, expected what read_dataset or converted gives"
        )
    write, path = writers[kind], Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    _require_replaceable(path, kind)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        new = Path(scratch) / path.name
        write(dataset, new)
        if path.is_dir():
            path.replace(Path(scratch) / "old")
        new.replace(path)


def _require_replaceable(path: Path, kind: str) -> None:
    """`ConfigError` where writing `path` would take away something else than a dataset of `kind`."""
    if not path.exists():
        return
    if path.is_dir() != (kind == "minari") or (path.is_dir() and format_of(path) != kind):
        raise ConfigError(f"{path} is there and no {kind}; choose another name")
    # a folder is replaced whole, and metadata.json is a name that others use too
    there = {str(p.relative_to(path)) for p in path.rglob("*")} if path.is_dir() else set[str]()
    if others := there - {"data", *(f"data/{name}" for name in MINARI_FILES)}:
        raise ConfigError(
            f"{path} is a folder with other files ({min(others)}), expected those of Minari alone, data/ "
            f"with {' and '.join(MINARI_FILES)}; choose another name"
        )


def _note(dataset: Dataset) -> str:
    return json.dumps({**dataset.about, "digest": dataset.digest})


def _named(dataset: Dataset) -> Iterator[tuple[str, Any]]:
    """Columns by the names that D4RL gives them."""
    for column, names in ALIASES.items():
        yield names[0], dataset.columns[column]


def _extra(package: str, error: ImportError) -> MissingExtraError:
    return MissingExtraError(f"{package} writes this format: {install('datasets')} ({error})")


def _d4rl(dataset: Dataset, path: Path) -> None:
    try:
        import h5py
    except ImportError as error:
        raise _extra("h5py", error) from error
    with h5py.File(path, "w") as file:
        file.attrs[NOTE] = _note(dataset)
        for name, column in _named(dataset):
            there = file.create_dataset(
                name, column.shape, column.dtype, compression="gzip", shuffle=True, fletcher32=True,
                chunks=_chunks(column),
            )  # fmt: skip
            for part, (rows,) in blocks(column):
                there[part] = rows


def _chunks(column: Any) -> tuple[int, ...]:
    row = max(1, column.nbytes // len(column))
    return (max(1, min(len(column), (1 << 18) // row)), *column.shape[1:])


def _npz(dataset: Dataset, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        note = np.frombuffer(_note(dataset).encode(), np.uint8)
        for name, column in (*_named(dataset), (NOTE, note)):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": column.dtype.str, "fortran_order": False, "shape": column.shape}
                np.lib.format.write_array_header_1_0(file, header)
                for _, (rows,) in blocks(column):
                    file.write(np.ascontiguousarray(rows).data)


def _parquet(dataset: Dataset, path: Path) -> None:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise _extra("pyarrow", error) from error
    named = dict(_named(dataset))
    fields = [arrow.field(name, _arrow_type(arrow, column)) for name, column in named.items()]
    schema = arrow.schema(fields, {NOTE: _note(dataset)})
    with parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        for _, columns in blocks(*named.values()):
            arrays = [
                _listed(arrow, rows, field.type)
                for rows, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _arrow_type(arrow: Any, column: Any) -> Any:
    number = arrow.from_numpy_dtype(column.dtype)
    for n in reversed(column.shape[1:]):
        number = arrow.list_(number, int(n))
    return number


def _listed(arrow: Any, rows: NDArray[Any], kind: Any) -> Any:
    """An array of lists of one length."""
    found = arrow.array(rows.reshape(-1))
    for n in reversed(rows.shape[1:]):
        found = arrow.FixedSizeListArray.from_arrays(found, int(n))
    return found.cast(kind)


def _minari(dataset: Dataset, path: Path) -> None:
    try:
        from minari.data_collector.episode_buffer import EpisodeBuffer
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise _extra("minari", error) from error
    about = dataset.about
    observation, action = _spaces(dataset)
    folder = path / "data"
    folder.mkdir(parents=True)
    storage = MinariStorage.new(folder, observation, action, jpeg_encoding=False)
    for episode in _episodes(dataset, observation, action):
        storage.update_episodes([EpisodeBuffer(**episode)])
    told: dict[str, Any] = {
        "dataset_id": f"{path.name}-v0" if "-v" not in path.name else path.name,
        "minari_version": _minari_version(),
        NOTE: _note(dataset),
    }
    if about.get("algo"):
        told["algorithm_name"] = str(about["algo"])
    if about.get("spec"):
        told["env_spec"] = str(about["spec"])
    storage.update_metadata(told)


def _minari_version() -> str:
    from importlib.metadata import version

    return version("minari")


def _spaces(dataset: Dataset) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """The spaces that the dataset says where its rows are of them, else what its columns are."""
    said = (_said(dataset.about.get(key)) for key in ("observation_space", "action_space"))
    observation, action = (
        _anonymous(dataset.columns[name], name) if space is None else space
        for space, name in zip(said, ("obs", "actions"), strict=True)
    )
    return observation, action


def _said(text: Any) -> spaces.Space[Any] | None:
    """A space whose elements can be made of its rows."""
    if not isinstance(text, str):
        return None
    space = space_of(text)
    simple = isinstance(space, (spaces.Box, *CHOICES))
    return space if simple else None


def _anonymous(column: Any, name: str) -> spaces.Space[Any]:
    width = int(np.prod(column.shape[1:]))
    if column.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, (width,))
    if name == "obs":
        raise ConfigError(
            "the observations are rows of bytes whose images are not known to be one Box; Minari keeps spaces"
        )
    counts = np.zeros(width, np.int64)
    for _, (rows,) in blocks(column):
        counts = np.maximum(counts, rows.reshape(len(rows), -1).max(0) + 1)
    return spaces.Discrete(int(counts[0])) if column.ndim == 1 else spaces.MultiDiscrete(counts)


def _episodes(
    dataset: Dataset, observation: spaces.Space[Any], action: spaces.Space[Any]
) -> Iterator[dict[str, Any]]:
    """One after the other, observations one more than steps."""
    columns, lengths = dataset.columns, lengths_of(dataset.columns)
    begins = np.concatenate([[0], np.cumsum(lengths)])
    ends = (
        begins[1:]
        if begins[-1] == len(columns["rewards"])
        else [*begins[1:], len(columns["rewards"])]
    )
    for number, (first, last) in enumerate(zip(begins, ends, strict=False)):
        part = slice(int(first), int(last))
        obs, led = columns["obs"][part], columns["next_obs"][part]
        if not np.array_equal(obs[1:], led[:-1]):
            raise ConfigError(
                f"in episode {number} next_obs is not the obs of the row behind, which Minari cannot hold; "
                "rlox dataset check says where"
            )
        yield {
            "id": number,
            "observations": _env_observations(np.concatenate([obs, led[-1:]]), observation),
            "actions": _env_actions(columns["actions"][part], action),
            "rewards": columns["rewards"][part],
            "terminations": columns["terminated"][part],
            "truncations": columns["truncated"][part],
        }


def _env_observations(rows: NDArray[Any], space: spaces.Space[Any]) -> NDArray[Any]:
    """As the environment gives them: of choices, which are one-hot in a row, the numbers."""
    shape = (len(rows), *(space.shape or ()))
    if not isinstance(space, CHOICES):
        return rows.reshape(shape).astype(space.dtype)
    sizes = np.reshape(space.n if isinstance(space, spaces.Discrete) else space.nvec, -1)
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    chosen = np.stack([part.argmax(1) for part in parts], axis=1).reshape(shape) + space.start
    if not np.array_equal(ObservationCodec.of(space).encode_batch(chosen), rows):
        raise ConfigError(f"the observations are not one-hot as rows of {space} are")
    return chosen.astype(space.dtype)


def _env_actions(rows: NDArray[Any], space: spaces.Space[Any]) -> NDArray[Any]:
    """As the environment takes them."""
    shaped = rows.reshape(len(rows), *(space.shape or ()))
    if isinstance(space, CHOICES):
        shaped = shaped + space.start
    found: NDArray[Any] = shaped.astype(space.dtype)
    return found
