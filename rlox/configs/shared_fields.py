"""Fields that several algorithms share: image encoders, and the library that computes updates."""

from __future__ import annotations

from typing import Any

from rlox.configs.params import param

__all__ = ["CONVOLUTIONS", "backend", "channels", "encoder", "features"]

CONVOLUTIONS = ("nature", "impala", "small")


def encoder() -> Any:
    """Declare the field for the encoder of each image."""
    return param(
        "auto",
        "network of each image in the observations. nature: at least 36x36; impala: residual; small: "
        "grids of a few cells; mlp: the flattened pixels; auto: by size",
        choices=("auto", "mlp", *CONVOLUTIONS),
        source="Mnih et al. 2015; Espeholt et al. 2018",
    )


def features() -> Any:
    """Declare the field for the number of features of an image."""
    return param(
        None,
        "features of each image, before net_arch; null: 512 (nature), 256 (impala), 128 (small)",
        within="[1, 65536]",
        source="Mnih et al. 2015; Espeholt et al. 2018",
    )


def channels() -> Any:
    """Declare the field for the position of the channels dimension."""
    return param(
        "auto",
        "whether an image's channels are its first or last dimension; auto: the smaller one of them",
        choices=("auto", "first", "last"),
    )


def backend() -> Any:
    """Return the `backend` field of algorithms that have a native and a torch implementation."""
    return param(
        "auto",
        "library that computes the updates. native: Rust, for MLPs of vector observations on the CPU; "
        "auto: native where it was measured to be faster",
        choices=("auto", "torch", "native"),
    )
