"""A vectorised environment of size one as a plain Gymnasium environment, for evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlox.envs.engines.masks import mask_method
from rlox.envs.engines.rows import require_flags, require_numbers, select_info, select_row
from rlox.envs.engines.vector import autoreset_mode, require_vector
from rlox.envs.seeding import SEED_LIMIT

__all__ = ["SingleEngineEnv"]


class SingleEngineEnv(gym.Env[Any, Any]):
    """One environment of an engine; `make(1)` returns a `gymnasium.vector.VectorEnv` of size one.

    Each episode begins with a `reset` of the whole engine, so that its autoreset mode does not matter.
    """

    def __init__(self, make: Callable[[int], Any], name: str) -> None:
        self.name = name
        self.engine = require_vector(make(1), 1, name)
        self._is_same_step = autoreset_mode(self.engine, name) is AutoresetMode.SAME_STEP
        self.observation_space = self.engine.single_observation_space
        self.action_space = self.engine.single_action_space
        self._batched_action_space = batch_space(self.action_space, 1)
        method = mask_method(self.engine)
        if method is not None:  # `MaskActions` finds it, as in any other environment
            self.action_masks = lambda: self._mask_of(method())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        engine_seed = None if seed is None else seed % SEED_LIMIT
        observations, infos = self.engine.reset(seed=engine_seed, options=options)
        return select_row(observations, 0), select_info(infos, 0, 1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step once."""
        out: Any = create_empty_array(self.action_space, 1)
        batched_action = concatenate(self.action_space, [action], out)
        observations, rewards, terminated, truncated, infos = self.engine.step(batched_action)
        reward = require_numbers(self.name, "rewards", rewards, 1)[0]
        flags_by_name = {"'terminated'": terminated, "'truncated'": truncated}
        flags = [
            bool(require_flags(self.name, part, batched_action, 1)[0])
            for part, batched_action in flags_by_name.items()
        ]
        if self._is_same_step and any(flags):
            observations, infos = infos["final_obs"], infos.get("final_info", {})
        return select_row(observations, 0), float(reward), flags[0], flags[1], select_info(infos, 0, 1)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _mask_of(self, masks: Any) -> Any:
        """Return the only mask; a tuple has one mask per environment, unless the actions are a Tuple."""
        has_mask_per_env = isinstance(masks, tuple) and not isinstance(self.action_space, gym.spaces.Tuple)
        return masks[0] if has_mask_per_env else select_row(masks, 0)
