"""Where an environment tells its mask of allowed actions, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["MaskPlace"]


@dataclass(frozen=True)
class MaskPlace:
    """`env.action_mask` and its key; with `none` the mask is looked for where others have theirs."""

    source: str = "none"
    key: str = "action_mask"

    def found(self, env: Any, seen: Any, info: Any) -> MaskPlace:
        """Where the mask is, after a reset; the source stays `none` where there is no mask."""
        if self.source != "none" or not isinstance(env.action_space, spaces.Discrete):
            return self
        if isinstance(info, Mapping) and self.key in info:
            return MaskPlace("info", self.key)
        if isinstance(seen, Mapping) and self.key in seen:
            return MaskPlace("observation", self.key)
        return MaskPlace("method") if _method(env) else self

    def mask(self, env: Any, seen: Any, info: Any) -> Any:
        """The mask, `None` where there is none."""
        if self.source == "method":
            tells = _method(env)
            return tells() if tells else None
        there = {"info": info, "observation": seen}.get(self.source)
        return there.get(self.key) if isinstance(there, Mapping) else None

    def misfit(self, mask: Any, n: int) -> tuple[str, str] | None:
        """Code and text of what is wrong with a mask of `n` choices."""
        told = {"method": "action_masks()"}.get(self.source, f"the mask {self.key!r}")
        if mask is None:
            return "mask-missing", (
                f"{told} is not told, but was before, expected one after each reset and step that an action "
                "follows; tell it there too"
            )
        given = np.asarray(mask)
        if given.shape != (n,):
            return "mask-length", (
                f"{told} has shape {given.shape}, expected ({n},): a number for each choice; count the "
                "choices of the action_space"
            )
        if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
            return "mask-values", (
                f"{told} is {given.tolist()}, expected 0 and 1, or bool; 1 is what is allowed"
            )
        if not given.any():
            return "mask-empty", (
                f"{told} allows no action, expected one at least where an action can follow; end the episode "
                "(terminated) where there is none"
            )
        return None


def _method(env: Any) -> Callable[[], Any] | None:
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return method if callable(method) else None
