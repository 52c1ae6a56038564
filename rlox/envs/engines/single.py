"""A vectorised environment of one, as a plain Gymnasium environment: for evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlox.envs.engines.masked import mask_method
from rlox.envs.engines.rows import flags_of, info_of, row_of, rows_of
from rlox.envs.engines.vector import autoreset_of, require_vector
from rlox.envs.seeding import SEEDS

__all__ = ["Single"]


class Single(gym.Env[Any, Any]):
    """One environment of an engine; `make(1)` gives a `gymnasium.vector.VectorEnv` of one.

    Each episode begins with a `reset` of the whole engine, so that its way of resetting does not matter.
    """

    def __init__(self, make: Callable[[int], Any], name: str) -> None:
        self.name = name
        self.engine = require_vector(make(1), 1, name)
        self._same = autoreset_of(self.engine, name) is AutoresetMode.SAME_STEP
        self.observation_space = self.engine.single_observation_space
        self.action_space = self.engine.single_action_space
        self._actions = batch_space(self.action_space, 1)
        method = mask_method(self.engine)
        if method is not None:  # found as that of any other environment
            self.action_masks = lambda: self._mask_of(method())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        taken = None if seed is None else seed % SEEDS
        seen, infos = self.engine.reset(seed=taken, options=options)
        return row_of(seen, 0), info_of(infos, 0, 1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A step."""
        room: Any = create_empty_array(self.action_space, 1)
        given = concatenate(self.action_space, [action], room)
        seen, paid, terminated, truncated, infos = self.engine.step(given)
        reward = rows_of(self.name, "rewards", paid, 1)[0]
        ends = {"'terminated'": terminated, "'truncated'": truncated}
        over = [bool(flags_of(self.name, part, given, 1)[0]) for part, given in ends.items()]
        if self._same and any(over):
            seen, infos = infos["final_obs"], infos.get("final_info", {})
        return row_of(seen, 0), float(reward), over[0], over[1], info_of(infos, 0, 1)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _mask_of(self, given: Any) -> Any:
        """The only one's mask; a tuple is one of each environment, but for a Tuple of actions."""
        several = isinstance(given, tuple) and not isinstance(self.action_space, gym.spaces.Tuple)
        return given[0] if several else row_of(given, 0)
