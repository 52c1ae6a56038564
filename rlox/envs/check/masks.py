"""Where an environment tells its mask of allowed actions, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.action_parts import nested, taken_apart
from rlox.envs.actions import ActionCodec
from rlox.envs.mask_forms import MaskForm
from rlox.envs.spaces import short
from rlox.errors import UnsupportedSpaceError

__all__ = ["MaskPlace"]


@dataclass(frozen=True)
class MaskPlace:
    """`env.action_mask` and its key; with `none` the mask is looked for where others have theirs."""

    source: str = "none"
    key: str = "action_mask"

    def found(self, env: Any, seen: Any, info: Any) -> MaskPlace:
        """Where the mask is, after a reset; the source stays `none` where there is no mask."""
        if self.source != "none" or form_of(env.action_space) is None:
            return self
        if isinstance(info, Mapping) and self.key in info:
            return MaskPlace("info", self.key)
        if isinstance(seen, Mapping) and self.key in seen:
            return MaskPlace("observation", self.key)
        return MaskPlace("method") if _method(env) else self

    def require_choices(self, space: Any) -> None:
        """`UnsupportedSpaceError`, as of a run, where no mask could be of these actions."""
        if form_of(space) is None:
            raise UnsupportedSpaceError(
                f"env.action_mask={self.source}: masks are of choices, it has {short(space)}; set "
                "env.action_mask=none"
            )

    def mask(self, env: Any, seen: Any, info: Any) -> Any:
        """The mask, `None` where there is none."""
        if self.source == "method":
            tells = _method(env)
            return tells() if tells else None
        there = {"info": info, "observation": seen}.get(self.source)
        return there.get(self.key) if isinstance(there, Mapping) else None

    @property
    def told(self) -> str:
        """The mask, in words."""
        return {"method": "action_masks()"}.get(self.source, f"the mask {self.key!r}")

    def absent(self, asked: bool) -> str:
        """What is said where there is none after the first reset; `asked`: the run is to keep to one."""
        where = {"info": " in the info", "observation": " in the observation"}.get(self.source, "")
        why = f"as env.action_mask={self.source} says" if asked else "as its name promises"
        return (
            f"{self.told} is not there{where} after a reset, expected one, {why}; tell it after each reset "
            "and step" + (", or leave env.action_mask out" if asked else "")
        )

    def misfit(self, mask: Any, space: Any) -> tuple[str, str] | None:
        """Code and text of what is wrong with a mask of the choices of an action space."""
        told = self.told
        if mask is None:
            return "mask-missing", (
                f"{told} is not told, but was before, expected one after each reset and step that an action "
                "follows; tell it there too"
            )
        if not isinstance(space, spaces.Discrete):
            return _misfit_of_parts(mask, space, told)
        n, given = int(space.n), np.asarray(mask)
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

    def kept(self, mask: Any, space: Any, action: Any) -> Any:
        """An action that `mask` allows, in place of one that it may forbid; `None` where there is none."""
        form = form_of(space)
        assert form is not None
        row = form.row(mask)
        if form.empty(row):
            return None
        codec, begin = form.actions, 0
        parts = taken_apart(space, action, "the action")
        alone = nested(space, (np.asarray(value)[None] for _, _, value in parts))
        chosen = codec.of_env(alone, 1).reshape(1, -1)
        for k, n in enumerate(codec.choices):
            allowed, choice = np.flatnonzero(row[begin : begin + n]), int(chosen[0, k])
            if not row[begin + choice]:
                chosen[0, k] = allowed[choice % len(allowed)]
            begin += n
        return codec.each(codec.to_env(chosen.reshape(1, *codec.shape)))[0]


def form_of(space: Any) -> MaskForm | None:
    """The form of masks of an action space; `None` where it has no choices."""
    try:
        form = MaskForm(ActionCodec.of(space))
    except UnsupportedSpaceError:
        return None
    return form if form.size else None


def _misfit_of_parts(mask: Any, space: Any, told: str) -> tuple[str, str] | None:
    form = form_of(space)
    assert form is not None
    try:
        row = form.row(mask)
    except ValueError as error:
        return "mask-length", f"{told} {error}; count the values of each choice of the action_space"
    if empty := form.empty(row):
        return "mask-empty", (
            f"{told} {empty}, expected one choice at least where an action can follow; end the episode "
            "(terminated) where there is none"
        )
    return None


def _method(env: Any) -> Callable[[], Any] | None:
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return method if callable(method) else None
