"""Hostile files in dataset formats, and the message that refuses each of them."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N = 10
FLOATS = '"dtype": "float32"'
NAMES = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")

COMPLETE_ARCHIVE = b"whole"  # comment of an archive that needs no sound columns added

# Writes the file into a folder. HOSTILE has its format, its name, the message and its maker.
Maker = Callable[[Path], None]
HOSTILE: dict[str, tuple[str, str, str, Maker]] = {}


class RunsCommand:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch /tmp/rlox-was-here",)


def valid_columns() -> dict[str, Any]:
    """Return the columns of a dataset."""
    return {
        "observations": np.zeros((N, 3), "f4"),
        "actions": np.zeros((N, 2), "f4"),
        "rewards": np.zeros(N, "f4"),
        "terminals": np.zeros(N, bool),
        "timeouts": np.zeros(N, bool),
        "next_observations": np.zeros((N, 3), "f4"),
    }


def hdf5(message: str) -> Callable[[Callable[[Any, Path], None]], None]:
    """Return a decorator for functions that change a sound D4RL file."""

    def add(change: Callable[[Any, Path], None]) -> None:
        def make(folder: Path) -> None:
            with h5py.File(folder / "x.hdf5", "w") as file:
                for name, column in valid_columns().items():
                    file[name] = column
                change(file, folder)

        HOSTILE[f"hdf5 {change.__name__}"] = "d4rl", "x.hdf5", message, make

    return add


def replace_column(file: Any, name: str, **options: Any) -> Any:
    """Replace a column."""
    del file[name]
    return file.create_dataset(name, **options)


def write_secret_file(folder: Path) -> Path:
    """Write another file with secret data and return its path."""
    with h5py.File(folder / "secret.hdf5", "w") as file:
        file["observations"] = np.full((N, 3), 42.0, "f4")
        file["episode_0/rewards"] = np.zeros(3)
    return folder / "secret.hdf5"


@hdf5("ExternalLink to something else")
def an_external_link(file: Any, folder: Path) -> None:
    del file["observations"]
    file["observations"] = h5py.ExternalLink(str(write_secret_file(folder)), "/observations")


@hdf5("ExternalLink to something else")
def an_external_link_to_a_device(file: Any, folder: Path) -> None:
    del file["observations"]
    file["observations"] = h5py.ExternalLink("/dev/zero", "/observations")


@hdf5("SoftLink to something else")
def a_soft_link(file: Any, folder: Path) -> None:
    del file["observations"]
    file["observations"] = h5py.SoftLink("/next_observations")


@hdf5("SoftLink to something else")
def a_link_to_itself(file: Any, folder: Path) -> None:
    del file["rewards"]
    file["rewards"] = h5py.SoftLink("/rewards")


@hdf5("rows in other files")
def raw_external_storage(file: Any, folder: Path) -> None:
    (folder / "secret").write_bytes(b"root:x:0:0" * 100)
    replace_column(
        file, "observations", shape=(N, 3), dtype="f4", external=[(str(folder / "secret"), 0, 120)]
    )


@hdf5("rows in other files")
def a_virtual_column(file: Any, folder: Path) -> None:
    layout = h5py.VirtualLayout((N, 3), "f4")
    layout[:] = h5py.VirtualSource(str(write_secret_file(folder)), "observations", (N, 3))
    del file["observations"]
    file.create_virtual_dataset("observations", layout)


@hdf5("more than any compression gives")
def a_column_of_a_petabyte(file: Any, folder: Path) -> None:
    replace_column(file, "rewards", shape=(1 << 48,), dtype="f4", chunks=(1 << 16,))


@hdf5("more than any compression gives")
def rows_that_are_not_there(file: Any, folder: Path) -> None:
    for name, column in valid_columns().items():
        shape = (100_000_000, *column.shape[1:])
        replace_column(file, name, shape=shape, dtype=column.dtype, chunks=(1000, *shape[1:]))


@hdf5("a row of more than 64 MiB")
def a_row_of_a_gigabyte(file: Any, folder: Path) -> None:
    replace_column(file, "observations", shape=(N, 1 << 28), dtype="f4", chunks=(1, 1 << 20))


@hdf5("chunks of")
def a_chunk_of_a_gigabyte(file: Any, folder: Path) -> None:
    column = replace_column(
        file,
        "rewards",
        shape=(N,),
        maxshape=(None,),
        dtype="f4",
        chunks=(1 << 28,),
        compression="gzip",
    )
    column[:] = 0.0


@hdf5("expected numbers")
def strings(file: Any, folder: Path) -> None:
    replace_column(file, "rewards", data=[b"a"] * N)


@hdf5("expected numbers")
def vectors_of_any_length(file: Any, folder: Path) -> None:
    replace_column(file, "observations", shape=(N,), dtype=h5py.vlen_dtype(np.float32))


@hdf5("expected numbers")
def references(file: Any, folder: Path) -> None:
    replace_column(file, "observations", shape=(N, 3), dtype=h5py.ref_dtype)


@hdf5("expected numbers")
def records(file: Any, folder: Path) -> None:
    replace_column(file, "observations", shape=(N,), dtype=[("a", "f4"), ("b", "f4")])


@hdf5("expected numbers")
def opaque_bytes(file: Any, folder: Path) -> None:
    replace_column(file, "observations", shape=(N,), dtype="V12")


@hdf5("expected rows of numbers")
def a_column_without_a_shape(file: Any, folder: Path) -> None:
    replace_column(file, "rewards", data=h5py.Empty("f4"))


@hdf5("expected rows of numbers")
def one_number_for_all(file: Any, folder: Path) -> None:
    replace_column(file, "rewards", data=np.float32(1.0))


@hdf5("no column of numbers")
def a_group_for_a_column(file: Any, folder: Path) -> None:
    del file["rewards"]
    file.create_group("rewards")


@hdf5("a plugin's")
def a_filter_of_a_plugin(file: Any, folder: Path) -> None:
    options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    options.set_chunk((N,))
    options.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
    del file["rewards"]
    space = h5py.h5s.create_simple((N,))
    h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, space, options)


@hdf5("is not JSON")
def a_note_that_is_no_json(file: Any, folder: Path) -> None:
    file.attrs["rlox"] = "{" * 30_000


@hdf5("expected an object")
def a_note_that_is_a_list(file: Any, folder: Path) -> None:
    file.attrs["rlox"] = "[1, 2]"


def npz(message: str) -> Callable[[Callable[[zipfile.ZipFile], None]], None]:
    """Return a decorator for functions that fill an npz; the maker adds the missing sound columns."""

    def add(fill: Callable[[zipfile.ZipFile], None]) -> None:
        def make(folder: Path) -> None:
            with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
                fill(archive)
                present = {name.removesuffix(".npy") for name in archive.namelist()}
                for name in () if archive.comment == COMPLETE_ARCHIVE else valid_columns().keys() - present:
                    archive.writestr(f"{name}.npy", npy(valid_columns()[name]))

        HOSTILE[f"npz {fill.__name__}"] = "npz", "x.npz", message, make

    return add


def npy(array: Any, **options: Any) -> bytes:
    """Return an array in NumPy's file format."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), **options)
    return out.getvalue()


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    """Return the beginning of an npy file with any header text."""
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode()


@npz("pickled objects are not read")
def pickled_objects(archive: zipfile.ZipFile) -> None:
    rewards = np.array([RunsCommand()] * N, dtype=object)
    archive.writestr("rewards.npy", npy(rewards, allow_pickle=True))


@npz("no array of NumPy")
def a_pickle(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", pickle.dumps(RunsCommand()))


@npz("no array of NumPy")
def code_in_a_header(archive: zipfile.ZipFile) -> None:
    code = "{'descr': __import__('os').system('touch /tmp/rlox-was-here'), 'shape': (1,)}\n"
    archive.writestr("rewards.npy", header(code))


@npz("no array of NumPy")
def a_header_of_gigabytes(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\xff" + b"{" * 1000)


@npz("more than any compression gives")
def a_shape_of_a_petabyte(archive: zipfile.ZipFile) -> None:
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1125899906842624,), }\n"
    archive.writestr("rewards.npy", header(text))


@npz("expected rows of numbers")
def a_negative_shape(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n"))


@npz("expected rows of numbers")
def many_axes(archive: zipfile.ZipFile) -> None:
    archive.writestr("observations.npy", npy(np.zeros((N,) + (1,) * 20, "f4")))


@npz("ends before its 10 rows")
def fewer_rows_than_are_said(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", npy(np.zeros(N, "f4"))[:-8])


@npz("has more than its")
def more_rows_than_are_said(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", npy(np.zeros(N, "f4")) + b"\0" * 8)


@npz("two arrays of the same name")
def two_of_one_name(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", npy(np.zeros(N, "f4")))
    archive.writestr("rewards", npy(np.ones(N, "f4")))


@npz("by columns")
def fortran_order(archive: zipfile.ZipFile) -> None:
    archive.writestr("observations.npy", npy(np.asfortranarray(np.ones((N, 3), "f4"))))


@npz("expected numbers")
def records_of_numpy(archive: zipfile.ZipFile) -> None:
    archive.writestr("observations.npy", npy(np.zeros(N, [("a", "f4"), ("b", "f4")])))


@npz("expected numbers")
def dates(archive: zipfile.ZipFile) -> None:
    archive.writestr("rewards.npy", npy(np.zeros(N, "M8[s]")))


@npz("has no observations")
def names_out_of_the_folder(archive: zipfile.ZipFile) -> None:
    for name, column in valid_columns().items():
        archive.writestr(f"../../{name}.npy" if name == "observations" else f"{name}.npy", npy(column))
    archive.comment = COMPLETE_ARCHIVE


def minari(message: str) -> Callable[[Callable[[dict[str, Any], Any, Path], None]], None]:
    """Return a decorator for functions that change a sound Minari folder.

    They get the metadata, the open file and the folder.
    """

    def add(change: Callable[[dict[str, Any], Any, Path], None]) -> None:
        def make(folder: Path) -> None:
            data = folder / "m" / "data"
            data.mkdir(parents=True)
            box = f'{{"type": "Box", {FLOATS}, "shape": [3], "low": [-9, -9, -9], "high": [9, 9, 9]}}'
            act = f'{{"type": "Box", {FLOATS}, "shape": [2], "low": [-1, -1], "high": [1, 1]}}'
            message: dict[str, Any] = {
                "observation_space": box,
                "action_space": act,
                "total_episodes": 1,
            }
            with h5py.File(data / "main_data.hdf5", "w") as file:
                episode = file.create_group("episode_0")
                episode["observations"] = np.zeros((N + 1, 3), "f4")
                for name, column in zip(("actions", "rewards"), (np.zeros((N, 2)), np.zeros(N)), strict=True):
                    episode[name] = column
                episode["terminations"] = episode["truncations"] = np.zeros(N, bool)
                change(message, file, folder)
            (data / "metadata.json").write_text(json.dumps(message) if message else "[" * 100_000)

        HOSTILE[f"minari {change.__name__}"] = "minari", "m", message, make

    return add


@minari("has no observation_space, expected one: rlox makes no environment")
def an_environment_to_be_asked(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    del metadata["observation_space"]
    metadata["env_spec"] = json.dumps(
        {"id": "Evil-v0", "entry_point": "os:system", "kwargs": {"command": "id"}}
    )


@minari("not the JSON of a space")
def an_unknown_space(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    metadata["observation_space"] = '{"type": "os.system"}'


@minari("more than 16,777,216 numbers")
def a_box_of_a_terabyte(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    metadata["observation_space"] = (
        f'{{"type": "Box", {FLOATS}, "shape": [1099511627776], "low": 0, "high": 1}}'
    )


@minari("nested more than|recursion")
def spaces_without_end(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    metadata["observation_space"] = '{"type": "Tuple", "subspaces": [' * 500 + "]}" * 500


@minari("is not JSON")
def metadata_without_end(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    metadata.clear()


@minari("metadata.json says 7")
def episodes_that_are_not_there(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    metadata["total_episodes"] = 7


@minari("ExternalLink")
def an_episode_elsewhere(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    del file["episode_0"]
    file["episode_0"] = h5py.ExternalLink(str(write_secret_file(folder)), "/episode_0")


@minari("has no ../../observations")
def a_part_with_a_path(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    part = '{"type": "Discrete", "n": 2}'
    metadata["observation_space"] = f'{{"type": "Dict", "subspaces": {{"../../observations": {part}}}}}'
    del file["episode_0/observations"]
    file.create_group("episode_0/observations")


@minari("expected \\(11, 3\\)")
def as_many_observations_as_steps(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    del file["episode_0/observations"]
    file["episode_0/observations"] = np.zeros((N, 3), "f4")


@minari("flags")
def fewer_flags(metadata: dict[str, Any], file: Any, folder: Path) -> None:
    del file["episode_0/truncations"]
    file["episode_0/truncations"] = np.zeros(N - 1, bool)


def parquet(message: str) -> Callable[[Callable[[], dict[str, Any]]], None]:
    """Return a decorator for functions that replace columns of a sound table."""

    def add(columns: Callable[[], dict[str, Any]]) -> None:
        def make(folder: Path) -> None:
            table_columns = {
                name: pa.array(column.tolist()) for name, column in valid_columns().items()
            } | columns()
            meta = table_columns.pop("metadata", None)
            table = pa.table(table_columns)
            pq.write_table(table.replace_schema_metadata(meta) if meta else table, folder / "x.parquet")

        HOSTILE[f"parquet {columns.__name__}"] = "parquet", "x.parquet", message, make

    return add


@parquet("lists of several lengths")
def ragged_lists() -> dict[str, Any]:
    return {"observations": pa.array([[0.0] * (1 + i % 2) for i in range(N)])}


@parquet("rows without a value")
def nulls() -> dict[str, Any]:
    return {"rewards": pa.array([None, *[0.0] * (N - 1)])}


@parquet("rows without a value")
def nulls_inside_lists() -> dict[str, Any]:
    return {"observations": pa.array([[0.0, None]] * N)}


@parquet("expected numbers or lists")
def text() -> dict[str, Any]:
    return {"rewards": pa.array(["1.0"] * N)}


@parquet("expected numbers or lists")
def structs() -> dict[str, Any]:
    return {"observations": pa.array([{"a": 1.0}] * N)}


@parquet("is not JSON")
def a_note_that_is_not_json() -> dict[str, Any]:
    return {"metadata": {"rlox": "{" * 100_000}}
