"""What belongs to one environment in what a vectorised one says of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import copy_info
from rlox.envs.failures import CHECK_HINT
from rlox.envs.spaces import NUMERIC_KINDS
from rlox.errors import EnvError
from rlox.masked_arrays import is_masked

__all__ = ["require_flags", "require_numbers", "select_info", "select_row"]


def require_numbers(name: str, part: str, values: Any, n_envs: int) -> NDArray[Any]:
    """What the engine `name` gave as a number of each environment, `[n_envs]`; else `EnvError`.

    A single one is not that of all, which an assignment would make of it.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise EnvError(f"{name} gave {part} of unequal lengths, expected [{n_envs}]") from error
    except (TypeError, RuntimeError) as error:  # of a tensor
        raise EnvError(f"{name} gave {part} that are no array: {error}") from error
    if is_masked(values):
        raise EnvError(f"{name} gave {part} of which some are masked, expected [{n_envs}] numbers")
    if array.shape != (n_envs,) or array.dtype.kind not in NUMERIC_KINDS:
        raise EnvError(
            f"{name} gave {part} of shape {array.shape} and {array.dtype}, expected [{n_envs}] numbers"
        )
    return array


def require_flags(name: str, part: str, values: Any, n_envs: int) -> NDArray[np.bool_]:
    """The same of flags: bools, or 0 and 1."""
    array = require_numbers(name, part, values, n_envs)
    is_invalid = (array != 0) & (array != 1)
    if is_invalid.any():
        raise EnvError(
            f"{name} gave {part} with {array[is_invalid][0]}, expected [{n_envs}] bools, or 0 and 1; "
            f"{CHECK_HINT}"
        )
    flags: NDArray[np.bool_] = array != 0
    return flags


def select_row(batch: Any, i: int) -> Any:
    """Observation `i` of a batch: an array, an array of objects, or a Dict or Tuple of batches."""
    if isinstance(batch, Mapping):
        return {name: select_row(part, i) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(select_row(part, i) for part in batch)
    return batch[i]


def select_info(infos: Mapping[str, Any], i: int, n_envs: int) -> dict[str, Any]:
    """The info of environment `i` in the infos of all `n_envs`.

    As Gymnasium has them: `infos[key]` is an array with a row each, `infos["_" + key]` says which rows
    were given. What is no row of each is of all, and left out.
    """
    info: dict[str, Any] = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if (key.startswith("_") and key[1:] in infos) or (mask is not None and not mask[i]):
            continue
        if isinstance(value, Mapping):
            info[key] = select_info(value, i, n_envs)
        elif _has_rows(value) and len(value) == n_envs:
            info[key] = copy_info(value[i])
    return info


def _has_rows(value: Any) -> bool:
    """Whether it has a length: a list may have rows of unequal ones, which are no array."""
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple)
