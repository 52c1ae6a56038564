"""An exported policy as safetensors: arrays by name, and the description as JSON in the header."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from rlox.export.exported_policy import ExportedPolicy

__all__ = ["safetensors_bytes"]


def safetensors_bytes(policy: ExportedPolicy) -> bytes:
    """Serialise a policy as docs/export.md describes; the same policy gives the same bytes."""
    tensors: dict[str, NDArray[Any]] = dict(policy.network.tensors())
    if policy.moments is not None:
        tensors["normalizer.mean"] = policy.moments.mean.astype(np.float64)
        tensors["normalizer.deviation"] = policy.moments.std.astype(np.float64)
    if policy.bounds is not None:
        tensors["action.low"] = policy.bounds.low
        tensors["action.high"] = policy.bounds.high
    golden, is_discrete = policy.golden, policy.bounds is None
    tensors["golden.obs"] = golden.obs
    tensors["golden.outputs"] = golden.outputs
    tensors["golden.actions"] = golden.actions.astype(np.int64 if is_discrete else np.float32)
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    data: bytes = save(contiguous, {"rlox": json.dumps(policy.description())})
    return data
