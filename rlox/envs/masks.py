"""Action masks (Huang and Ontanon 2020): from the environment to the policy.

`MaskReader` reads the mask that an environment gives. `MaskActions` puts it next to the observation, and
`MaskedCodec` appends it to the observation's row, `[obs_dim + n_actions]`: 1 where an action is allowed, else
0. For actions with several choices, the mask is that of the first choice, then that of the second, and so on
(`rlox.envs.mask_forms`). `rlox.envs.engines.masks` does the same for vectorised environments. A mask
therefore goes wherever its observation goes: through subprocesses, resets and final observations, into
rollouts, buffers, n-step windows and saved states. Only the observation normalizer (`rlox.envs.normalize`)
and the policies (`rlox.policies.masking`) treat it separately.
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
from rlox.envs.parts_codec import OBSERVATION, codec_of
from rlox.envs.spaces import ObservationCodec, SpaceWithCodec, format_space
from rlox.errors import ConfigError, EnvError, ShapeError, UnsupportedSpaceError

__all__ = ["MASK", "OBSERVATION", "MaskActions", "MaskReader", "MaskedCodec", "MaskedSpace", "mask_wrapper"]

Env = gym.Env[Any, Any]

MASK = "action_mask"  # the key of the mask in `MaskActions`' observations


def mask_wrapper(config: EnvConfig) -> Callable[[Env], Env]:
    """Return the function that adds the outermost wrapper, which adds configured masks to observations."""
    if config.action_mask == "none":
        return lambda env: env
    source, key, name = config.action_mask, config.action_mask_key, config.id
    return lambda env: MaskActions(env, source, key, name)


class MaskedSpace(SpaceWithCodec):
    """The space of an observation with the mask of the actions allowed after it.

    `part` is the key of the mask in the environment's own Dict observation; `None` if the mask is given
    elsewhere.
    """

    def __init__(self, observation: gym.Space[Any], form: MaskForm, part: str | None) -> None:
        super().__init__({OBSERVATION: observation, MASK: spaces.MultiBinary(form.size)})
        self.form, self.part = form, part

    def codec(self, name: str) -> MaskedCodec:
        """Make the observation's own codec with the mask appended."""
        inner = codec_of(self[OBSERVATION], name)
        dim = inner.dim + self.form.size
        parts = {OBSERVATION: slice(0, inner.dim), MASK: slice(inner.dim, dim)}
        size, form = self.form.size, self.form
        images = inner.images
        return MaskedCodec(self, dim, parts, size, images, inner=inner, part=self.part, form=form)


class MaskReader:
    """Reads and checks the action masks of an environment.

    Parameters
    ----------
    source : `info`: `info[key]` of reset and of every step; `method`: the return value of `action_masks()`;
        `observation`: the part `key` of a Dict, which is removed from the observation
    key : name of the mask
    name : name of the environment, for messages
    observation_space, action_space : its spaces; the actions are choices, or have choices among their parts
    method : `action_masks`; `None` if the environment has no such method

    A mask must allow an action wherever one can follow. No action follows a termination: the mask there is
    not read and counts as all ones, and no target uses it.

    Attributes
    ----------
    space : space of observations with masks
    size : length of a mask
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
                f"env.action_mask={source}: masks need actions with choices, but {name} has "
                f"{format_space(action_space)}; "
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
        """Add the mask to an observation; the mask is all ones if the episode is over."""
        if is_over:
            mask = np.ones(self.size, np.int8)
        elif self.mask_method is not None:
            mask = self.check_mask(self.mask_method(), call, self.name)
        else:
            container = info if self.source == "info" else observation
            mask = self.check_mask(self.find_mask(container, call, self.name), call, self.name)
        return {OBSERVATION: self.strip_mask(observation), MASK: mask}

    def strip_mask(self, observation: Any) -> Any:
        """Remove the mask from an observation or a batch."""
        if self.source != "observation":
            return observation
        return {part: value for part, value in observation.items() if part != self.key}

    def find_mask(self, container: Any, call: str, label: str) -> Any:
        """Return the mask in an info or an observation; `label` names the environment in errors."""
        if isinstance(container, Mapping) and self.key in container:
            return container[self.key]
        keys = ", ".join(map(repr, container)) if isinstance(container, Mapping) and container else "nothing"
        raise EnvError(
            f"{label} gives no action mask: the {self.source} of {call} has {keys}, expected {self.key!r}; "
            "set env.action_mask_key to the key of the mask, or env.action_mask to where it is"
        )

    def check_mask(
        self, mask: Any, call: str, label: str, batch_shape: tuple[int, ...] = ()
    ) -> NDArray[np.int8]:
        """Check a mask, or several with `batch_shape`, and return `[*batch_shape, size]` of 0 and 1.

        Raises `EnvError`; `label` names the environment.
        """
        prefix = f"the action mask of {label}, {self.location(call)},"
        try:
            rows = self._form.to_rows(mask, batch_shape)
        except ValueError as error:
            raise EnvError(f"{prefix} {error}") from error
        if empty := self._form.empty_message(rows):
            raise EnvError(
                f"{prefix} {empty}, expected at least one choice whenever an action can follow; end the "
                "episode (terminated) if there is none"
            )
        return rows

    def location(self, call: str) -> str:
        """Say where the mask is after a call, for messages."""
        if self.mask_method is not None:
            return f"action_masks() after {call}"
        return f"{self.key!r} in the {self.source} of {call}"

    def _require_method(self, method: Callable[[], Any] | None) -> Callable[[], Any]:
        if method is None:
            raise ConfigError(
                f"env.action_mask=method: {self.name} has no method action_masks(), expected one that "
                f"returns [{self.size}] of 0 and 1; set env.action_mask=info, observation or none"
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
    """Reads the mask of an environment (`MaskReader`) and puts it next to each observation.

    `action_masks()` may be a method of any wrapped environment.
    """

    def __init__(self, env: Env, source: str, key: str, name: str) -> None:
        super().__init__(env)
        mask_method = _mask_method(env) if source == "method" else None
        self._mask_reader = MaskReader(
            source, key, name, env.observation_space, env.action_space, mask_method
        )
        self.observation_space = self._mask_reader.space

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, with the mask of the first action."""
        observation, info = self.env.reset(**options)
        return self._mask_reader.with_mask(observation, info, "reset"), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with the mask of the next action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        masked_observation = self._mask_reader.with_mask(
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
    """Observations with their mask as one row: network inputs, then 0 or 1 for each value of each choice."""

    inner: ObservationCodec  # codec of the observation without the mask
    part: str | None  # key of the mask in the user's observation; None if it is given separately
    form: MaskForm

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """One-hot columns of the observation."""
        return self.inner.one_hot_columns

    @property
    def actor_numbers(self) -> Sequence[int] | None:
        """The numbers of the observation that an actor sees."""
        return self.inner.actor_numbers

    @cached_property
    def shape(self) -> Any:
        """The shape of an observation without its mask."""
        return self.inner.shape

    def encode_into(self, observation: Any, row: NDArray[Any]) -> None:
        """Write one observation with its mask into `row` `[dim]`."""
        self.inner.encode_into(observation[OBSERVATION], row[: self.input_dim])
        row[self.input_dim :] = observation[MASK]

    def encode_one(self, observation: Any) -> NDArray[Any]:
        """Encode one observation with its mask as a row `[1, dim]`."""
        return self.encode_batch([observation])

    def encode_batch(self, observations: Any) -> NDArray[Any]:
        """Encode N observations with masks as rows `[N, dim]`: batched, or a sequence of single ones."""
        if isinstance(observations, Sequence):
            rows = self.rows(len(observations))
            for observation, row in zip(observations, rows, strict=True):
                self.encode_into(observation, row)
            return rows
        obs, masks = self.inner.encode_batch(observations[OBSERVATION]), observations[MASK]
        return np.concatenate([obs, np.asarray(masks, self.dtype)], axis=1)

    def is_single(self, observation: Any) -> bool:
        """Tell whether `observation` is one observation rather than a batch."""
        return not isinstance(observation, Sequence) and self.inner.is_single(observation[OBSERVATION])

    def with_masks(self, observation: Any, masks: Any) -> dict[str, Any]:
        """Combine an observation of the environment, or a batch, with its masks.

        Masks that are part of the observation are taken from it. Otherwise `masks` gives them, `[n_actions]`
        or `[N, n_actions]`, or by parts (`MaskForm`); without `masks`, every action counts as allowed.
        """
        label = "action_masks"
        if self.part is not None:
            if masks is not None:
                raise ConfigError(
                    f"action_masks: the masks are part {self.part!r} of the observations "
                    "(env.action_mask=observation); leave action_masks out"
                )
            observation, masks = self._split_mask(observation)
            label = f"part {self.part!r} of the observation"
        is_single = self.inner.is_single(observation)
        batch_shape = () if is_single else (len(self.inner.encode_batch(observation)),)
        if masks is None:
            return {OBSERVATION: observation, MASK: np.ones((*batch_shape, self.mask_dim), np.int8)}
        try:
            rows = self.form.to_rows(masks, batch_shape)
        except ValueError as error:
            raise ShapeError(f"{label} {error}") from error
        if empty := self.form.empty_message(rows):
            raise ShapeError(f"{label} {empty}, expected at least one choice in each row")
        return {OBSERVATION: observation, MASK: rows}

    def _split_mask(self, observation: Any) -> tuple[Any, Any]:
        """Separate the mask from an observation, or from each of a list of observations."""
        part = self.part
        if isinstance(observation, Sequence):
            unmasked_observations, masks = zip(*map(self._split_mask, observation), strict=True)
            return list(unmasked_observations), list(masks)
        if not isinstance(observation, Mapping) or part not in observation:
            raise ValueError(f"has no part {part!r}")
        return {k: v for k, v in observation.items() if k != part}, observation[part]
