"""An actor with a recurrent policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked_arrays import is_masked
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.training.actor import ActingState, BaseActor

__all__ = ["RecurrentActor"]

State = NDArray[np.float32]  # [B, actor_state_size]
MEMORY = "memory"  # the name of the recurrent state


class RecurrentActor(BaseActor[RecurrentActorCritic]):
    """An actor whose actions depend on a recurrent state of the episode so far."""

    def step(
        self, rows: NDArray[Any], state: ActingState, generator: torch.Generator | None = None
    ) -> tuple[Any, ActingState]:
        """Return actions and the recurrent state after them; the inputs are not changed."""
        policy, before = self.policy, torch.from_numpy(state[MEMORY]).to(self.device)
        outputs, after = policy.act(self.policy_input(rows), before)
        actions = policy.head.mode(outputs) if generator is None else policy.head.sample(outputs, generator)
        return self.to_env_actions(actions), {MEMORY: after.cpu().numpy()}

    def initial_state(self, n_slots: int) -> ActingState:
        """Return the recurrent state at the start of episodes, zeros `[n_slots, actor_state_size]`."""
        return {MEMORY: np.zeros((n_slots, self.policy.actor_state_size), np.float32)}

    def predict(
        self,
        obs: Any,
        generator: torch.Generator | None = None,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, State]:
        """Return the action for one raw observation or a batch, and the next states `[B, actor_state_size]`.

        `state` has the states that the last call returned (`None`: episodes begin); `episode_start` marks
        rows whose episode begins (a bool, or one per row).
        """
        rows, is_single = self.encode_obs(obs)
        input_state = self._input_state(state, episode_start, len(rows))
        with self.inference_mode():
            actions, next_state = self.step(rows, {MEMORY: input_state}, generator)
        return self.to_output(actions, is_single), next_state[MEMORY]

    def _input_state(self, state: Any, episode_start: Any, count: int) -> State:
        """Return a copy of the states for `count` observations, with zeros where an episode begins."""
        initial_state: State = self.initial_state(count)[MEMORY]
        starts = _start_mask(episode_start, count)
        if state is None:
            return initial_state
        if is_masked(state):
            raise ShapeError("some of the state is masked; give what predict returned")
        array = np.asarray(state)
        if array.shape != initial_state.shape:
            raise ShapeError(
                f"state has shape {array.shape}, expected {initial_state.shape}: the last result of predict "
                "for as many observations, or None where episodes begin"
            )
        if not np.isfinite(array).all():
            raise NonFiniteError("the state is not finite; give what predict returned")
        initial_state[:] = array
        initial_state[starts] = 0.0
        return initial_state


def _start_mask(episode_start: Any, count: int) -> NDArray[np.bool_]:
    """Return `episode_start` as a mask of `count` rows; None: no episode begins."""
    if episode_start is None:
        return np.zeros(count, np.bool_)
    array = np.asarray(episode_start)
    if is_masked(episode_start):
        raise ShapeError("some of episode_start is masked, expected True or False for each row")
    if array.shape not in ((), (count,)):
        raise ShapeError(
            f"episode_start has shape {array.shape}, expected a bool or ({count},), one for each observation"
        )
    if not np.isin(array, (0, 1)).all():
        raise ConfigError(f"episode_start={episode_start!r}: expected True or False, or 1 or 0, for each row")
    return np.broadcast_to(array.astype(np.bool_), count)
