"""Export of a dataset to other formats."""

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

from rlox.envs.parts_codec import codec_of
from rlox.envs.space_json import space_from_json
from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox.offline.description import episode_lengths
from rlox.offline.foreign.formats import ALIASES, MINARI_FILES, NOTE_KEY, detect_format
from rlox.sources.dataset_file import Dataset
from rlox.sources.file_columns import iter_blocks

__all__ = ["export_dataset"]

DISCRETE_SPACES = (spaces.Discrete, spaces.MultiDiscrete)


def export_dataset(dataset: Dataset, path: Path | str, format_name: str) -> None:
    """Write a dataset to `path`, a file, or for Minari a folder; an existing export is replaced as a whole.

    Raises an `RloxError` for data that the format cannot hold, and `MissingExtraError` for a missing package.
    """
    writers = {"d4rl": _write_d4rl, "minari": _write_minari, "npz": _write_npz, "parquet": _write_parquet}
    if format_name not in writers:
        raise ConfigError(f"format {format_name!r} cannot be written, expected one of {', '.join(writers)}")
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset is a {type(dataset).__name__}, expected what read_dataset or convert_dataset returns"
        )
    write, path = writers[format_name], Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    _require_replaceable(path, format_name)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        new_path = Path(scratch) / path.name
        write(dataset, new_path)
        if path.is_dir():
            path.replace(Path(scratch) / "old")
        new_path.replace(path)


def _require_replaceable(path: Path, format_name: str) -> None:
    """Raise `ConfigError` if writing `path` would delete anything but a dataset of `format_name`."""
    if not path.exists():
        return
    if path.is_dir() != (format_name == "minari") or (path.is_dir() and detect_format(path) != format_name):
        raise ConfigError(f"{path} exists and is no {format_name} dataset; choose another name")
    # a folder is replaced as a whole, and other programs have a metadata.json too
    files = {str(p.relative_to(path)) for p in path.rglob("*")} if path.is_dir() else set[str]()
    if other_files := files - {"data", *(f"data/{name}" for name in MINARI_FILES)}:
        raise ConfigError(
            f"{path} is a folder with other files ({min(other_files)}), expected those of Minari alone, "
            f"data/ with {' and '.join(MINARI_FILES)}; choose another name"
        )


def _note_text(dataset: Dataset) -> str:
    return json.dumps({**dataset.about, "digest": dataset.digest})


def _d4rl_columns(dataset: Dataset) -> Iterator[tuple[str, Any]]:
    """Yield columns by their D4RL names."""
    for column, names in ALIASES.items():
        yield names[0], dataset.columns[column]


def _missing_extra(package: str, error: ImportError) -> MissingExtraError:
    return MissingExtraError(f"{package} writes this format: {install_command('datasets')} ({error})")


def _write_d4rl(dataset: Dataset, path: Path) -> None:
    try:
        import h5py
    except ImportError as error:
        raise _missing_extra("h5py", error) from error
    with h5py.File(path, "w") as file:
        file.attrs[NOTE_KEY] = _note_text(dataset)
        for name, column in _d4rl_columns(dataset):
            target = file.create_dataset(
                name, column.shape, column.dtype, compression="gzip", shuffle=True, fletcher32=True,
                chunks=_chunks(column),
            )  # fmt: skip
            for part, (rows,) in iter_blocks(column):
                target[part] = rows


def _chunks(column: Any) -> tuple[int, ...]:
    row = max(1, column.nbytes // len(column))
    return (max(1, min(len(column), (1 << 18) // row)), *column.shape[1:])


def _write_npz(dataset: Dataset, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        note = np.frombuffer(_note_text(dataset).encode(), np.uint8)
        for name, column in (*_d4rl_columns(dataset), (NOTE_KEY, note)):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": column.dtype.str, "fortran_order": False, "shape": column.shape}
                np.lib.format.write_array_header_1_0(file, header)
                for _, (rows,) in iter_blocks(column):
                    file.write(np.ascontiguousarray(rows).data)


def _write_parquet(dataset: Dataset, path: Path) -> None:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise _missing_extra("pyarrow", error) from error
    columns_by_name = dict(_d4rl_columns(dataset))
    fields = [arrow.field(name, _arrow_type(arrow, column)) for name, column in columns_by_name.items()]
    schema = arrow.schema(fields, {NOTE_KEY: _note_text(dataset)})
    with parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        for _, columns in iter_blocks(*columns_by_name.values()):
            arrays = [_to_lists(arrow, rows, field.type) for rows, field in zip(columns, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _arrow_type(arrow: Any, column: Any) -> Any:
    arrow_type = arrow.from_numpy_dtype(column.dtype)
    for n in reversed(column.shape[1:]):
        arrow_type = arrow.list_(arrow_type, int(n))
    return arrow_type


def _to_lists(arrow: Any, rows: NDArray[Any], kind: Any) -> Any:
    """Return an Arrow array of lists of equal length."""
    array = arrow.array(rows.reshape(-1))
    for n in reversed(rows.shape[1:]):
        array = arrow.FixedSizeListArray.from_arrays(array, int(n))
    return array.cast(kind)


def _write_minari(dataset: Dataset, path: Path) -> None:
    try:
        from minari.data_collector.episode_buffer import EpisodeBuffer
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise _missing_extra("minari", error) from error
    metadata = dataset.about
    observation, action = _spaces(dataset)
    folder = path / "data"
    folder.mkdir(parents=True)
    storage = MinariStorage.new(folder, observation, action, jpeg_encoding=False)
    for episode in _episodes(dataset, observation, action):
        storage.update_episodes([EpisodeBuffer(**episode)])
    minari_metadata: dict[str, Any] = {
        "dataset_id": f"{path.name}-v0" if "-v" not in path.name else path.name,
        "minari_version": _minari_version(),
        NOTE_KEY: _note_text(dataset),
    }
    if metadata.get("algo"):
        minari_metadata["algorithm_name"] = str(metadata["algo"])
    if metadata.get("spec"):
        minari_metadata["env_spec"] = str(metadata["spec"])
    storage.update_metadata(minari_metadata)


def _minari_version() -> str:
    from importlib.metadata import version

    return version("minari")


def _spaces(dataset: Dataset) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the observation and action spaces: the recorded ones if usable, else from the columns."""
    recorded_spaces = (_parse_space(dataset.about.get(key)) for key in ("observation_space", "action_space"))
    observation, action = (
        _space_of_column(dataset.columns[name], name) if space is None else space
        for space, name in zip(recorded_spaces, ("obs", "actions"), strict=True)
    )
    return observation, action


def _parse_space(text: Any) -> spaces.Space[Any] | None:
    """Parse a space; None unless its elements can be restored from rows."""
    if not isinstance(text, str):
        return None
    space = space_from_json(text)
    is_simple = isinstance(space, (spaces.Box, *DISCRETE_SPACES))
    return space if is_simple else None


def _space_of_column(column: Any, name: str) -> spaces.Space[Any]:
    width = int(np.prod(column.shape[1:]))
    if column.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, (width,))
    if name == "obs":
        raise ConfigError(
            "the observations are bytes, and the dataset records no single Box of them, which Minari needs"
        )
    counts = np.zeros(width, np.int64)
    for _, (rows,) in iter_blocks(column):
        counts = np.maximum(counts, rows.reshape(len(rows), -1).max(0) + 1)
    return spaces.Discrete(int(counts[0])) if column.ndim == 1 else spaces.MultiDiscrete(counts)


def _episodes(
    dataset: Dataset, observation: spaces.Space[Any], action: spaces.Space[Any]
) -> Iterator[dict[str, Any]]:
    """Yield the episodes in order; each has one observation more than steps."""
    columns, lengths = dataset.columns, episode_lengths(dataset.columns)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ends = starts[1:] if starts[-1] == len(columns["rewards"]) else [*starts[1:], len(columns["rewards"])]
    for number, (start, end) in enumerate(zip(starts, ends, strict=False)):
        rows = slice(int(start), int(end))
        obs, next_obs = columns["obs"][rows], columns["next_obs"][rows]
        if not np.array_equal(obs[1:], next_obs[:-1]):
            raise ConfigError(
                f"in episode {number} next_obs is not the obs of the next row, which Minari cannot hold; "
                "rlox dataset check says where"
            )
        yield {
            "id": number,
            "observations": _env_observations(np.concatenate([obs, next_obs[-1:]]), observation),
            "actions": _env_actions(columns["actions"][rows], action),
            "rewards": columns["rewards"][rows],
            "terminations": columns["terminated"][rows],
            "truncations": columns["truncated"][rows],
        }


def _env_observations(rows: NDArray[Any], space: spaces.Space[Any]) -> NDArray[Any]:
    """Convert rows to the environment's observations; one-hot parts become discrete values."""
    shape = (len(rows), *(space.shape or ()))
    if not isinstance(space, DISCRETE_SPACES):
        return rows.reshape(shape).astype(space.dtype)
    sizes = np.reshape(space.n if isinstance(space, spaces.Discrete) else space.nvec, -1)
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    chosen = np.stack([part.argmax(1) for part in parts], axis=1).reshape(shape) + space.start
    if not np.array_equal(codec_of(space).encode_batch(chosen), rows):
        raise ConfigError(f"the observations are not one-hot as rows of {space} are")
    return chosen.astype(space.dtype)


def _env_actions(rows: NDArray[Any], space: spaces.Space[Any]) -> NDArray[Any]:
    """Convert rows to actions as the environment takes them."""
    shaped_actions = rows.reshape(len(rows), *(space.shape or ()))
    if isinstance(space, DISCRETE_SPACES):
        shaped_actions = shaped_actions + space.start
    actions: NDArray[Any] = shaped_actions.astype(space.dtype)
    return actions
