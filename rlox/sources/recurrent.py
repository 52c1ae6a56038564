"""A collector of rollouts for recurrent policies, which keeps the recurrent state of each environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.errors import ConfigError
from rlox.networks.recurrent import split_sequences
from rlox.parameters.lazy_torch import ActingPolicy
from rlox.policies.base import Sampler
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.sources.arena import Arena, FinalObsTable
from rlox.sources.collector import fill_next_values
from rlox.sources.env_state import resume_warning
from rlox.sources.rollout_collector import RolloutCollector
from rlox.types import Rollout

__all__ = ["RecurrentCollector"]

# At most this many rows, without and with images, are scored in one pass after collection; this bounds the
# memory of the activations. But a pass has at least all rows of one environment.
SCORE_ROWS, SCORE_IMAGES = 1 << 13, 1 << 8


class RecurrentCollector(RolloutCollector):
    """A `RolloutCollector` for a `RecurrentActorCritic`, with the same parameters.

    States continue across rollouts and are zero at the start of each episode. A rollout has its initial
    states (`first_state`) and the starts of episodes (`extras["is_first"]`). A truncated episode is
    bootstrapped with the value of its final observation and the state that led to it.
    """

    _state: NDArray[np.float32] | None = None  # [N, state_size]; None before the first rollout

    def collect_in_arena(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """Like `collect`, but without advantages; the rollout stays in the arena's memory, on the CPU."""
        if not isinstance(policy, RecurrentActorCritic):
            raise ConfigError(
                f"policy {type(policy).__name__} is not recurrent, expected a RecurrentActorCritic; "
                "collect with a RolloutCollector"
            )
        if self._state is None:
            self._state = np.zeros((self.n_envs, policy.state_size), np.float32)
        arena, first_state = self._arena_for(n_steps), torch.from_numpy(self._state.copy())
        is_first = np.zeros(arena.shape, np.bool_)
        # from the states, not from the tracker's lengths, which continue after a lost life
        is_first[0] = ~self._state.any(1)

        def build_sampler(generator: torch.Generator) -> Sampler:
            return self._make_sampler(policy, arena, first_state, generator)

        def score(arena: Arena, final_obs: FinalObsTable | None) -> None:
            is_first[1:] = (arena.terminated | arena.truncated)[:-1]
            self._score_sequences(policy, arena, final_obs, first_state, is_first)

        rollout = self._fill_and_score(arena, policy, build_sampler, score)
        extras = {**rollout.extras, "is_first": torch.from_numpy(is_first.reshape(-1))}
        return replace(rollout, first_state=first_state, extras=extras)

    def state(self) -> dict[str, Any]:
        """Return everything that the next rollout depends on, besides the policy."""
        state = super().state()
        if self._state is not None:
            state["memory"] = self._state.copy()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; environments that cannot be saved start new episodes, with zero states."""
        super().restore(state)
        can_continue = self._started and not resume_warning(self.env, state)
        recurrent_state = state.get("memory") if can_continue else None
        self._state = None if recurrent_state is None else np.array(recurrent_state, np.float32)

    def _reset_collection(self) -> None:
        super()._reset_collection()
        self._state = None

    def _make_sampler(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        first_state: Tensor,
        generator: torch.Generator,
    ) -> Sampler:
        """Make the sampler, which keeps the actor's state between steps; acting needs no critic's state."""
        step = policy.stepper(arena.shape[0], self.n_envs, generator)
        actor_state = first_state[:, : policy.actor_state_size].to(self.device, copy=True)

        def sample(obs: Tensor, t: int) -> Tensor:
            nonlocal actor_state
            if t:
                dones = arena.terminated[t - 1] | arena.truncated[t - 1]
                if dones.any():
                    actor_state[torch.from_numpy(dones).to(self.device)] = 0.0
            action, actor_state = step(obs, actor_state, t)
            return action

        return sample

    def _score_sequences(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        final_obs: FinalObsTable | None,
        first_state: Tensor,
        is_first: NDArray[np.bool_],
    ) -> None:
        """Compute the rollout's log-probabilities and values, and the initial states of the next rollout."""
        n_steps, n_envs = arena.shape
        no_indices = np.empty(0, np.int64)
        steps, envs = (no_indices, no_indices) if final_obs is None else final_obs[:2]
        final_states = np.zeros((len(steps), policy.state_size), np.float32)  # before final observations
        last_state = np.zeros((n_envs, policy.state_size), np.float32)
        at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        envs_at_once = max(1, at_once // n_steps)
        for start in range(0, n_envs, envs_at_once):
            env_slice = slice(start, min(start + envs_at_once, n_envs))
            states, subsequence_ends = self._score_slice(
                policy, arena, env_slice, first_state[env_slice], is_first[:, env_slice]
            )
            in_slice = (envs >= env_slice.start) & (envs < env_slice.stop)
            final_states[in_slice] = states[subsequence_ends[steps[in_slice], envs[in_slice] - start]]
            last_state[env_slice] = states[subsequence_ends[-1]]
        last_state[arena.terminated[-1] | arena.truncated[-1]] = 0.0
        self._state = last_state
        arena.values[n_steps] = self._values_after(policy, arena.obs[n_steps], last_state)
        fill_next_values(
            arena, final_obs, lambda at, last: self._values_after(policy, last, final_states[at])
        )

    def _score_slice(
        self,
        policy: RecurrentActorCritic,
        arena: Arena,
        env_slice: slice,
        first_state: Tensor,
        is_first: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Score the environments `env_slice`, `n` of them.

        Returns the final state of each sub-sequence, `[K, state_size]`, and for each step the index of the
        sub-sequence that ends there, or -1, `[T, n]`.
        """
        n_steps, n_envs = is_first.shape
        subsequences = split_sequences(is_first, self.device)
        obs, actions = (
            torch.from_numpy(column[:n_steps, env_slice]).flatten(0, 1).to(self.device)
            for column in (arena.obs, arena.actions)
        )
        outputs = policy.forward_sequences(obs, first_state.to(self.device), subsequences)
        log_probs, _ = policy.head.score(outputs.outputs, actions)
        arena.log_probs[:, env_slice] = log_probs.view(is_first.shape).cpu().numpy()
        arena.values[:n_steps, env_slice] = outputs.values.view(is_first.shape).cpu().numpy()
        subsequence_ends = np.full(n_steps * n_envs, -1)
        subsequence_ends[subsequences.last_rows.cpu().numpy()] = np.arange(len(outputs.end_states))
        return outputs.end_states.cpu().numpy(), subsequence_ends.reshape(is_first.shape)

    def _values_after(
        self, policy: RecurrentActorCritic, obs: NDArray[Any], states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        batches = (torch.split(torch.from_numpy(array), at_once) for array in (obs, states))
        values_by_batch = [
            policy.get_value(*(part.to(self.device) for part in batch))
            for batch in zip(*batches, strict=True)
        ]
        values: NDArray[np.float32] = torch.cat(values_by_batch).cpu().numpy()
        return values
