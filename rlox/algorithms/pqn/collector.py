"""Rollouts of an epsilon-greedy policy, with the greatest Q-value of each state as its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from rlox.policies.base import NoiseBlocks, Sampler
from rlox.policies.q_policy import QPolicy
from rlox.sources.arena import Arena, FinalObsTable
from rlox.sources.collector import fill_next_values
from rlox.sources.rollout import RolloutSource
from rlox.sources.rollout_collector import RolloutCollector
from rlox.types import Clock, FusedUpdate, Progress, Rollout

__all__ = ["EpsilonGreedyCollector", "EpsilonGreedySource"]


class EpsilonGreedyCollector(RolloutCollector):
    """A `RolloutCollector` for a `QPolicy`, with the same parameters; `gae_lambda` is lambda of Q(lambda).

    `values` of a rollout are V(s) = max_a Q(s, a). With them the `returns` of GAE are lambda-returns
    (Gallici et al. 2025, section 4; Peng and Williams 1996): within an episode
    R_t = r_t + gamma ((1 - lambda) max_a Q(s_{t+1}, a) + lambda R_{t+1}), and in the last step of an episode
    or rollout R_t = r_t + gamma max_a Q(s_{t+1}, a), without the last term after termination. After
    truncation s_{t+1} is the final observation. `log_probs` are 0, since Q-learning needs none.
    """

    # The probability of a random action in each step of the next rollout; empty: the policy's `epsilon`.
    epsilons: Sequence[float] = ()

    def collect_in_arena(self, policy: object, n_steps: int) -> Rollout:
        """Like `collect`, but without returns; the rollout stays in the arena's memory, on the CPU."""
        actor = cast(QPolicy, policy)
        arena = self._arena_for(n_steps)
        epsilons = self.epsilons or [actor.epsilon] * n_steps

        def build_sampler(generator: torch.Generator) -> Sampler:
            return self._make_sampler(actor, epsilons, generator)

        def score(arena: Arena, final_obs: FinalObsTable | None) -> None:
            self._score_values(actor, arena, final_obs)

        return self._fill_and_score(arena, actor, build_sampler, score)

    def _make_sampler(
        self, policy: QPolicy, epsilons: Sequence[float], generator: torch.Generator
    ) -> Sampler:
        """Return the function that chooses the actions of step t; all randomness is from `generator`."""
        device = generator.device
        draws = NoiseBlocks(
            lambda shape: torch.rand(shape, generator=generator, device=device),
            len(epsilons),
            (2, self.n_envs),
        )
        q_values = policy.inference_values()

        def sample(obs: Tensor, t: int) -> Tensor:
            explore, choice = draws[t]
            greedy = q_values(obs).argmax(-1)
            return torch.where(explore < epsilons[t], policy.random_actions(obs, choice), greedy)

        return sample

    def _score_values(self, policy: QPolicy, arena: Arena, final_obs: FinalObsTable | None) -> None:
        """Compute max_a Q of every state, `[T + 1, N]`, and of the final observations."""
        obs = arena.obs.reshape(-1, arena.obs.shape[-1])
        arena.values[:] = self._estimate_values(policy, obs).reshape(arena.values.shape)
        arena.log_probs[:] = 0.0
        fill_next_values(arena, final_obs, lambda cut, last: self._estimate_values(policy, last))


@dataclass
class EpsilonGreedySource(RolloutSource):
    """Rollouts in which `epsilon` maps the elapsed fraction of the run, 0 to 1, to the exploration."""

    epsilon: Callable[[float], float] = lambda elapsed: 0.0

    def next(self, clock: Clock) -> tuple[Rollout | FusedUpdate | None, Progress]:
        """Collect the next rollout; epsilon depends only on the clock, so it needs no saved state."""
        collector = cast(EpsilonGreedyCollector, self.collector)
        horizon, n_envs = clock.horizon or 1, collector.n_envs
        steps = (clock.env_steps + t * n_envs for t in range(self.n_steps))
        collector.epsilons = [self.epsilon(min(step / horizon, 1.0)) for step in steps]
        try:
            return super().next(clock)
        finally:
            collector.epsilons = ()  # a rollout that a user collects has the policy's epsilon
