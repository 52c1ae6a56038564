"""Environments that run in Rust, with the `VectorEnv` interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox import _core
from rlox._core import VecEnv
from rlox.envs.actions import ActionCodec
from rlox.envs.base import EpisodeEnds
from rlox.envs.ids import native_ids, plugin_module, space_of_actions, space_of_observations
from rlox.envs.parts_codec import codec_of
from rlox.importing import import_module

__all__ = ["NativeVecEnv", "native_env_class"]


def native_env_class(env_id: str) -> type[VecEnv] | None:
    """Return the class that steps `env_id` in Rust: from rlox, a plugin, or the module of `module:Id-v0`.

    A module has native environments if it defines `VecEnv`, `SingleEnv` and `native_env_ids()`. None if
    only Gymnasium has the id.
    """
    path, _, name = env_id.rpartition(":")
    module = import_module(f"env={env_id}", path) if path else _core
    if not path and name not in native_ids(module):
        module = plugin_module(name) or module
    if name not in native_ids(module):
        return None
    env_class: type[VecEnv] = vars(module)["VecEnv"]
    return env_class


class NativeVecEnv:
    """`rlox.VecEnv` as a `VectorEnv`: one call into Rust steps every environment."""

    resume_grade = "exact"
    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        env_id: str,
        n_envs: int,
        seed: int,
        precision: str = "f64",
        env_class: type[VecEnv] = VecEnv,
    ) -> None:
        self.core = env_class(n_envs, seed, env_id, precision=precision)
        self.n_envs = n_envs
        self.observation_space = space_of_observations(self.core)
        self.action_space = space_of_actions(self.core)
        self.observations = codec_of(self.observation_space, env_id)
        self.actions = ActionCodec.of(self.action_space, env_id)

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        obs[:] = self.core.reset_all()

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        """Step every environment; Rust applies the bounds of Box actions."""
        ends = self.core.step_into(actions, obs, rewards, terminated, truncated)
        return None if ends is None else EpisodeEnds(*ends)

    def state(self) -> dict[str, Any]:
        """Return the whole simulation: states, elapsed steps, stream positions."""
        return dict(self.core.snapshot())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, bit for bit."""
        self.core.restore(dict(state))

    def close(self) -> None:
        """Do nothing; the memory is freed with the object."""
