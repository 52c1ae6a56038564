"""An exported policy as safetensors: its numbers by name, its description as JSON in the header."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from rlox.export.exported import Exported

__all__ = ["safetensors_bytes"]


def safetensors_bytes(policy: Exported) -> bytes:
    """The file of a policy, as docs/export.md describes it; the same for the same policy."""
    tensors: dict[str, NDArray[Any]] = dict(policy.network.tensors())
    if policy.moments is not None:
        tensors["normalizer.mean"] = policy.moments.mean.astype(np.float64)
        tensors["normalizer.deviation"] = policy.moments.deviation.astype(np.float64)
    if policy.bounds is not None:
        tensors["action.low"] = policy.bounds.low
        tensors["action.high"] = policy.bounds.high
    golden, chooses = policy.golden, policy.bounds is None
    tensors["golden.obs"] = golden.obs
    tensors["golden.outputs"] = golden.outputs
    tensors["golden.actions"] = golden.actions.astype(np.int64 if chooses else np.float32)
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    written: bytes = save(whole, {"rlox": json.dumps(policy.description())})
    return written
