"""Any Gymnasium environment, several copies, in this process or one subprocess each."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import AsyncState
from numpy.typing import NDArray

from rlox._core import set_num_threads, stream_seed
from rlox.envs.base import Finals
from rlox.envs.columns import apart, joined
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.spaces import ActionCodec, ObservationCodec, shape_of
from rlox.errors import EnvError

__all__ = ["EnvFactory", "SubprocessGymVecEnv", "SyncGymVecEnv"]

EnvFactory = Callable[[], gym.Env[Any, Any]]


class SyncGymVecEnv:
    """Gymnasium environments stepped one after the other in this process.

    Environment i is seeded once, by `reset(seed=seed + i)`; later resets draw on from there. Where
    the environments can be saved (`rlox.envs.snapshot`) a resumed run goes on in mid-episode;
    elsewhere it starts new episodes from other seeds, so that it does not repeat its first ones.
    """

    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self, factories: Sequence[EnvFactory], seed: int, name: str, keep_infos: bool = False
    ) -> None:
        self.name = name
        self.keep_infos = keep_infos
        self.envs = [make() for make in factories]
        self.n_envs = len(self.envs)
        self.seed = seed
        self.starts = 0
        first = self.envs[0]
        self.resume_grade = "exact" if can_save(first) else "episode_start"
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self.observations = ObservationCodec.of(first.observation_space, name)
        self.actions = ActionCodec.of(first.action_space, name)

    def reset_into(self, obs: NDArray[np.float32]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        seeds = _start_seeds(self.seed, self.n_envs, self.starts)
        self.starts += 1
        infos = [self._restart(i, env, obs[i], seeds[i]) for i, env in enumerate(self.envs)]
        if self.keep_infos:
            self.infos = infos

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment in turn, resetting in place those whose episode ended."""
        given = self.actions.to_env(actions)
        index: list[int] = []
        last: list[NDArray[np.float32]] = []
        infos: list[Mapping[str, Any]] = []
        final_infos: list[Mapping[str, Any]] = []
        for i, env in enumerate(self.envs):
            try:
                seen, reward, term, trunc, info = env.step(given[i])
                rewards[i], terminated[i], truncated[i] = float(reward), term, trunc
            except (Exception, SystemExit) as error:
                raise _raised(self.name, i, "step", error) from error
            self._encode(i, seen, obs[i])
            if term or trunc:
                index.append(i)
                last.append(obs[i].copy())
                final_infos.append(dict(info))  # which the reset may write over
                info = self._restart(i, env, obs[i])
            infos.append(info)
        if self.keep_infos:
            self.infos = infos
        return Finals(np.asarray(index, np.int64), np.stack(last), final_infos) if index else None

    def state(self) -> dict[str, Any]:
        """How often it was started, and the environments' own state where it can be saved."""
        exact = self.resume_grade == "exact" and self.starts > 0
        return {
            "starts": self.starts,
            "envs": joined([save_env(env) for env in self.envs]) if exact else [],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on in mid-episode, or from the start of new ones than the run began with."""
        self.starts = int(state["starts"])
        trees = state["envs"]  # a list in checkpoints of before
        trees = trees if isinstance(trees, list) else apart(trees, self.n_envs)
        for env, saved in zip(self.envs, trees, strict=False):
            restore_env(env, saved)

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def _restart(
        self, i: int, env: gym.Env[Any, Any], row: NDArray[np.float32], seed: int | None = None
    ) -> dict[str, Any]:
        try:
            first, info = env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise _raised(self.name, i, "reset", error) from error
        self._encode(i, first, row)
        return info

    def _encode(self, i: int, observation: Any, row: NDArray[np.float32]) -> None:
        try:
            self.observations.encode_into(observation, row)
        except (ValueError, TypeError, IndexError) as error:
            raise EnvError(
                f"{self.name} (copy {i}) gave an observation of shape {shape_of(observation)}, "
                f"expected {self.observation_space}: {error}"
            ) from error


class SubprocessGymVecEnv:
    """Gymnasium's AsyncVectorEnv: one subprocess per environment, with a deadline for every step."""

    resume_grade = "episode_start"
    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        factories: Sequence[EnvFactory],
        seed: int,
        name: str,
        step_timeout: float,
        keep_infos: bool = False,
    ) -> None:
        self.name = name
        self.keep_infos = keep_infos
        self.seed = seed
        self.starts = 0
        self.timeout = step_timeout
        self.vec = _started([_InWorker(make, keep_infos) for make in factories], name)
        self.n_envs = len(factories)
        self.observation_space = self.vec.single_observation_space
        self.action_space = self.vec.single_action_space
        self.observations = ObservationCodec.of(self.observation_space, name)
        self.actions = ActionCodec.of(self.action_space, name)

    def reset_into(self, obs: NDArray[np.float32]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        seeds = _start_seeds(self.seed, self.n_envs, self.starts)
        self.starts += 1
        first, infos = self._answer("reset", lambda: self._reset(seeds))
        obs[:] = self.observations.encode_batch(first)
        self._keep(infos)

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment at once; `EnvError` when one does not answer in time."""
        given = self.actions.to_env(actions)
        seen, rewards[:], terminated[:], truncated[:], infos = self._answer(
            "step", lambda: self._step(given)
        )
        obs[:] = self.observations.encode_batch(seen)
        self._keep(infos)
        index = np.flatnonzero(terminated | truncated)
        if not len(index):
            return None
        finals = self.observations.encode_batch([infos["final_obs"][i] for i in index])
        return Finals(index, finals, _unpacked(infos["final_info"], index))

    def state(self) -> dict[str, Any]:
        """How often it was started; the rest lives in the subprocesses."""
        return {"starts": self.starts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the start of new episodes, other ones than the run began with."""
        self.starts = int(state["starts"])

    def close(self) -> None:
        """Stop the subprocesses, whatever they are doing."""
        # with a call pending, closing would wait for an answer that may not come
        self.vec._state = AsyncState.DEFAULT
        self.vec.close(terminate=True)

    def _reset(self, seeds: list[int]) -> Any:
        self.vec.reset_async(seed=seeds)
        return self.vec.reset_wait(timeout=self.timeout)

    def _step(self, actions: NDArray[Any]) -> Any:
        self.vec.step_async(actions)
        return self.vec.step_wait(timeout=self.timeout)

    def _keep(self, infos: Mapping[str, Any]) -> None:
        if self.keep_infos:
            self.infos = _unpacked(infos, range(self.n_envs))

    def _answer(self, call: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except multiprocessing.TimeoutError as error:
            self.close()
            raise EnvError(
                f"{self.name}: a subprocess did not answer {call} within {self.timeout:g} s; "
                "raise env.step_timeout, or look for a hang in the environment"
            ) from error
        except (EOFError, BrokenPipeError, ConnectionError) as error:
            self.close()
            raise EnvError(f"{self.name}: a subprocess died during {call}") from error
        except Exception as error:  # what the environment raised in the subprocess
            self.close()
            raise EnvError(
                f"{self.name} raised {type(error).__name__} in {call}: {error}"
            ) from error


def _started(factories: Sequence[_InWorker], name: str) -> Any:
    """The subprocesses; spawned, as a fork of a process with torch's threads can deadlock."""
    try:
        return AsyncVectorEnv(
            factories, autoreset_mode=AutoresetMode.SAME_STEP, context="spawn", daemon=True
        )
    except (ConnectionError, EOFError) as error:
        raise EnvError(
            f"{name}: the subprocesses ended while they were started; in a script, what starts them stands "
            "under if __name__ == '__main__':"
        ) from error


class _InWorker:
    """Makes an environment; in a subprocess, of which each has a CPU, with one thread for rlox."""

    def __init__(self, make: EnvFactory, keep_infos: bool) -> None:
        self.make = make
        self.keep_infos = keep_infos

    def __call__(self) -> gym.Env[Any, Any]:
        if multiprocessing.parent_process() is not None:
            set_num_threads(1)
        return _Sender(self.make(), self.keep_infos)


class _Sender(gym.Wrapper[Any, Any, Any, Any]):
    """Sends infos whole, in a tuple, and only those that are read; Gymnasium joins others to arrays.

    A last observation is a copy, as Gymnasium sends it after the reset, which may write over it.
    """

    def __init__(self, env: gym.Env[Any, Any], keep_infos: bool) -> None:
        super().__init__(env)
        self.keep_infos = keep_infos

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, with the info in its tuple if it is kept."""
        first, info = self.env.reset(**options)
        return first, {"info": (info,)} if self.keep_infos else {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with the info in its tuple if it is kept or the last of an episode."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        ended = terminated or truncated
        sent = {"info": (copy.deepcopy(info) if ended else info,)}
        return (
            copy.deepcopy(seen) if ended else seen,
            reward,
            terminated,
            truncated,
            sent if ended or self.keep_infos else {},
        )


def _unpacked(infos: Mapping[str, Any], index: Iterable[int]) -> list[Mapping[str, Any]]:
    return [infos["info"][i][0] for i in index]


def _raised(name: str, i: int, call: str, error: BaseException) -> EnvError:
    return EnvError(f"{name} (copy {i}) raised {type(error).__name__} in {call}: {error}")


def _start_seeds(seed: int, n_envs: int, starts: int) -> list[int]:
    """What to reset each environment with: `seed + i` at first, fresh keys when a run resumes."""
    if starts == 0:
        return [seed + i for i in range(n_envs)]
    return [stream_seed(seed, f"restart-{starts}", i) for i in range(n_envs)]
