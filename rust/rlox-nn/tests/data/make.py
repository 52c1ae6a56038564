"""Writes the exported policies of this folder: barely trained policies of every kind.

If the format changes, add files of the new format and keep the old ones.

    PYTHONPATH=tests python rust/rlox-nn/tests/data/make.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.exported_policies import KINDS, VARIANTS

from rlox.export import build_exported_policy, safetensors_bytes

# Hidden widths that give small files.
NETS = {"sac": (66, 5), "dqn": (5, 66)}

if __name__ == "__main__":
    for name, make in {**KINDS, **VARIANTS}.items():
        for normalized in (False, True) if name in KINDS else (False,):
            options: dict[str, Any] = {"net_arch": NETS[name]} if name in NETS else {}
            policy = build_exported_policy(make(**options, **({"normalize_obs": True} if normalized else {})))
            file = f"{name}{'_normalized' * normalized}.safetensors"
            Path(__file__).with_name(file).write_bytes(safetensors_bytes(policy))
