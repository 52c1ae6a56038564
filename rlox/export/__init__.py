"""A trained policy as one file that needs neither Python nor torch: what it is, and how it is written.

The file is read and played by `rlox_nn::exported` in Rust, and beside it may be ONNX. Both are checked by
what the policy itself says of golden observations (docs/export.md).
"""

from __future__ import annotations

from rlox.export.exported import Exported, exported
from rlox.export.onnx_file import check_onnx, onnx_bytes, require_onnx
from rlox.export.safetensors_file import safetensors_bytes
from rlox.export.writing import FORMATS, export_policy

__all__ = [
    "FORMATS",
    "Exported",
    "check_onnx",
    "export_policy",
    "exported",
    "onnx_bytes",
    "require_onnx",
    "safetensors_bytes",
]
