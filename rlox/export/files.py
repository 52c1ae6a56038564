"""Writing the files of an exported policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from rlox.disk import replace_file
from rlox.errors import ConfigError, StorageError
from rlox.export.exported_policy import ExportedPolicy, build_exported_policy
from rlox.export.onnx_file import check_onnx, onnx_bytes, require_onnx
from rlox.runs.algorithm import Algorithm

__all__ = ["FORMATS", "export_policy", "safetensors_bytes"]


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


FORMATS = ("safetensors", "onnx", "all")
BASE_NAME = "policy"


def export_policy(
    algorithm: Algorithm,
    folder: str | Path,
    format: str = "safetensors",
    extra_metadata: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write `policy.safetensors`, `policy.onnx` or both into a folder, with their description `policy.json`.

    Existing files are replaced.

    Parameters
    ----------
    algorithm : the algorithm whose policy to export, such as `PPO.from_checkpoint(RUN, replay=False)`
    folder : created if it does not exist
    format : `safetensors`, `onnx` or `all`
    extra_metadata : further entries of the description

    Raises
    ------
    ConfigError : the file cannot express this policy; the message gives the reason
    MissingExtraError : onnx or onnxruntime is not installed
    StorageError : the folder cannot be written
    """
    if format not in FORMATS:
        raise ConfigError(f"format={format}: expected one of {', '.join(FORMATS)}")
    if format != "safetensors":
        require_onnx()
    policy = build_exported_policy(algorithm, extra_metadata)
    files: dict[str, bytes] = {}
    description = policy.description()
    if format != "onnx":
        files[f"{BASE_NAME}.safetensors"] = safetensors_bytes(policy)
    if format != "safetensors":
        model = files[f"{BASE_NAME}.onnx"] = onnx_bytes(policy)
        description["onnx_difference"] = check_onnx(policy, model)
    description["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    files[f"{BASE_NAME}.json"] = (json.dumps(description, indent=2) + "\n").encode()
    out_dir = Path(folder)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{out_dir} cannot be written: {error.strerror}") from error
    for name, data in files.items():
        replace_file(out_dir / name, data)
    return [out_dir / name for name in files]
