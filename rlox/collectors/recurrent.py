"""Rollouts of a policy with a memory: the collector keeps the state of each environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.collectors.rollout import RolloutCollector
from rlox.errors import ConfigError
from rlox.networks.recurrent import cut
from rlox.policies.base import Sampler
from rlox.policies.native import Acts
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.sources.arena import Arena, Ended
from rlox.sources.collector import look_ahead
from rlox.sources.engine import interruption
from rlox.types import Rollout

__all__ = ["RecurrentCollector"]

# Rows scored at once after collection, and rows with images, at least one environment's: bounds the memory
# of the layers.
SCORE_ROWS, SCORE_IMAGES = 1 << 13, 1 << 8


class RecurrentCollector(RolloutCollector):
    """A `RolloutCollector` for a `RecurrentActorCritic`; the same parameters.

    States go on across rollouts and begin at zeros with each episode. A rollout has the states that it
    began with (`first_state`) and where episodes begin (`extras["is_first"]`). What an episode that was
    cut off would still have been worth is asked of the state that led to its final observation.
    """

    _memory: NDArray[np.float32] | None = None  # [N, state_size]; None before the first rollout

    def gather(self, policy: Acts, n_steps: int) -> Rollout:
        """As `collect`, but where the environments wrote it: on the CPU, in the arena's memory."""
        if not isinstance(policy, RecurrentActorCritic):
            raise ConfigError(
                f"policy {type(policy).__name__} has no memory, expected a RecurrentActorCritic; "
                "collect with a RolloutCollector"
            )
        if self._memory is None:
            self._memory = np.zeros((self.n_envs, policy.state_size), np.float32)
        arena, begun = self._arena_of(n_steps), torch.from_numpy(self._memory.copy())
        is_first = np.zeros(arena.shape, np.bool_)
        # not by the lengths of episodes: a game that goes on behind a lost life is told as one
        is_first[0] = ~self._memory.any(1)

        def explore(generator: torch.Generator) -> Sampler:
            return self._sampler(policy, arena, begun, generator)

        def score(arena: Arena, ended: Ended | None) -> None:
            is_first[1:] = (arena.terminated | arena.truncated)[:-1]
            self._score_sequences(policy, arena, ended, begun, is_first)

        rollout = self._filled(arena, policy, explore, score)
        extras = {**rollout.extras, "is_first": torch.from_numpy(is_first.reshape(-1))}
        return replace(rollout, first_state=begun, extras=extras)

    def state(self) -> dict[str, Any]:
        """Everything the next rollout depends on, besides the policy."""
        state = super().state()
        if self._memory is not None:
            state["memory"] = self._memory.copy()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; environments that cannot be saved start new episodes, at zeros."""
        super().restore(state)
        goes_on = self._started and not interruption(self.env, state)
        memory = state.get("memory") if goes_on else None
        self._memory = None if memory is None else np.array(memory, np.float32)

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._memory = None

    def _sampler(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        begun: Tensor,
        generator: torch.Generator,
    ) -> Sampler:
        """Only the actor's part of the state goes from step to step; the critic's follows in the scoring."""
        step = policy.stepper(arena.shape[0], self.n_envs, generator)
        memory = begun[:, : policy.acting_size].to(self.device, copy=True)

        def sample(obs: Tensor, t: int) -> Tensor:
            nonlocal memory
            if t:
                ended = arena.terminated[t - 1] | arena.truncated[t - 1]
                if ended.any():
                    memory[torch.from_numpy(ended).to(self.device)] = 0.0
            action, memory = step(obs, memory, t)
            return action

        return sample

    def _score_sequences(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        ended: Ended | None,
        begun: Tensor,
        is_first: NDArray[np.bool_],
    ) -> None:
        """Log-probabilities and values of the rollout, and the states that the next one begins with."""
        n_steps, n_envs = arena.shape
        nothing = np.empty(0, np.int64)
        steps, envs = (nothing, nothing) if ended is None else ended[:2]
        led = np.zeros((len(steps), policy.state_size), np.float32)  # to final observations
        memory = np.zeros((n_envs, policy.state_size), np.float32)
        at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        many = max(1, at_once // n_steps)
        for start in range(0, n_envs, many):
            some = slice(start, min(start + many, n_envs))
            states, piece = self._replay(policy, arena, some, begun[some], is_first[:, some])
            here = (envs >= some.start) & (envs < some.stop)
            led[here] = states[piece[steps[here], envs[here] - start]]
            memory[some] = states[piece[-1]]
        memory[arena.terminated[-1] | arena.truncated[-1]] = 0.0
        self._memory = memory
        arena.values[n_steps] = self._values_after(policy, arena.obs[n_steps], memory)
        look_ahead(arena, ended, lambda at, last: self._values_after(policy, last, led[at]))

    def _replay(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        some: slice,
        begun: Tensor,
        is_first: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Score the environments `some`, `n` of them.

        Returns the states `[K, state_size]` that pieces end with, and which piece `[T, n]` ends with each
        step; -1 where none does.
        """
        n_steps, n_envs = is_first.shape
        pieces = cut(is_first, self.device)
        seen, done = (
            torch.from_numpy(column[:n_steps, some]).flatten(0, 1).to(self.device)
            for column in (arena.obs, arena.actions)
        )
        said = policy.replay(seen, begun.to(self.device), pieces)
        log_probs, _ = policy.head.score(said.outputs, done)
        arena.log_probs[:, some] = log_probs.view(is_first.shape).cpu().numpy()
        arena.values[:n_steps, some] = said.values.view(is_first.shape).cpu().numpy()
        piece = np.full(n_steps * n_envs, -1)
        piece[pieces.last.cpu().numpy()] = np.arange(len(said.ends))
        return said.ends.cpu().numpy(), piece.reshape(is_first.shape)

    def _values_after(
        self, policy: RecurrentActorCritic, obs: NDArray[Any], states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        given = (torch.split(torch.from_numpy(array), at_once) for array in (obs, states))
        said = [
            policy.get_value(*(part.to(self.device) for part in both))
            for both in zip(*given, strict=True)
        ]
        values: NDArray[np.float32] = torch.cat(said).cpu().numpy()
        return values
