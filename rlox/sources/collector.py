"""Rollouts: vectorised collection, with a value for every state that a step led to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs import EnvConfig, make, param
from rlox.envs.base import NOBODY, Finals, VectorEnv
from rlox.envs.engines.makers import building
from rlox.envs.make import EnvSource, make_vec
from rlox.envs.normalize import RewardNormalizer, observation_normalizer
from rlox.envs.spaces import what_came
from rlox.errors import ConfigError, NonFiniteError, RloxError
from rlox.exclusive import Exclusive
from rlox.policies.native import Acts, NativePolicy
from rlox.rng import Streams
from rlox.sources.arena import Arena, Ended
from rlox.sources.engine import engine_of, go_on
from rlox.sources.episodes import EpisodeTracker
from rlox.stopping import check
from rlox.types import Episode, Progress, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import nn

    from rlox.policies.base import ActorCritic, Sampler

__all__ = ["Collector", "look_ahead"]

# Rows scored at once after collection, and rows with images: bounds the memory of the hidden layers.
SCORE_ROWS, SCORE_IMAGES = 1 << 16, 1 << 8


@dataclass(frozen=True)
class _Settings:
    """Types and ranges of the arguments."""

    n_envs: int = param(doc="parallel copies", within="[1, 16777216]")
    seed: int = param(doc="of every random stream", within="[0, 9223372036854775807]")


class Collector:
    """Steps `n_envs` environments with a policy, scores what it did, and hands out rollouts.

    Episodes go on across rollouts. Terminated episodes are not bootstrapped; truncated ones are,
    from the value of their final observation (never of the reset state). Estimating advantages is
    left to whoever learns from a rollout. Native ids run in Rust, any other id in Gymnasium.

    Parameters
    ----------
    env_id : Gymnasium id, `gymnasium.Env`, or a callable that makes one
    n_envs : parallel copies
    seed : keys environments and exploration
    device : where the policy runs and the rollout is returned
    gamma : discount of the returns that reward normalisation divides by
    config : environment settings beyond id and n_envs (normalisation, workers, wrappers)
    env : a ready `VectorEnv` to use instead of making one
    """

    def __init__(
        self,
        env_id: EnvSource = "CartPole-v1",
        n_envs: int = 1,
        seed: int = 0,
        device: str | torch.device = "cpu",
        gamma: float = 0.99,
        *,
        config: EnvConfig | None = None,
        env: VectorEnv | None = None,
    ) -> None:
        name = env_id if isinstance(env_id, str) else "env"
        asked = make(_Settings, {"n_envs": n_envs, "seed": seed}, type(self).__name__)
        self.config = config or EnvConfig(id=name, n_envs=asked.n_envs)
        self.streams = Streams(asked.seed)
        source = None if isinstance(env_id, str) else env_id
        self.env = env or make_vec(self.config, asked.seed, source)
        self.n_envs = self.env.n_envs
        self._device = device if device == "cpu" else _device(device)
        self.rollouts = 0
        self.env_steps = 0
        rule = self.config.normalize_rule
        with building(self.env, source) if env is None else nullcontext():
            self.obs_normalizer = (
                observation_normalizer(self.env.observations, rule)
                if self.config.normalize_obs
                else None
            )
        self.reward_normalizer = (
            RewardNormalizer(self.n_envs, gamma, rule=rule)
            if self.config.normalize_reward
            else None
        )
        self.tracker = EpisodeTracker(self.n_envs)
        self.progress = Progress()
        self._arena: Arena | None = None
        self._obs = self.env.observations.rows(self.n_envs)  # as the policy sees it
        self._rewards = np.zeros(self.n_envs, np.float64)
        self._at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        self._started = False
        self._collecting = Exclusive(f"a {type(self).__name__} is collecting")

    @cached_property
    def device(self) -> torch.device:
        """Where the policy runs and the rollout is returned."""
        return _device(self._device)

    def collect(self, policy: Acts, n_steps: int) -> Rollout:
        """`n_steps` steps of every environment; `self.progress` has the steps and finished episodes.

        On the CPU it holds until the next one, which is written into the same memory.
        """
        return self.gather(policy, n_steps).to(self.device)

    def gather(self, policy: Acts, n_steps: int) -> Rollout:
        """As `collect`, but where the environments wrote it: on the CPU, in the arena's memory."""
        if isinstance(policy, NativePolicy):
            raise ConfigError(
                f"a NativePolicy does not act in torch, as a {type(self).__name__} asks for; collect with a "
                "NativeCollector"
            )
        import torch

        from rlox.policies.user import as_actor_critic, explorer, require_takes

        actor = as_actor_critic(policy)
        arena = self._arena_of(n_steps)
        explore = partial(explorer, actor, self.env.actions, n_steps, self.n_envs)
        try:
            return self._filled(arena, actor, explore, partial(self._score, actor))
        except RuntimeError as error:
            if self.rollouts or isinstance(error, RloxError):
                raise
            seen = torch.from_numpy(self.env.observations.rows(2))
            require_takes(actor, seen, self.env.actions, self.config.id)  # says which sizes differ
            raise

    def _filled(
        self,
        arena: Arena,
        policy: nn.Module,
        explore: Callable[[torch.Generator], Sampler],
        score: Callable[[Arena, Ended | None], None],
    ) -> Rollout:
        """The next rollout: steps with the actions that `explore` gives, then what `score` fills in."""
        import torch

        from rlox.policies.base import acting

        with self._whole():
            with torch.inference_mode(), acting(policy):
                self._start(arena)
                generator = self.streams.generator("action", self.rollouts, str(self.device))
                episodes = self._step_all(arena, self._sampling(arena, explore(generator)))
                ended = arena.ended()
                score(arena, ended)
            return self._finished(arena, ended, episodes)

    def _finished(
        self, arena: Arena, ended: Ended | None, episodes: list[Episode], tensors: bool = True
    ) -> Rollout:
        """The rollout whose columns are filled."""
        self._check_finite(arena)
        self.progress = self.tracker.progress(arena.shape[0] * self.n_envs, episodes)
        self.rollouts += 1
        rollout = arena.rollout(ended, self.rollouts - 1, tensors)
        if masked := self.env.observations.masked:
            return replace(rollout, extras={"action_mask": rollout.obs[:, -masked:] != 0})
        return rollout

    def state(self) -> dict[str, Any]:
        """Everything the next rollout depends on, besides the policy."""
        state: dict[str, Any] = {
            "env": self.env.state(),
            "engine": engine_of(self.env),
            "obs": self._obs.copy(),
            "started": self._started,
            "rollouts": self.rollouts,
            "env_steps": self.env_steps,
            "episodes": self.tracker.state(),
        }
        if self.obs_normalizer:
            state["obs_normalizer"] = self.obs_normalizer.state()
        if self.reward_normalizer:
            state["reward_normalizer"] = self.reward_normalizer.state()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; environments that cannot be saved start new episodes."""
        self.rollouts, self.env_steps = int(state["rollouts"]), int(state["env_steps"])
        if self.obs_normalizer:
            self.obs_normalizer.restore(state["obs_normalizer"])
        if self.reward_normalizer:
            self.reward_normalizer.restore(state["reward_normalizer"])
        if go_on(self.env, state, self._obs, self.tracker, self.reward_normalizer):
            self._started = bool(state["started"])

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """The columns `[T, N, ...]` of the last rollout (or of the one under way), to look into."""
        if self._arena is None:
            return {}
        names = ("obs", "actions", "rewards", "terminated", "truncated", "log_probs", "values")
        return {name: getattr(self._arena, name) for name in names}

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def _sampling(self, arena: Arena, sample: Sampler) -> Callable[[int], None]:
        """What writes the actions of step t that `sample` draws."""
        here = self.device.type == "cpu"

        def act(t: int) -> None:
            seen = arena.obs_rows[t]
            arena.action_rows[t].copy_(sample(seen if here else seen.to(self.device), t))

        return act

    def _step_all(self, arena: Arena, act: Callable[[int], None]) -> list[Episode]:
        """Fill what the environments have a part in, from row 0 of the observations on.

        `act` writes the actions of a step.
        """
        episodes: list[Episode] = []
        for t in range(arena.shape[0]):
            check()
            act(t)
            episodes += self._step(arena, t)
        self._obs[:] = arena.obs[-1]
        return episodes

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """The block that collects a rollout; where it raises, its steps are none of the run's."""
        with self._collecting:
            before = self.env_steps
            try:
                yield
            except BaseException:
                self.env_steps = before
                self._begin_anew()
                raise

    def _begin_anew(self) -> None:
        """Nobody knows where the environments stand: the next rollout begins new episodes."""
        self._started = False
        self.tracker.forget()
        if self.reward_normalizer:
            self.reward_normalizer.returns[:] = 0.0

    def _step(self, arena: Arena, t: int) -> list[Episode]:
        """Step t of every environment, and the episodes that it ended; the hot path of collection."""
        after, rewards = arena.obs[t + 1], self._rewards
        finals = self.env.step_into(
            arena.actions[t], after, rewards, arena.terminated[t], arena.truncated[t]
        )
        self.env_steps += self.n_envs
        self.tracker.add(rewards)
        episodes: list[Episode] = []
        if finals is not None:
            self._check_last(finals.obs, finals.envs, t)
            episodes = self.tracker.finish(finals.envs, self.env_steps, finals.infos)
            arena.finals.append((t, finals))
            self.tracker.skip(finals.idle)
            if finals.restarts:
                self.tracker.lose(finals.lost, finals.restarts)
            if finals.restarts or len(finals.idle):
                arena.lose(t, finals.void)
        self._normalize(arena, t, finals)
        return episodes

    def _start(self, arena: Arena) -> None:
        arena.clear()
        if not self._started:
            self.env.reset_into(self._obs)
            if self.obs_normalizer:
                self.obs_normalizer.learn(self._obs)
                self.obs_normalizer.apply(self._obs)
            self._started = True
        arena.obs[0] = self._obs

    def _normalize(self, arena: Arena, t: int, finals: Finals | None) -> None:
        """Write the rewards the learner sees and standardise what the step observed, in place."""
        if self.reward_normalizer:
            ended = arena.terminated[t] | arena.truncated[t]
            void = NOBODY if finals is None else finals.void
            arena.rewards[t] = self.reward_normalizer.scale(self._rewards, ended, void)
        else:
            arena.rewards[t] = self._rewards
        if self.obs_normalizer:
            self.obs_normalizer.learn(arena.obs[t + 1])
            self.obs_normalizer.apply(arena.obs[t + 1])
            if finals is not None:
                self.obs_normalizer.apply(finals.obs)

    def _score(self, actor: ActorCritic, arena: Arena, ended: Ended | None) -> None:
        """Log-probabilities and values of the whole rollout, and of where episodes were cut off."""
        from rlox.policies.base import evaluated

        n_steps, n_envs = arena.shape
        obs, scorer = actor.as_seen(arena.flat(arena.obs))
        actions = arena.flat(arena.actions)
        log_probs, values = arena.flat(arena.log_probs), arena.values[:n_steps].reshape(-1)
        for start in range(0, n_steps * n_envs, self._at_once):
            rows = slice(start, start + self._at_once)
            log_prob, _, value = evaluated(
                scorer, obs[rows].to(self.device), actions[rows].to(self.device)
            )
            log_probs[rows] = log_prob.cpu()
            values[rows] = value.cpu().numpy()
        arena.values[n_steps] = self._values(actor, arena.obs[n_steps])
        look_ahead(arena, ended, lambda cut, last: self._values(actor, last))

    def _values(self, actor: ActorCritic, obs: NDArray[Any]) -> NDArray[np.float32]:
        import torch

        values = [
            actor.get_value(rows.to(self.device)).cpu()
            for rows in torch.split(torch.from_numpy(obs), self._at_once)
        ]
        return torch.cat(values).numpy()

    def _check_finite(self, arena: Arena) -> None:
        for name in ("obs", "rewards", "log_probs", "values", "next_values"):
            column = getattr(arena, name)
            if name == "obs":
                column = self.env.observations.numbers_of(column)
            # quick: a sum is finite only if every element is
            if not np.isfinite(column.sum(dtype=np.float64)):
                for place in np.argwhere(~np.isfinite(column)):
                    t, n = place[:2]
                    raise NonFiniteError(
                        f"{name}: {column[tuple(place)]} at step {t} of rollout {self.rollouts}, "
                        f"environment {n} (env_steps {self.env_steps}); expected finite numbers"
                        f"{what_came(column[tuple(place)])}"
                    ) from None

    def _check_last(
        self, obs: NDArray[Any], envs: NDArray[np.int64], steps: int | NDArray[np.int64]
    ) -> None:
        """`NonFiniteError` for a last observation `[k, obs_dim]` of an episode of `envs` `[k]`.

        After termination no value is asked of it. It is looked at before it is standardised, which makes a
        number of infinity.
        """
        numbers = self.env.observations.numbers_of(obs)
        if not np.isfinite(numbers).all():
            k, column = np.argwhere(~np.isfinite(numbers))[0]
            raise NonFiniteError(
                f"obs: {numbers[k, column]} at step {np.broadcast_to(steps, envs.shape)[k]} of rollout "
                f"{self.rollouts}, environment {envs[k]} (env_steps {self.env_steps}), the last one of its "
                f"episode; expected finite numbers{what_came(numbers[k, column])}"
            )

    def _arena_of(self, n_steps: int) -> Arena:
        if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
            raise ConfigError(f"n_steps={n_steps!r}: expected a whole number of at least 1")
        if self._arena is None or self._arena.shape[0] != n_steps:
            seen = self.env.observations
            self._arena = Arena(n_steps, self.n_envs, seen.dim, self.env.actions, seen.dtype)
        return self._arena


def _device(name: str | torch.device) -> torch.device:
    """As torch has it; `ConfigError` for what is none."""
    import torch

    try:
        return torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"device={name!r}: expected cpu, cuda, cuda:N or mps") from error


def look_ahead(
    arena: Arena,
    ended: Ended | None,
    value: Callable[[NDArray[np.bool_], NDArray[Any]], NDArray[np.float32]],
) -> None:
    """Fill `arena.next_values` from its values.

    `value` is asked for those of final observations: of which entries of `ended`, and what was seen.
    """
    arena.next_values[:] = arena.values[1:]
    arena.next_values[arena.terminated] = 0.0
    if ended is None:
        return
    steps, envs, last = ended
    cut = ~arena.terminated[steps, envs]
    if cut.any():
        arena.next_values[steps[cut], envs[cut]] = value(cut, last[cut])
