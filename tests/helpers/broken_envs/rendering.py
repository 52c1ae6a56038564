"""Environments whose render modes do not match their declaration."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Line, register_broken


@register_broken("render-nothing", "warning")
class RendersNothing(Line):
    def render(self) -> Any:
        super().render()


@register_broken("render-frame", "warning")
class RendersFloats(Line):
    def render(self) -> Any:
        return super().render().astype(np.float32) / 255


@register_broken("render-fails", "warning")
class CannotRender(Line):
    def render(self) -> Any:
        raise AttributeError("'NoneType' object has no attribute 'blit'")


@register_broken("render-mode-lost", "warning")
class ForgetsItsMode(Line):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()


@register_broken("render-mode-unknown", "warning")
class ModeThatItDoesNotHave(Line):
    metadata = {"render_modes": ["human"], "render_fps": 4}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__("rgb_array")
