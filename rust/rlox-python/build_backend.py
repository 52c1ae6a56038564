"""The build backend of pip: maturin's, with the builder's home folder kept out of the binary.

Panic messages name source files, and those of crates lie in the cargo home. Cargo's configuration
cannot take that folder out, because it does not expand variables.
"""

from __future__ import annotations

import os
from pathlib import Path

from maturin import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def hide_cargo_home() -> None:
    """Give rustc one more flag: paths below the cargo home begin with `cargo`.

    `CARGO_ENCODED_RUSTFLAGS` separates by \\x1f, so folders may contain spaces.
    """
    cargo_home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").absolute()
    encoded_flags = os.environ.get("CARGO_ENCODED_RUSTFLAGS")
    flags = encoded_flags.split("\x1f") if encoded_flags else os.environ.get("RUSTFLAGS", "").split()
    flags.append(f"--remap-path-prefix={cargo_home}=cargo")
    os.environ["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)


hide_cargo_home()
