"""What belongs to one environment in what a vectorised one says of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import copied
from rlox.envs.failures import CHECK
from rlox.envs.spaces import NUMBERS
from rlox.errors import EnvError
from rlox.masked import is_masked

__all__ = ["flags_of", "info_of", "row_of", "rows_of"]


def rows_of(name: str, part: str, given: Any, n_envs: int) -> NDArray[Any]:
    """What the engine `name` gave as a number of each environment, `[n_envs]`; else `EnvError`.

    A single one is not that of all, which an assignment would make of it.
    """
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise EnvError(f"{name} gave {part} of unequal lengths, expected [{n_envs}]") from error
    except (TypeError, RuntimeError) as error:  # of a tensor
        raise EnvError(f"{name} gave {part} that are no array: {error}") from error
    if is_masked(given):
        raise EnvError(f"{name} gave {part} of which some are masked, expected [{n_envs}] numbers")
    if array.shape != (n_envs,) or array.dtype.kind not in NUMBERS:
        raise EnvError(
            f"{name} gave {part} of shape {array.shape} and {array.dtype}, expected [{n_envs}] numbers"
        )
    return array


def flags_of(name: str, part: str, given: Any, n_envs: int) -> NDArray[np.bool_]:
    """The same of flags: bools, or 0 and 1."""
    array = rows_of(name, part, given, n_envs)
    odd = (array != 0) & (array != 1)
    if odd.any():
        raise EnvError(
            f"{name} gave {part} with {array[odd][0]}, expected [{n_envs}] bools, or 0 and 1; {CHECK}"
        )
    flags: NDArray[np.bool_] = array != 0
    return flags


def row_of(batch: Any, i: int) -> Any:
    """Observation `i` of a batch: an array, an array of objects, or a Dict or Tuple of batches."""
    if isinstance(batch, Mapping):
        return {name: row_of(part, i) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(part, i) for part in batch)
    return batch[i]


def info_of(infos: Mapping[str, Any], i: int, n_envs: int) -> dict[str, Any]:
    """The info of environment `i` in the infos of all `n_envs`.

    As Gymnasium has them: `infos[key]` is an array with a row each, `infos["_" + key]` says which rows
    were given. What is no row of each is of all, and left out.
    """
    found: dict[str, Any] = {}
    for key, value in infos.items():
        given = infos.get(f"_{key}")
        if (key.startswith("_") and key[1:] in infos) or (given is not None and not given[i]):
            continue
        if isinstance(value, Mapping):
            found[key] = info_of(value, i, n_envs)
        elif _has_rows(value) and len(value) == n_envs:
            found[key] = copied(value[i])
    return found


def _has_rows(value: Any) -> bool:
    """Whether it has a length: a list may have rows of unequal ones, which are no array."""
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple)
