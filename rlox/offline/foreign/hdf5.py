"""HDF5 as far as a dataset needs it: named columns of numbers that are in this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import MissingExtraError
from rlox.extras import install
from rlox.offline.foreign.bounds import Damage, require_column

__all__ = ["Group", "opened"]

# deflate, shuffle, fletcher32, szip, nbit, scale-offset (HDF5's own), LZF (h5py's); others are plugins
FILTERS = {1, 2, 3, 4, 5, 6, 32000}
CHUNK = 256 << 20  # bytes, decompressed


def opened(path: Path) -> Group:
    """The root of a file."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(
            f"{path} is HDF5, which h5py reads: {install('datasets')}"
        ) from error
    return Group(h5py.File(path, "r"), path.stat().st_size, "")


class Group:
    """A group of a file; what is in it is found by name, over hard links only."""

    def __init__(self, group: Any, size: int, name: str) -> None:
        self._group, self._size, self.name = group, size, name

    def __contains__(self, name: str) -> bool:
        # h5py's own `in` follows the link, into another file if need be
        return "/" not in name and bool(self._group.id.links.exists(name.encode()))

    def names(self) -> list[str]:
        """Of what is in it."""
        return list(self._group.keys())

    def text(self, name: str) -> str | None:
        """An attribute that is text, if there is one."""
        found = self._group.attrs.get(name)
        return found if isinstance(found, str) else None

    def group(self, name: str) -> Group:
        """A group in it."""
        import h5py

        found = self._linked(name)
        if not isinstance(found, h5py.Group):
            raise Damage(f"{self.name}/{name} is no group, expected one")
        return Group(found, self._size, f"{self.name}/{name}")

    def column(self, name: str) -> Any:
        """A dataset of HDF5 in it, whose slices may be read."""
        import h5py

        found, where = self._linked(name), f"{self.name}/{name}"
        if not isinstance(found, h5py.Dataset):
            raise Damage(f"{where} is no column of numbers, expected one")
        if found.external or found.is_virtual:
            raise Damage(f"{where} has its rows in other files, which are not read")
        how = found.id.get_create_plist()
        filters = {how.get_filter(i)[0] for i in range(how.get_nfilters())}
        if filters - FILTERS:
            raise Damage(f"{where} is compressed by filter {min(filters - FILTERS)}, a plugin's")
        if found.shape is None or found.dtype.subdtype is not None:
            raise Damage(f"{where} is {found.dtype} of {found.shape}, expected rows of numbers")
        stored = min(int(found.id.get_storage_size()), self._size)
        require_column(where, found.dtype, found.shape, stored)
        if found.chunks and found.dtype.itemsize * np.prod(found.chunks, dtype=float) > CHUNK:
            raise Damage(f"{where} has chunks of {found.chunks}: more than {CHUNK >> 20} MiB each")
        return found

    def _linked(self, name: str) -> Any:
        import h5py

        if name not in self:
            raise Damage(f"{self.name or 'the file'} has no {name}")
        link = self._group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            kind = type(link).__name__
            raise Damage(f"{self.name}/{name} is a {kind} to something else, which is not followed")
        return self._group[name]
