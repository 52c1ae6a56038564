"""Writing mp4 files, with the optional imageio package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, MissingExtraError

__all__ = ["require_video", "write_mp4"]


def require_video() -> None:
    """Raise now, before hours of training, if videos cannot be written."""
    try:
        import imageio.v2  # noqa: F401
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("videos need imageio: pip install 'rlox[video]'") from error


def write_mp4(path: Path, frames: Sequence[NDArray[np.uint8]], fps: float) -> None:
    """Write RGB frames `[H, W, 3]` as H.264."""
    require_video()
    import imageio.v2 as imageio

    if not frames:
        raise ConfigError(f"no frames to write to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer: Any
    with imageio.get_writer(path, fps=fps, macro_block_size=2) as writer:
        for frame in frames:
            writer.append_data(frame)
