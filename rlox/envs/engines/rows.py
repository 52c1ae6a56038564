"""Extraction and checks of one environment's entries in the results of a vectorised one."""

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
    """Convert the values of the engine `name` to one number per environment, `[n_envs]`; else `EnvError`.

    A single number is rejected too: an assignment would broadcast it to all environments.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise EnvError(f"{name} gave {part} of unequal lengths, expected [{n_envs}]") from error
    except (TypeError, RuntimeError) as error:  # raised by a tensor
        raise EnvError(f"{name} gave {part} that are not an array: {error}") from error
    if is_masked(values):
        raise EnvError(f"{name} gave {part} with masked entries, expected [{n_envs}] numbers")
    if array.shape != (n_envs,) or array.dtype.kind not in NUMERIC_KINDS:
        raise EnvError(
            f"{name} gave {part} of shape {array.shape} and {array.dtype}, expected [{n_envs}] numbers"
        )
    return array


def require_flags(name: str, part: str, values: Any, n_envs: int) -> NDArray[np.bool_]:
    """Convert flags (bools, or 0 and 1) to `[n_envs]` bools; else `EnvError`, as in `require_numbers`."""
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
    """Return observation `i` of a batch: an array, an array of objects, or a Dict or Tuple of batches."""
    if isinstance(batch, Mapping):
        return {name: select_row(part, i) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(select_row(part, i) for part in batch)
    return batch[i]


def select_info(infos: Mapping[str, Any], i: int, n_envs: int) -> dict[str, Any]:
    """Return the info of environment `i` from the infos of all `n_envs`, in Gymnasium's form.

    `infos[key]` is an array with one row per environment, and `infos["_" + key]` says which rows are valid.
    Values without one row per environment are left out.
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
    """Tell whether a value has rows; those of a list or tuple may differ in length."""
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple)
