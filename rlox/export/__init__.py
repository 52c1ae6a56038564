"""A trained policy as one file that needs neither Python nor torch: what it is, and how it is written.

The file is read and played by `rlox_nn::exported` in Rust, and beside it may be ONNX. Both are checked by
what the policy itself says of golden observations (docs/export.md).
"""

from __future__ import annotations

from rlox.export.exported_policy import ExportedPolicy, build_exported_policy
from rlox.export.files import FORMATS, export_policy
from rlox.export.onnx_file import check_onnx, onnx_bytes, require_onnx
from rlox.export.safetensors_file import safetensors_bytes

__all__ = [
    "FORMATS",
    "ExportedPolicy",
    "build_exported_policy",
    "check_onnx",
    "export_policy",
    "onnx_bytes",
    "require_onnx",
    "safetensors_bytes",
]
