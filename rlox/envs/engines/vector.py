"""Adapter from any `gymnasium.vector.VectorEnv`, with any autoreset mode, to the `VectorEnv` interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import LIFE_LOST, NO_ENVS, TRUE_RETURN, EpisodeEnds
from rlox.envs.engines.lives import LifeTracker
from rlox.envs.engines.masks import EngineMasks
from rlox.envs.engines.rows import require_flags, require_numbers, select_info, select_row
from rlox.envs.env_ownership import EnvOwner
from rlox.envs.failures import CHECK_HINT, close_or_warn, env_error_message
from rlox.envs.parts_codec import codec_of
from rlox.envs.seeding import KEYED, Seeding
from rlox.envs.spaces import shape_of
from rlox.errors import ConfigError, EnvError, RloxError

__all__ = ["VectorEngine", "autoreset_mode", "require_vector"]

Vector = gym.vector.VectorEnv[Any, Any, Any]


class VectorEngine(EnvOwner):
    """Environments that an engine steps all at once.

    `metadata["autoreset_mode"]` says how the engine begins episodes:

    - SAME_STEP: in the step that ends the previous one; the final observation is in `info["final_obs"]`.
    - DISABLED: when `VectorEngine` calls `reset(options={"reset_mask": ...})`, still in that step.
    - NEXT_STEP: in the step after the end, whose action is ignored. That step is not a transition: its reward
      is 0, its row is truncated (`EpisodeEnds.autoreset_envs`), and the row before has the episode's final
      observation.

    The engine is seeded once, with one number, to which engines add the index of a copy. Its state cannot be
    saved: a resumed run begins new episodes with other seeds.

    Parameters
    ----------
    env : the engine
    seed : seed of the run
    name : name of the environment, for messages
    keep_infos : whether the infos of every step are kept
    scale, clip : learning uses the rewards `clip(scale * reward, -clip, clip)`; reported returns are
        unscaled and unclipped
    lives : for games with lives: a lost life ends an episode only for learning; returns are of whole games
    n_frames : number of stacked frames in an observation, oldest first along its first axis
    seeding : seeding rule (`rlox.envs.seeding`)
    masks : action masks, which are then appended to each observation (`rlox.envs.masks`)
    """

    resume_grade = "episode_start"
    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        env: Vector,
        seed: int,
        name: str,
        keep_infos: bool = False,
        scale: float = 1.0,
        clip: float | None = None,
        lives: LifeTracker | None = None,
        n_frames: int = 1,
        seeding: str = KEYED,
        masks: EngineMasks | None = None,
    ) -> None:
        self.env, self.name = env, name
        self.keep_infos = keep_infos
        self.mode = autoreset_mode(env, name)
        self.n_envs = env.num_envs
        self.seeding = Seeding(seed, self.n_envs, seeding)
        self.n_starts = 0
        self._masks = masks
        observation_space = env.single_observation_space if masks is None else masks.reader.space
        self.observation_space, self.action_space = observation_space, env.single_action_space
        codec = codec_of(self.observation_space, name)
        self.observations = replace(codec, n_frames=n_frames)
        self.actions = ActionCodec.of(self.action_space, name)
        self._scale, self._clip = scale, np.inf if clip is None else clip
        self._shapes_rewards = scale != 1.0 or clip is not None
        self._lives = lives
        self._returns = np.zeros(self.n_envs, np.float64)  # of the current episodes
        self._no_flags = np.zeros(self.n_envs, np.bool_)
        self._was_done = np.zeros(self.n_envs, np.bool_)  # environments whose episode ended in the last step

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        self.claim([self.env])
        seed = self.seeding.engine_seed(self.n_starts)
        self.n_starts += 1
        self._returns[:], self._was_done[:] = 0.0, False
        observations, infos = self._call("reset", 2, lambda: self.env.reset(seed=seed))
        if self._lives is not None:
            self._lives.reset(infos)
        masks = self._read_masks(observations, infos, self._no_flags, "reset")
        self._encode(observations, masks, obs)
        self._store_infos(infos)

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        """Step every environment at once."""
        self.require_ownership()
        env_actions = self.actions.to_env(actions)
        result = self._call("step", 5, lambda: self.env.step(env_actions))
        observations, raw_rewards, term, trunc, infos = result
        rewards[:] = require_numbers(self.name, "rewards", raw_rewards, self.n_envs)
        terminated[:] = require_flags(self.name, "'terminated'", term, self.n_envs)
        truncated[:] = require_flags(self.name, "'truncated'", trunc, self.n_envs)
        game_continues, is_autoreset = self._game_flags(infos)
        autoreset_envs = np.flatnonzero(is_autoreset) if is_autoreset.any() else NO_ENVS
        rewards[autoreset_envs], terminated[autoreset_envs], truncated[autoreset_envs] = 0.0, False, False
        ended_envs = np.flatnonzero(terminated | truncated)
        self._returns += rewards
        game_continues = game_continues & terminated & ~truncated
        is_same_step = self.mode is AutoresetMode.SAME_STEP  # the next episodes have begun already
        masks = self._read_masks(observations, infos, self._no_flags if is_same_step else terminated, "step")
        ends = self._episode_ends(
            observations, infos, masks, ended_envs, terminated, autoreset_envs, game_continues
        )
        self._store_infos(infos)
        if len(ended_envs) and self.mode is AutoresetMode.DISABLED:
            term = terminated | truncated
            observations, infos = self._reset_ended(term)
            reset_masks = self._read_masks(observations, infos, ~term, "reset")
            if masks is not None and reset_masks is not None:
                masks[ended_envs] = reset_masks[ended_envs]
            self._store_infos(infos, ended_envs)
        self._encode(observations, masks, obs)
        if self._shapes_rewards:
            np.clip(self._scale * rewards, -self._clip, self._clip, out=rewards)
        if self.mode is AutoresetMode.NEXT_STEP:
            self._was_done[:] = terminated | truncated
            if self._lives is not None and not self._lives.autoresets_after_life:
                self._was_done &= ~game_continues
        truncated[autoreset_envs] = True  # so that no value bootstraps from a row that is not a transition
        return ends

    def state(self) -> dict[str, Any]:
        """Return the count of starts; an engine has no other state that can be saved."""
        return {"starts": self.n_starts, **self.seeding.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the count of starts, so that the next reset begins other episodes than the run's first."""
        self.n_starts = int(state["starts"])
        self.seeding.restore(state)

    def close(self) -> None:
        """Close the engine, once."""
        if not self.closed:
            self.closed = True
            close_or_warn(self.env, self.name)

    def _episode_ends(
        self,
        observations: Any,
        infos: Mapping[str, Any],
        masks: NDArray[np.int8] | None,
        ended_envs: NDArray[np.int64],
        terminated: NDArray[np.bool_],
        autoreset_envs: NDArray[np.int64],
        game_continues: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        """Collect final observations and infos of ended episodes, from where the engine puts them."""
        if not len(ended_envs) and not len(autoreset_envs):
            return None
        final_obs = self.observations.rows(len(ended_envs))
        final_infos: list[Mapping[str, Any]] = []
        is_same_step = self.mode is AutoresetMode.SAME_STEP
        if is_same_step and len(ended_envs) and "final_obs" not in infos:
            raise EnvError(
                f"{self.name} resets in the step that ends an episode (SAME_STEP) and gave no 'final_obs' "
                "in its infos, without which truncated episodes cannot be learned from"
            )
        raw_final_obs, raw_final_infos = (
            (infos.get("final_obs"), infos.get("final_info", {})) if is_same_step else (observations, infos)
        )
        for k, i in enumerate(ended_envs.tolist()):
            info = self._select_info(raw_final_infos, i)
            mask = None if masks is None or is_same_step else masks[i]
            self._encode_final_obs(raw_final_obs, i, info, mask, bool(terminated[i]), final_obs[k])
            final_infos.append(info)
        return EpisodeEnds(
            ended_envs,
            final_obs,
            self._final_infos(final_infos, ended_envs, game_continues[ended_envs]),
            autoreset_envs=autoreset_envs,
        )

    def _read_masks(
        self, observations: Any, infos: Mapping[str, Any], is_over: NDArray[np.bool_], call: str
    ) -> NDArray[np.int8] | None:
        """Return the masks after a call `[n_envs, size]`, or `None`; where `is_over` is true none is read."""
        return None if self._masks is None else self._masks.rows(observations, infos, is_over, call)

    def _encode_final_obs(
        self,
        raw_final_obs: Any,
        i: int,
        info: Mapping[str, Any],
        mask: NDArray[np.int8] | None,
        is_over: bool,
        row: NDArray[Any],
    ) -> None:
        """Write the final observation of environment `i` into its row, with `mask` or the one in `info`."""
        try:
            observation = select_row(raw_final_obs, i)
            if self._masks is not None and mask is not None:
                observation = self._masks.with_masks(observation, mask)
            elif self._masks is not None:
                observation = self._masks.reader.with_mask(
                    observation, info, "step (final_info, final_obs)", is_over
                )
            self.observations.encode_into(observation, row)
        except EnvError:
            raise
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            source = "'final_obs'" if self.mode is AutoresetMode.SAME_STEP else "its observations"
            raise EnvError(
                f"{self.name} ended an episode of environment {i}, whose last observation is not in {source} "
                f"of shape {shape_of(raw_final_obs)}, expected {self.n_envs} of "
                f"{self.observation_space}: {error}"
            ) from error

    def _select_info(self, infos: Any, i: int) -> dict[str, Any]:
        """Return the info of environment `i`."""
        try:
            return select_info(infos, i, self.n_envs)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise EnvError(
                f"{self.name} gave infos without a readable entry for environment {i}, expected a dict of "
                f"arrays with a row for each of {self.n_envs} environments: {error}"
            ) from error

    def _game_flags(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which games continue if their episode ended, and which environments only began one."""
        if self._lives is None:
            return self._no_flags, self._was_done
        game_continues, is_first_step = self._lives.step(infos)
        self._returns[is_first_step] = 0.0  # the engine did not report the end of the game before
        return game_continues, self._was_done | is_first_step

    def _final_infos(
        self,
        final_infos: list[Mapping[str, Any]],
        ended_envs: NDArray[np.int64],
        game_continues: NDArray[np.bool_],
    ) -> list[Mapping[str, Any]]:
        """Add the unshaped return to the final infos of `ended_envs`, and mark games that continue."""
        for k, i in enumerate(ended_envs):
            if game_continues[k]:
                final_infos[k] = {**final_infos[k], LIFE_LOST: True}
            elif self._shapes_rewards:
                final_infos[k] = {**final_infos[k], TRUE_RETURN: float(self._returns[i])}
        self._returns[ended_envs[~game_continues]] = 0.0
        return final_infos

    def _reset_ended(self, is_over: NDArray[np.bool_]) -> tuple[Any, Mapping[str, Any]]:
        """Reset the environments in `is_over`; returns the observations of all environments, and infos."""
        options = {"reset_mask": is_over.copy()}
        result: tuple[Any, Mapping[str, Any]] = self._call(
            "reset", 2, lambda: self.env.reset(options=options)
        )
        return result

    def _store_infos(self, infos: Mapping[str, Any], envs: NDArray[np.int64] | None = None) -> None:
        """Store the infos of all environments, or of `envs`."""
        if self.keep_infos:
            all_infos = list(self.infos) or [{} for _ in range(self.n_envs)]
            for i in range(self.n_envs) if envs is None else envs.tolist():
                all_infos[i] = self._select_info(infos, i)
            self.infos = all_infos

    def _encode(self, observations: Any, masks: NDArray[np.int8] | None, obs: NDArray[Any]) -> None:
        try:
            if self._masks is not None and masks is not None:
                observations = self._masks.with_masks(observations, masks)
            rows = self.observations.encode_batch(observations)
            if len(rows) != self.n_envs:  # one row would be broadcast to all
                raise ValueError(f"a batch of {len(rows)}")
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            raise EnvError(
                f"{self.name} gave observations of shape {shape_of(observations)}, expected {self.n_envs} of "
                f"{self.observation_space}: {error}; {CHECK_HINT}"
            ) from error
        obs[:] = rows

    def _call(self, call_name: str, n_values: int, call: Callable[[], Any]) -> Any:
        """Call the engine and check that it returns a tuple of `n_values`."""
        try:
            result = call()
        except RloxError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvError(env_error_message(self.name, call_name, error)) from error
        if not isinstance(result, tuple | list) or len(result) != n_values:
            length = f" of {len(result)}" if isinstance(result, tuple | list) else ""
            raise EnvError(
                f"{self.name} gave a {type(result).__name__}{length} in {call_name}, expected a tuple of "
                f"{n_values}"
            )
        return result


def autoreset_mode(env: Vector, name: str) -> AutoresetMode:
    """Return an engine's autoreset mode; `ConfigError` if its metadata has none."""
    metadata_value = env.metadata.get("autoreset_mode")
    try:
        return metadata_value if isinstance(metadata_value, AutoresetMode) else AutoresetMode(metadata_value)
    except ValueError as error:
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        raise ConfigError(
            f"{name}: metadata['autoreset_mode'] of {type(env).__name__} is {metadata_value!r}, expected one "
            f"of {modes} (gymnasium.vector)"
        ) from error


def require_vector(env: Any, n_envs: int, name: str) -> Vector:
    """Return `env` if it is a `gymnasium.vector.VectorEnv` of that size, else raise."""
    if not isinstance(env, gym.vector.VectorEnv):
        raise EnvError(f"{name} gave a {type(env).__name__}, expected a gymnasium.vector.VectorEnv")
    if env.num_envs != n_envs:
        raise EnvError(f"{name} gave {env.num_envs} environments, expected num_envs={n_envs}")
    autoreset_mode(env, name)
    return env
