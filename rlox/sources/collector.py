"""Collection of rollouts in vectorised environments, with a value for the state after every step."""

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
from rlox.envs.base import NO_ENVS, EpisodeEnds, VectorEnv
from rlox.envs.engines.factories import close_on_error
from rlox.envs.make import EnvLike, make_vec
from rlox.envs.normalize import RewardNormalizer, observation_normalizer
from rlox.envs.spaces import infinity_note
from rlox.errors import ConfigError, NonFiniteError, RloxError
from rlox.parameters.lazy_torch import ActingPolicy, LazyTorchModule
from rlox.rng import ExclusiveLock, Streams
from rlox.sources.arena import Arena, FinalObsTable
from rlox.sources.env_state import env_identity, restore_envs
from rlox.sources.episodes import EpisodeTracker
from rlox.stopping import raise_if_expired
from rlox.types import Episode, Progress, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import nn

    from rlox.policies.base import ActorCritic, Sampler
    from rlox.policies.q_policy import QPolicy

__all__ = ["Collector", "fill_next_values"]

# At most this many rows, or rows with images, are scored at once; this bounds the memory of hidden layers.
SCORE_ROWS, SCORE_IMAGES = 1 << 16, 1 << 8


@dataclass(frozen=True)
class _Settings:
    """Types and ranges of the arguments."""

    n_envs: int = param(doc="parallel copies", within="[1, 16777216]")
    seed: int = param(doc="of every random stream", within="[0, 9223372036854775807]")


class Collector:
    """Steps `n_envs` environments with a policy, adds log-probabilities and values, returns rollouts.

    Episodes continue across rollouts. Terminated episodes are not bootstrapped; truncated ones are, from the
    value of their final observation (never of the reset state). The learner estimates advantages. Native
    environments run in Rust, all others in Gymnasium.

    Parameters
    ----------
    env_id : Gymnasium id, `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments
    seed : seed of environments and exploration
    device : device of the policy and of the returned rollout
    gamma : discount of the returns by whose standard deviation reward normalisation divides
    config : environment settings beyond id and n_envs (normalisation, workers, wrappers)
    env : a ready `VectorEnv` to use instead of making one
    """

    def __init__(
        self,
        env_id: EnvLike = "CartPole-v1",
        n_envs: int = 1,
        seed: int = 0,
        device: str | torch.device = "cpu",
        gamma: float = 0.99,
        *,
        config: EnvConfig | None = None,
        env: VectorEnv | None = None,
    ) -> None:
        name = env_id if isinstance(env_id, str) else "env"
        settings = make(_Settings, {"n_envs": n_envs, "seed": seed}, type(self).__name__)
        self.config = config or EnvConfig(id=name, n_envs=settings.n_envs)
        self.streams = Streams(settings.seed)
        source = None if isinstance(env_id, str) else env_id
        self.env = env or make_vec(self.config, settings.seed, source)
        self.n_envs = self.env.n_envs
        self._device = device if device == "cpu" else _torch_device(device)
        self.rollouts = 0
        self.env_steps = 0
        rule = self.config.normalize_rule
        with close_on_error(self.env, source) if env is None else nullcontext():
            self.obs_normalizer = (
                observation_normalizer(self.env.observations, rule) if self.config.normalize_obs else None
            )
        self.reward_normalizer = (
            RewardNormalizer(self.n_envs, gamma, rule=rule) if self.config.normalize_reward else None
        )
        self.tracker = EpisodeTracker(self.n_envs)
        self.progress = Progress()
        self._arena: Arena | None = None
        self._obs = self.env.observations.rows(self.n_envs)  # as the policy sees it
        self._rewards = np.zeros(self.n_envs, np.float64)
        self._rows_at_once = SCORE_IMAGES if self.env.observations.images else SCORE_ROWS
        self._started = False
        self._collect_lock = ExclusiveLock(f"a {type(self).__name__} is collecting")

    @cached_property
    def device(self) -> torch.device:
        """The device of the policy and of the returned rollout."""
        return _torch_device(self._device)

    def collect(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """Collect `n_steps` steps of every environment; `self.progress` has steps and finished episodes.

        On the CPU the rollout is valid until the next one, which reuses its memory.
        """
        return self.collect_in_arena(policy, n_steps).to(self.device)

    def collect_in_arena(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """Like `collect`, but the rollout stays on the CPU, in the arena's memory."""
        if isinstance(policy, LazyTorchModule):
            raise ConfigError(
                f"a NativePolicy does not act in torch, as a {type(self).__name__} requires; collect with a "
                "NativeCollector"
            )
        import torch

        from rlox.policies.user_policy import as_actor_critic, make_sampler, require_policy_fits

        actor = as_actor_critic(policy)
        arena = self._arena_for(n_steps)
        build_sampler = partial(make_sampler, actor, self.env.actions, n_steps, self.n_envs)
        try:
            return self._fill_and_score(arena, actor, build_sampler, partial(self._score, actor))
        except RuntimeError as error:
            if self.rollouts or isinstance(error, RloxError):
                raise
            obs = torch.from_numpy(self.env.observations.rows(2))
            require_policy_fits(actor, obs, self.env.actions, self.config.id)  # says which sizes differ
            raise

    def _fill_and_score(
        self,
        arena: Arena,
        policy: nn.Module,
        build_sampler: Callable[[torch.Generator], Sampler],
        score: Callable[[Arena, FinalObsTable | None], None],
    ) -> Rollout:
        """Fill the next rollout: step with the sampler's actions, then call `score` for the other columns."""
        import torch

        from rlox.policies.base import evaluation_mode

        with self._undo_on_error():
            with torch.inference_mode(), evaluation_mode(policy):
                self._start(arena)
                generator = self.streams.generator("action", self.rollouts, str(self.device))
                episodes = self._step_all(arena, self._act_function(arena, build_sampler(generator)))
                final_obs = arena.final_obs_table()
                score(arena, final_obs)
            return self._finish_rollout(arena, final_obs, episodes)

    def _finish_rollout(
        self, arena: Arena, final_obs: FinalObsTable | None, episodes: list[Episode], as_tensors: bool = True
    ) -> Rollout:
        """Check the filled columns and return them as a rollout."""
        self._check_finite(arena)
        self.progress = self.tracker.progress(arena.shape[0] * self.n_envs, episodes)
        self.rollouts += 1
        rollout = arena.rollout(final_obs, self.rollouts - 1, as_tensors)
        if mask_dim := self.env.observations.mask_dim:
            return replace(rollout, extras={"action_mask": rollout.obs[:, -mask_dim:] != 0})
        return rollout

    def state(self) -> dict[str, Any]:
        """Return everything that the next rollout depends on, besides the policy."""
        state: dict[str, Any] = {
            "env": self.env.state(),
            "engine": env_identity(self.env),
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
        if restore_envs(self.env, state, self._obs, self.tracker, self.reward_normalizer):
            self._started = bool(state["started"])

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return the columns `[T, N, ...]` of the last or the current rollout, for inspection."""
        if self._arena is None:
            return {}
        names = ("obs", "actions", "rewards", "terminated", "truncated", "log_probs", "values")
        return {name: getattr(self._arena, name) for name in names}

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def _act_function(self, arena: Arena, sample: Sampler) -> Callable[[int], None]:
        """Return a function that samples the actions of step t into the arena."""
        is_cpu = self.device.type == "cpu"

        def act(t: int) -> None:
            obs = arena.obs_rows[t]
            arena.action_rows[t].copy_(sample(obs if is_cpu else obs.to(self.device), t))

        return act

    def _step_all(self, arena: Arena, act: Callable[[int], None]) -> list[Episode]:
        """Fill the columns that environments write, from observation row 0 on.

        `act(t)` writes the actions of step t.
        """
        episodes: list[Episode] = []
        for t in range(arena.shape[0]):
            raise_if_expired()
            act(t)
            episodes += self._step(arena, t)
        self._obs[:] = arena.obs[-1]
        return episodes

    @contextmanager
    def _undo_on_error(self) -> Iterator[None]:
        """Run a block that collects; after an error restore the step count and begin new episodes."""
        with self._collect_lock:
            steps_before = self.env_steps
            try:
                yield
            except BaseException:
                self.env_steps = steps_before
                self._reset_collection()
                raise

    def _reset_collection(self) -> None:
        """Begin new episodes with the next rollout, since the states of the environments are unknown."""
        self._started = False
        self.tracker.reset()
        if self.reward_normalizer:
            self.reward_normalizer.returns[:] = 0.0

    def _step(self, arena: Arena, t: int) -> list[Episode]:
        """Take step t of every environment; return the episodes that it ended. The hot path of collection."""
        next_obs, rewards = arena.obs[t + 1], self._rewards
        ends = self.env.step_into(
            arena.actions[t], next_obs, rewards, arena.terminated[t], arena.truncated[t]
        )
        self.env_steps += self.n_envs
        self.tracker.add(rewards)
        episodes: list[Episode] = []
        if ends is not None:
            self._require_finite_last_obs(ends.obs, ends.envs, t)
            episodes = self.tracker.finish(ends.envs, self.env_steps, ends.infos)
            arena.ends.append((t, ends))
            self.tracker.undo_step(ends.autoreset_envs)
            if ends.restarts:
                self.tracker.drop_episodes(ends.lost_envs, ends.restarts)
            if ends.restarts or len(ends.autoreset_envs):
                arena.cut_lost_episodes(t, ends.invalid_envs)
        self._normalize(arena, t, ends)
        return episodes

    def _start(self, arena: Arena) -> None:
        arena.clear()
        if not self._started:
            self.env.reset_into(self._obs)
            if self.obs_normalizer:
                self.obs_normalizer.update(self._obs)
                self.obs_normalizer.apply(self._obs)
            self._started = True
        arena.obs[0] = self._obs

    def _normalize(self, arena: Arena, t: int, ends: EpisodeEnds | None) -> None:
        """Write the learner's rewards and standardise the new observations, in place."""
        if self.reward_normalizer:
            dones = arena.terminated[t] | arena.truncated[t]
            invalid_envs = NO_ENVS if ends is None else ends.invalid_envs
            arena.rewards[t] = self.reward_normalizer.scale(self._rewards, dones, invalid_envs)
        else:
            arena.rewards[t] = self._rewards
        if self.obs_normalizer:
            self.obs_normalizer.update(arena.obs[t + 1])
            self.obs_normalizer.apply(arena.obs[t + 1])
            if ends is not None:
                self.obs_normalizer.apply(ends.obs)

    def _score(self, actor: ActorCritic, arena: Arena, final_obs: FinalObsTable | None) -> None:
        """Compute log-probabilities and values of the whole rollout, and values of final observations."""
        from rlox.policies.base import dispatch_evaluation

        n_steps, n_envs = arena.shape
        obs, scorer = actor.scoring_inputs(arena.flat(arena.obs))
        actions = arena.flat(arena.actions)
        log_probs, values = arena.flat(arena.log_probs), arena.values[:n_steps].reshape(-1)
        for start in range(0, n_steps * n_envs, self._rows_at_once):
            rows = slice(start, start + self._rows_at_once)
            log_prob, _, value = dispatch_evaluation(
                scorer, obs[rows].to(self.device), actions[rows].to(self.device)
            )
            log_probs[rows] = log_prob.cpu()
            values[rows] = value.cpu().numpy()
        arena.values[n_steps] = self._estimate_values(actor, arena.obs[n_steps])
        fill_next_values(arena, final_obs, lambda cut, last: self._estimate_values(actor, last))

    def _estimate_values(self, actor: ActorCritic | QPolicy, obs: NDArray[Any]) -> NDArray[np.float32]:
        import torch

        values = [
            actor.get_value(rows.to(self.device)).cpu()
            for rows in torch.split(torch.from_numpy(obs), self._rows_at_once)
        ]
        return torch.cat(values).numpy()

    def _check_finite(self, arena: Arena) -> None:
        for name in ("obs", "rewards", "log_probs", "values", "next_values"):
            column = getattr(arena, name)
            if name == "obs":
                column = self.env.observations.numeric_view(column)
            # fast: a sum is finite only if every element is
            if not np.isfinite(column.sum(dtype=np.float64)):
                for index in np.argwhere(~np.isfinite(column)):
                    t, n = index[:2]
                    raise NonFiniteError(
                        f"{name}: {column[tuple(index)]} at step {t} of rollout {self.rollouts}, "
                        f"environment {n} (env_steps {self.env_steps}); expected finite numbers"
                        f"{infinity_note(column[tuple(index)])}"
                    ) from None

    def _require_finite_last_obs(
        self, obs: NDArray[Any], envs: NDArray[np.int64], steps: int | NDArray[np.int64]
    ) -> None:
        """Raise `NonFiniteError` for a non-finite final observation `[k, obs_dim]` of `envs` `[k]`.

        The value of a terminated episode's final observation is never computed, so no other check finds it.
        The check comes before standardisation, which would turn infinity into a finite number.
        """
        numbers = self.env.observations.numeric_view(obs)
        if not np.isfinite(numbers).all():
            k, column = np.argwhere(~np.isfinite(numbers))[0]
            raise NonFiniteError(
                f"obs: {numbers[k, column]} at step {np.broadcast_to(steps, envs.shape)[k]} of rollout "
                f"{self.rollouts}, environment {envs[k]} (env_steps {self.env_steps}), the last one of its "
                f"episode; expected finite numbers{infinity_note(numbers[k, column])}"
            )

    def _arena_for(self, n_steps: int) -> Arena:
        if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
            raise ConfigError(f"n_steps={n_steps!r}: expected a whole number of at least 1")
        if self._arena is None or self._arena.shape[0] != n_steps:
            codec = self.env.observations
            self._arena = Arena(n_steps, self.n_envs, codec.dim, self.env.actions, codec.dtype)
        return self._arena


def _torch_device(name: str | torch.device) -> torch.device:
    """Return the torch device of that name; `ConfigError` for an unknown one."""
    import torch

    try:
        return torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"device={name!r}: expected cpu, cuda, cuda:N or mps") from error


def fill_next_values(
    arena: Arena,
    final_obs: FinalObsTable | None,
    value_function: Callable[[NDArray[np.bool_], NDArray[Any]], NDArray[np.float32]],
) -> None:
    """Fill `arena.next_values` from `arena.values`.

    `value_function` computes the values of the final observations of truncated episodes. It gets the mask of
    their entries in `final_obs`, and these observations.
    """
    arena.next_values[:] = arena.values[1:]
    arena.next_values[arena.terminated] = 0.0
    if final_obs is None:
        return
    steps, envs, last_obs = final_obs
    is_truncated = ~arena.terminated[steps, envs]
    if is_truncated.any():
        arena.next_values[steps[is_truncated], envs[is_truncated]] = value_function(
            is_truncated, last_obs[is_truncated]
        )
