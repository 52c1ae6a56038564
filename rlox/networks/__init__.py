"""Network building blocks."""

from rlox.networks.mlp import inference, mlp, orthogonal_init

__all__ = ["inference", "mlp", "orthogonal_init"]
