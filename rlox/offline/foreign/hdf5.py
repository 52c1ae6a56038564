"""A restricted HDF5 reader: named numeric columns that are stored in the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import MissingExtraError
from rlox.extras import install_command
from rlox.offline.foreign.limits import DamagedFileError, require_column

__all__ = ["HDF5Group", "open_hdf5"]

# deflate, shuffle, fletcher32, szip, nbit, scale-offset (HDF5's own), LZF (h5py's); others are plugins
ALLOWED_FILTERS = {1, 2, 3, 4, 5, 6, 32000}
MAX_CHUNK_BYTES = 256 << 20  # bytes, decompressed


def open_hdf5(path: Path) -> HDF5Group:
    """Open a file and return its root group."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"{path} is HDF5, which h5py reads: {install_command('datasets')}") from error
    return HDF5Group(h5py.File(path, "r"), path.stat().st_size, "")


class HDF5Group:
    """A group of a file; members are looked up by name, through hard links only."""

    def __init__(self, group: Any, size: int, name: str) -> None:
        self._group, self._size, self.name = group, size, name

    def __contains__(self, name: str) -> bool:
        # h5py's `in` follows links, also into other files
        return "/" not in name and bool(self._group.id.links.exists(name.encode()))

    def names(self) -> list[str]:
        """Return the names of the members."""
        return list(self._group.keys())

    def text(self, name: str) -> str | None:
        """Return a text attribute; None if it is missing or not text."""
        value = self._group.attrs.get(name)
        return value if isinstance(value, str) else None

    def group(self, name: str) -> HDF5Group:
        """Return a subgroup."""
        import h5py

        group = self._get_hard_link(name)
        if not isinstance(group, h5py.Group):
            raise DamagedFileError(f"{self.name}/{name} is no group, expected one")
        return HDF5Group(group, self._size, f"{self.name}/{name}")

    def column(self, name: str) -> Any:
        """Return an HDF5 dataset that is safe to slice."""
        import h5py

        dataset, label = self._get_hard_link(name), f"{self.name}/{name}"
        if not isinstance(dataset, h5py.Dataset):
            raise DamagedFileError(f"{label} is no column of numbers, expected one")
        if dataset.external or dataset.is_virtual:
            raise DamagedFileError(f"{label} has its rows in other files, which are not read")
        creation_list = dataset.id.get_create_plist()
        filters = {creation_list.get_filter(i)[0] for i in range(creation_list.get_nfilters())}
        if filters - ALLOWED_FILTERS:
            raise DamagedFileError(
                f"{label} is compressed by filter {min(filters - ALLOWED_FILTERS)}, a plugin's; expected one "
                "of HDF5 itself or LZF"
            )
        if dataset.shape is None or dataset.dtype.subdtype is not None:
            raise DamagedFileError(f"{label} is {dataset.dtype} of {dataset.shape}, expected rows of numbers")
        stored_bytes = min(int(dataset.id.get_storage_size()), self._size)
        require_column(label, dataset.dtype, dataset.shape, stored_bytes)
        if dataset.chunks and dataset.dtype.itemsize * np.prod(dataset.chunks, dtype=float) > MAX_CHUNK_BYTES:
            raise DamagedFileError(
                f"{label} has chunks of {dataset.chunks}: more than {MAX_CHUNK_BYTES >> 20} MiB each"
            )
        return dataset

    def _get_hard_link(self, name: str) -> Any:
        import h5py

        if name not in self:
            raise DamagedFileError(f"{self.name or 'the file'} has no {name}")
        link = self._group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            kind = type(link).__name__
            raise DamagedFileError(f"{self.name}/{name} is a {kind} to something else, which is not followed")
        return self._group[name]
