"""Location of an environment's action mask, and the checks of a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.action_parts import leaf_values, to_nested
from rlox.envs.actions import ActionCodec
from rlox.envs.mask_forms import MaskForm
from rlox.envs.spaces import format_space
from rlox.errors import UnsupportedSpaceError

__all__ = ["MaskLocation"]


@dataclass(frozen=True)
class MaskLocation:
    """`env.action_mask` and its key; with `none`, `locate` looks for a mask in the usual places."""

    source: str = "none"
    key: str = "action_mask"

    def locate(self, env: Any, observation: Any, info: Any) -> MaskLocation:
        """Find the mask after a reset; the source stays `none` if there is no mask."""
        if self.source != "none" or mask_form(env.action_space) is None:
            return self
        if isinstance(info, Mapping) and self.key in info:
            return MaskLocation("info", self.key)
        if isinstance(observation, Mapping) and self.key in observation:
            return MaskLocation("observation", self.key)
        return MaskLocation("method") if _mask_method(env) else self

    def require_choices(self, space: Any) -> None:
        """Raise `UnsupportedSpaceError`, like a run, if these actions have no choices to mask."""
        if mask_form(space) is None:
            raise UnsupportedSpaceError(
                f"env.action_mask={self.source}: masks need actions with choices, but it has "
                f"{format_space(space)}; set env.action_mask=none"
            )

    def read_mask(self, env: Any, observation: Any, info: Any) -> Any:
        """Return the mask, `None` without one."""
        if self.source == "method":
            method = _mask_method(env)
            return method() if method else None
        container = {"info": info, "observation": observation}.get(self.source)
        return container.get(self.key) if isinstance(container, Mapping) else None

    @property
    def label(self) -> str:
        """Name of the mask in messages."""
        return {"method": "action_masks()"}.get(self.source, f"the mask {self.key!r}")

    def missing_message(self, is_configured: bool) -> str:
        """Describe a missing mask after the first reset; `is_configured` means that the run needs one."""
        location = {"info": " in the info", "observation": " in the observation"}.get(self.source, "")
        reason = f"as env.action_mask={self.source} says" if is_configured else "as its name promises"
        return (
            f"{self.label} is missing{location} after a reset, expected a mask, {reason}; give one after "
            "each reset and step" + (", or leave env.action_mask out" if is_configured else "")
        )

    def find_problem(self, mask: Any, space: Any) -> tuple[str, str] | None:
        """Return code and text of a mask's first problem for an action space; `None` for a valid mask."""
        label = self.label
        if mask is None:
            return "mask-missing", (
                f"{label} is missing, but was given before, expected one after each reset and step that an "
                "action follows; give it there too"
            )
        if not isinstance(space, spaces.Discrete):
            return _find_parts_problem(mask, space, label)
        n, array = int(space.n), np.asarray(mask)
        if array.shape != (n,):
            return "mask-length", (
                f"{label} has shape {array.shape}, expected ({n},): a number for each choice; count the "
                "choices of the action_space"
            )
        if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
            return "mask-values", (
                f"{label} is {array.tolist()}, expected 0 and 1, or bool; 1 where an action is allowed"
            )
        if not array.any():
            return "mask-empty", (
                f"{label} allows no action, expected at least one whenever an action can follow; end the "
                "episode (terminated) if there is none"
            )
        return None

    def allowed_action(self, mask: Any, space: Any, action: Any) -> Any:
        """Return an action that `mask` allows, the given one if possible; `None` if none is allowed."""
        form = mask_form(space)
        assert form is not None
        row = form.to_rows(mask)
        if form.empty_message(row):
            return None
        codec, begin = form.actions, 0
        parts = leaf_values(space, action, "the action")
        batched_action = to_nested(space, (np.asarray(value)[None] for _, _, value in parts))
        choices = codec.from_env(batched_action, 1).reshape(1, -1)
        for k, n in enumerate(codec.choices):
            allowed_choices, choice = np.flatnonzero(row[begin : begin + n]), int(choices[0, k])
            if not row[begin + choice]:
                choices[0, k] = allowed_choices[choice % len(allowed_choices)]
            begin += n
        return codec.unbatch(codec.to_env(choices.reshape(1, *codec.shape)))[0]


def mask_form(space: Any) -> MaskForm | None:
    """Return the mask form of an action space; `None` if it has no choices."""
    try:
        form = MaskForm(ActionCodec.of(space))
    except UnsupportedSpaceError:
        return None
    return form if form.size else None


def _find_parts_problem(mask: Any, space: Any, label: str) -> tuple[str, str] | None:
    form = mask_form(space)
    assert form is not None
    try:
        row = form.to_rows(mask)
    except ValueError as error:
        return "mask-length", f"{label} {error}; count the values of each choice of the action_space"
    if empty := form.empty_message(row):
        return "mask-empty", (
            f"{label} {empty}, expected at least one choice whenever an action can follow; end the episode "
            "(terminated) if there is none"
        )
    return None


def _mask_method(env: Any) -> Callable[[], Any] | None:
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return method if callable(method) else None
