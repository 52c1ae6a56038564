"""State trees as JSON plus named arrays, the content of a checkpoint; no code is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.devices import torch_if_imported
from rlox.errors import CheckpointError

__all__ = ["pack", "unpack"]

_ARRAY, _TENSOR = "$array", "$tensor"


def pack(tree: Any, arrays: dict[str, NDArray[Any]], path: str = "") -> Any:
    """Return the JSON part of `tree`; add its arrays and tensors to `arrays` under their paths."""
    if tree is None or isinstance(tree, (bool, int, str)):
        return tree
    if isinstance(tree, (float, np.floating)):
        return float(tree)
    if isinstance(tree, np.integer):
        return int(tree)
    if isinstance(tree, Mapping):
        if invalid_keys := [key for key in tree if not isinstance(key, str) or key in (_ARRAY, _TENSOR)]:
            raise CheckpointError(
                f"cannot save the key {invalid_keys[0]!r:.40}, a {type(invalid_keys[0]).__name__}, of "
                f"{path or 'the state'}: it would come back as something else; expected text other than "
                f"{_ARRAY} and {_TENSOR}"
            )
        return {k: pack(v, arrays, f"{path}/{k}" if path else k) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [pack(v, arrays, f"{path}/{i}") for i, v in enumerate(tree)]
    if path in arrays:
        raise CheckpointError(f"two arrays would be saved as {path}: leave / out of keys")
    torch = torch_if_imported()  # without torch there are no tensors
    if torch is not None and isinstance(tree, torch.Tensor):
        arrays[path] = tree.detach().cpu().contiguous().numpy()
        return {_TENSOR: path}
    if isinstance(tree, np.ndarray):
        arrays[path] = np.ascontiguousarray(tree).reshape(tree.shape)
        return {_ARRAY: path}
    raise CheckpointError(f"cannot save {type(tree).__name__} at {path}: not a number, text or array")


def unpack(tree: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Rebuild the tree that `pack` took apart."""
    if isinstance(tree, list):
        return [unpack(v, arrays) for v in tree]
    if not isinstance(tree, dict):
        return tree
    for tag in (_ARRAY, _TENSOR):
        if tag in tree:
            name = tree[tag]
            if not isinstance(name, str) or name not in arrays:
                raise CheckpointError(f"the checkpoint has no array {name!r}")
            return _tensor(arrays[name].copy()) if tag == _TENSOR else arrays[name].copy()
    return {k: unpack(v, arrays) for k, v in tree.items()}


def _tensor(array: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array)
