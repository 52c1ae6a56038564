"""State trees as JSON and named arrays, in checkpoints and of users' objects; no code is stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.devices import torch_if_imported
from rlox.errors import CheckpointError

__all__ = ["from_state_tree", "pack", "to_state_tree", "unpack"]

# Keys that mark, in this order: a dict with keys that JSON would change or that cannot be part of an array's
# name; a tuple; a NumPy number.
PAIRS_KEY, TUPLE_KEY, NUMBER_KEY = "$pairs", "$tuple", "$number"
MAX_DEPTH = 100  # levels of a state; one that contains itself would never end
MAX_PLACE_LENGTH = 120  # characters of a deeply nested place in a message


def to_state_tree(value: Any, place: str, depth: int = 0, keep_numpy: bool = False) -> Any:
    """Return a copy that a checkpoint can store; raise `CheckpointError`, with the place, for other types.

    `OrderedDict`s, which torch's `state_dict()` returns, become dicts. NumPy numbers become Python numbers,
    or stay as they are with `keep_numpy`: their dtype affects the arithmetic after a resume.
    """
    if depth > MAX_DEPTH:
        raise CheckpointError(
            f"{place[:MAX_PLACE_LENGTH]}... holds itself, or has more than {MAX_DEPTH} levels; leave out "
            "references to itself"
        )

    def convert(item: Any, item_place: str) -> Any:
        return to_state_tree(item, item_place, depth + 1, keep_numpy)

    if isinstance(value, np.generic):
        if keep_numpy and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return {NUMBER_KEY: [value.dtype.str, value.item()]}
        value = value.item()
    value_type = type(value)  # not isinstance: a subclass would be restored as its base
    if value is None or value_type in (bool, int, float, str):
        return value
    if value_type in (dict, OrderedDict):
        if all(type(key) is str and key[:1] != "$" and "/" not in key for key in value):
            return {key: convert(item, f"{place}[{key!r}]") for key, item in value.items()}
        return {
            PAIRS_KEY: [
                [convert(key, f"{place}, a key,"), convert(item, f"{place}[{key!r}]")]
                for key, item in value.items()
            ]
        }
    if value_type in (list, tuple):
        items = [convert(item, f"{place}[{i}]") for i, item in enumerate(value)]
        return {TUPLE_KEY: items} if value_type is tuple else items
    description = f"a {value_type.__name__}"
    if value_type is np.ndarray:
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return value.copy()
        description = f"an array of {value.dtype.str if value.dtype.kind == 'U' else value.dtype}"
    torch = torch_if_imported()
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            value.new_empty(0, device="cpu").detach().numpy()
            return value.detach().cpu().clone()
        except (RuntimeError, TypeError):
            description = f"a tensor of {value.dtype}, {value.layout}"
    raise CheckpointError(
        f"{place} is {description}, expected None, a number, text, a list, a tuple, a dict, or an array or "
        "dense tensor with a dtype that NumPy has"
    )


def from_state_tree(value: Any) -> Any:
    """Convert a tree back to the value that `to_state_tree` was called with."""
    if isinstance(value, list):
        return [from_state_tree(item) for item in value]
    if not isinstance(value, dict):
        return value
    if PAIRS_KEY in value:
        return {from_state_tree(key): from_state_tree(item) for key, item in value[PAIRS_KEY]}
    if NUMBER_KEY in value:
        dtype_name, number = value[NUMBER_KEY]
        dtype = np.dtype(dtype_name)
        if dtype.kind not in "biuf" or type(number) not in (bool, int, float):
            raise CheckpointError(  # np.void(10**12) would take as many bytes
                f"{type(number).__name__} of {dtype} in a saved state, expected a number"
            )
        return dtype.type(number)
    if TUPLE_KEY in value:
        return tuple(from_state_tree(item) for item in value[TUPLE_KEY])
    return {key: from_state_tree(item) for key, item in value.items()}


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
