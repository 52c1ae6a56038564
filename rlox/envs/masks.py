"""Masks of the actions that an environment allows (Huang and Ontanon 2020), on their way to a policy.

Wherever an environment tells its mask (`MaskReader`), `MaskActions` puts it beside the observation and
`MaskedCodec` behind it, into the same row: `[obs_dim + n_actions]`, 1 where an action is allowed, of actions
of several parts a mask of each choice after another (`rlox.envs.mask_forms`). `rlox.envs.engines.masks` does
so for vectorised environments. So a mask goes where its observation goes: through subprocesses, resets and
last observations, into rollouts, buffers, n-step windows and saved states, and nothing on the way has to know
of it but what standardises observations (`rlox.envs.normalize`) and what acts (`rlox.policies.masking`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.base import to_flag
from rlox.envs.mask_forms import MaskForm
from rlox.envs.spaces import ObservationCodec, SpaceWithCodec, format_space
from rlox.errors import ConfigError, EnvError, ShapeError, UnsupportedSpaceError

__all__ = ["MASK", "OBSERVATION", "MaskActions", "MaskReader", "MaskedCodec", "MaskedSpace", "mask_wrapper"]

Env = gym.Env[Any, Any]

OBSERVATION, MASK = "observation", "action_mask"  # the parts of what `MaskActions` gives


def mask_wrapper(config: EnvConfig) -> Callable[[Env], Env]:
    """What puts the configured masks into the observations of an environment; the outermost wrapper."""
    if config.action_mask == "none":
        return lambda env: env
    source, key, name = config.action_mask, config.action_mask_key, config.id
    return lambda env: MaskActions(env, source, key, name)


class MaskedSpace(SpaceWithCodec):
    """An observation and the mask of what is allowed after it.

    `part` is the part of the environment's own observation, a Dict, that the mask was; `None` where it
    was told apart from it.
    """

    def __init__(self, observation: gym.Space[Any], form: MaskForm, part: str | None) -> None:
        super().__init__({OBSERVATION: observation, MASK: spaces.MultiBinary(form.size)})
        self.form, self.part = form, part

    def codec(self, name: str) -> MaskedCodec:
        """The observation's own codec, with the mask behind it."""
        inner = ObservationCodec.of(self[OBSERVATION], name)
        dim = inner.dim + self.form.size
        parts = {OBSERVATION: slice(0, inner.dim), MASK: slice(inner.dim, dim)}
        size, form = self.form.size, self.form
        images = inner.images
        return MaskedCodec(self, dim, parts, size, images, inner=inner, part=self.part, form=form)


class MaskReader:
    """Where an environment tells its masks, and what may be wrong with one.

    Parameters
    ----------
    source : `info`: `info[key]` of reset and of every step; `method`: what `method()` gives; `observation`:
        the part `key` of a Dict, which is then no part of it
    key : the name of the mask
    name : of the environment, for messages
    observation_space, action_space : its spaces; its actions are choices, or have some among their parts
    method : `action_masks`; `None` where it has none

    An action has to be allowed wherever one can follow. In the state that a termination leaves none does:
    its mask is not asked for, and counts as of ones, which no target reads.

    Attributes
    ----------
    space : of observations with their masks beside them
    size : numbers in a mask
    """

    def __init__(
        self,
        source: str,
        key: str,
        name: str,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        method: Callable[[], Any] | None,
    ) -> None:
        self.source, self.key, self.name = source, key, name
        self._form = MaskForm(ActionCodec.of(action_space, name))
        self.size = self._form.size
        if not self.size:
            raise UnsupportedSpaceError(
                f"env.action_mask={source}: masks are of choices, {name} has {format_space(action_space)}; "
                "set env.action_mask=none"
            )
        self.mask_method: Callable[[], Any] | None = None
        part = None
        if source == "method":
            self.mask_method = self._require_method(method)
        elif source == "observation":
            observation_space, part = self._without_mask(observation_space), key
        self.space = MaskedSpace(observation_space, self._form, part)

    def with_mask(
        self, observation: Any, info: Mapping[str, Any], call: str, is_over: bool = False
    ) -> dict[str, Any]:
        """The observation and its mask; of ones where the episode is over."""
        if is_over:
            mask = np.ones(self.size, np.int8)
        elif self.mask_method is not None:
            mask = self.check_mask(self.mask_method(), call, self.name)
        else:
            container = info if self.source == "info" else observation
            mask = self.check_mask(self.find_mask(container, call, self.name), call, self.name)
        return {OBSERVATION: self.strip_mask(observation), MASK: mask}

    def strip_mask(self, observation: Any) -> Any:
        """An observation, or a batch, without the mask in it."""
        if self.source != "observation":
            return observation
        return {part: value for part, value in observation.items() if part != self.key}

    def find_mask(self, container: Any, call: str, label: str) -> Any:
        """The mask in an info or an observation of `label`."""
        if isinstance(container, Mapping) and self.key in container:
            return container[self.key]
        keys = ", ".join(map(repr, container)) if isinstance(container, Mapping) and container else "nothing"
        raise EnvError(
            f"{label} tells no action mask: the {self.source} of {call} has {keys}, expected {self.key!r}; "
            "name the key it has (env.action_mask_key), or where else the mask is (env.action_mask)"
        )

    def check_mask(
        self, mask: Any, call: str, label: str, batch_shape: tuple[int, ...] = ()
    ) -> NDArray[np.int8]:
        """A mask of `label`, or with `batch_shape` several, as `[*batch_shape, size]` of 0 and 1; else
        `EnvError`.
        """
        prefix = f"the action mask of {label}, {self.location(call)},"
        try:
            rows = self._form.row(mask, batch_shape)
        except ValueError as error:
            raise EnvError(f"{prefix} {error}") from error
        if empty := self._form.empty_message(rows):
            raise EnvError(
                f"{prefix} {empty}, expected one choice at least wherever an action can follow; end the "
                "episode (terminated) where there is none"
            )
        return rows

    def location(self, call: str) -> str:
        """Where a mask is after a call, for messages."""
        if self.mask_method is not None:
            return f"action_masks() after {call}"
        return f"{self.key!r} in the {self.source} of {call}"

    def _require_method(self, method: Callable[[], Any] | None) -> Callable[[], Any]:
        if method is None:
            raise ConfigError(
                f"env.action_mask=method: {self.name} has no method action_masks(), which gives "
                f"[{self.size}] of 0 and 1; set env.action_mask=info, observation or none"
            )
        return method

    def _without_mask(self, space: gym.Space[Any]) -> spaces.Dict:
        if not isinstance(space, spaces.Dict) or self.key not in space.spaces:
            raise UnsupportedSpaceError(
                f"env.action_mask=observation: {self.name} has no part {self.key!r} in its observations, "
                f"{format_space(space)}, expected a Dict with it; name the part (env.action_mask_key), or "
                "set env.action_mask=info, method or none"
            )
        return spaces.Dict({k: part for k, part in space.spaces.items() if k != self.key})


class MaskActions(gym.Wrapper[Any, Any, Any, Any]):
    """Finds the mask of an environment (`MaskReader`) and puts it beside each observation.

    `action_masks()` may also be a method of what is wrapped.
    """

    def __init__(self, env: Env, source: str, key: str, name: str) -> None:
        super().__init__(env)
        mask_method = _mask_method(env) if source == "method" else None
        self._masks = MaskReader(source, key, name, env.observation_space, env.action_space, mask_method)
        self.observation_space = self._masks.space

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, with the mask of the first action."""
        observation, info = self.env.reset(**options)
        return self._masks.with_mask(observation, info, "reset"), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with the mask of the next action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        masked_observation = self._masks.with_mask(
            observation, info, "step", is_over=to_flag("terminated", terminated)
        )
        return masked_observation, reward, terminated, truncated, info


def _mask_method(env: Env) -> Callable[[], Any] | None:
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return cast(Callable[[], Any], method) if callable(method) else None


@dataclass(frozen=True, kw_only=True)
class MaskedCodec(ObservationCodec):
    """Observations with their mask as one row: what networks see, then 0 or 1 for each choice."""

    inner: ObservationCodec  # of the observation alone
    part: str | None  # of a user's observation that is the mask; None where it is given apart
    form: MaskForm

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """Those of the observation."""
        return self.inner.one_hot_columns

    @cached_property
    def shape(self) -> Any:
        """The shape of an observation without its mask."""
        return self.inner.shape

    def encode_into(self, observation: Any, row: NDArray[Any]) -> None:
        """Write one observation with its mask into `row` `[dim]`."""
        self.inner.encode_into(observation[OBSERVATION], row[: self.input_dim])
        row[self.input_dim :] = observation[MASK]

    def encode_one(self, observation: Any) -> NDArray[Any]:
        """One observation with its mask as a row `[1, dim]`."""
        return self.encode_batch([observation])

    def encode_batch(self, observations: Any) -> NDArray[Any]:
        """Observations `[N, ...]` with masks `[N, n_actions]`, or N of both, as rows `[N, dim]`."""
        if isinstance(observations, Sequence):
            rows = self.rows(len(observations))
            for observation, row in zip(observations, rows, strict=True):
                self.encode_into(observation, row)
            return rows
        obs, masks = self.inner.encode_batch(observations[OBSERVATION]), observations[MASK]
        return np.concatenate([obs, np.asarray(masks, self.dtype)], axis=1)

    def is_single(self, observation: Any) -> bool:
        """Whether `observation` is one observation rather than a batch of them."""
        return not isinstance(observation, Sequence) and self.inner.is_single(observation[OBSERVATION])

    def with_masks(self, observation: Any, masks: Any) -> dict[str, Any]:
        """An observation as the environment gives it, or a batch, with its masks beside it.

        Masks are taken out of the observation where they are a part of it. Elsewhere they are `masks`,
        `[n_actions]` or `[N, n_actions]`, or by parts (`MaskForm`); without them every action counts as
        allowed.
        """
        label = "action_masks"
        if self.part is not None:
            if masks is not None:
                raise ConfigError(
                    f"action_masks: masks are part {self.part!r} of the observations "
                    "(env.action_mask=observation); leave them out"
                )
            observation, masks = self._split_mask(observation)
            label = f"part {self.part!r} of the observation"
        is_single = self.inner.is_single(observation)
        batch_shape = () if is_single else (len(self.inner.encode_batch(observation)),)
        if masks is None:
            return {OBSERVATION: observation, MASK: np.ones((*batch_shape, self.mask_dim), np.int8)}
        try:
            rows = self.form.row(masks, batch_shape)
        except ValueError as error:
            raise ShapeError(f"{label} {error}") from error
        if empty := self.form.empty_message(rows):
            raise ShapeError(f"{label} {empty}, expected one choice at least in each row")
        return {OBSERVATION: observation, MASK: rows}

    def _split_mask(self, observation: Any) -> tuple[Any, Any]:
        """The observation without its mask, and the mask; of N observations in a list as well."""
        part = self.part
        if isinstance(observation, Sequence):
            unmasked_observations, masks = zip(*map(self._split_mask, observation), strict=True)
            return list(unmasked_observations), list(masks)
        if not isinstance(observation, Mapping) or part not in observation:
            raise ValueError(f"has no part {part!r}")
        return {k: v for k, v in observation.items() if k != part}, observation[part]
