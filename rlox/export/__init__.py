"""Exports of trained policies as one file that needs neither Python nor torch.

`rlox_nn::exported` reads and runs the safetensors file in Rust; an ONNX file may be written beside it. Both
are checked against the policy's own outputs for golden observations (docs/export.md).
"""

from __future__ import annotations

from rlox.export.exported_policy import ExportedPolicy, build_exported_policy
from rlox.export.files import FORMATS, export_policy, safetensors_bytes
from rlox.export.onnx_file import check_onnx, onnx_bytes, require_onnx

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
