"""Any `gymnasium.vector.VectorEnv` behind the common interface, whichever way it resets itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import GOES_ON, NOBODY, TRUE_RETURN, Finals
from rlox.envs.engines.lives import Lives
from rlox.envs.engines.masked import EngineMasks
from rlox.envs.engines.rows import flags_of, info_of, row_of, rows_of
from rlox.envs.failures import CHECK, close_or_warn, raised
from rlox.envs.seeding import KEYED, Seeding
from rlox.envs.spaces import ObservationCodec, shape_of
from rlox.envs.turns import Turns
from rlox.errors import ConfigError, EnvError, RloxError

__all__ = ["VectorEngine", "autoreset_of", "require_vector"]

Vector = gym.vector.VectorEnv[Any, Any, Any]


class VectorEngine(Turns):
    """Environments that are stepped all at once by an engine of their own.

    How it begins episodes is read from `metadata["autoreset_mode"]`:

    - SAME_STEP: in the step that ends one; the last observation is in `info["final_obs"]`.
    - DISABLED: they are reset here, by `reset(options={"reset_mask": ...})`, in the same step.
    - NEXT_STEP: in the step after it, whose action is ignored. That step is no transition: it pays
      nothing, its row is cut off (`Finals.idle`), and the row before has the episode's last observation.

    The engine is seeded once, with one number, to which engines add the number of a copy, and cannot be
    saved: a resumed run begins new episodes, from other seeds.

    Parameters
    ----------
    env : the engine
    seed : of the run
    name : of the environment, for messages
    keep_infos : whether the infos of every step are kept
    scale, clip : rewards as they are learned from are `clip(scale * reward, -clip, clip)`; returns are
        told without that
    lives : of games that have some: a lost life ends an episode for learning only, what is told is the game
    frames : that an observation is a stack of, oldest first along its first axis
    seeding : the rule of its seeds (`rlox.envs.seeding`)
    masks : of actions, which then stand behind each observation (`rlox.envs.masks`)
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
        lives: Lives | None = None,
        frames: int = 1,
        seeding: str = KEYED,
        masks: EngineMasks | None = None,
    ) -> None:
        self.env, self.name = env, name
        self.keep_infos = keep_infos
        self.mode = autoreset_of(env, name)
        self.n_envs = env.num_envs
        self.seeding = Seeding(seed, self.n_envs, seeding)
        self.starts = 0
        self._masks = masks
        seen = env.single_observation_space if masks is None else masks.source.space
        self.observation_space, self.action_space = seen, env.single_action_space
        codec = ObservationCodec.of(self.observation_space, name)
        self.observations = replace(codec, frames=frames)
        self.actions = ActionCodec.of(self.action_space, name)
        self._scale, self._clip = scale, np.inf if clip is None else clip
        self._shapes = scale != 1.0 or clip is not None
        self._lives = lives
        self._paid = np.zeros(self.n_envs, np.float64)  # in the episodes under way
        self._nobody = np.zeros(self.n_envs, np.bool_)
        self._over = np.zeros(self.n_envs, np.bool_)  # whose episode ended in the last step

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        self.take([self.env])
        seed = self.seeding.engine_seed(self.starts)
        self.starts += 1
        self._paid[:], self._over[:] = 0.0, False
        seen, infos = self._call("reset", 2, lambda: self.env.reset(seed=seed))
        if self._lives is not None:
            self._lives.begin(infos)
        masks = self._masks_of(seen, infos, self._nobody, "reset")
        self._encode(seen, masks, obs)
        self._keep(infos)

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment at once."""
        self.require_turn()
        given = self.actions.to_env(actions)
        stepped = self._call("step", 5, lambda: self.env.step(given))
        seen, paid, over, cut, infos = stepped
        rewards[:] = rows_of(self.name, "rewards", paid, self.n_envs)
        terminated[:] = flags_of(self.name, "'terminated'", over, self.n_envs)
        truncated[:] = flags_of(self.name, "'truncated'", cut, self.n_envs)
        on, resting = self._games(infos)
        idle = np.flatnonzero(resting) if resting.any() else NOBODY
        rewards[idle], terminated[idle], truncated[idle] = 0.0, False, False
        ended = np.flatnonzero(terminated | truncated)
        self._paid += rewards
        on = on & terminated & ~truncated
        same = self.mode is AutoresetMode.SAME_STEP  # of which all have begun another one
        masks = self._masks_of(seen, infos, self._nobody if same else terminated, "step")
        finals = self._finals(seen, infos, masks, ended, terminated, idle, on)
        self._keep(infos)
        if len(ended) and self.mode is AutoresetMode.DISABLED:
            over = terminated | truncated
            seen, infos = self._begun(over)
            begun = self._masks_of(seen, infos, ~over, "reset")
            if masks is not None and begun is not None:
                masks[ended] = begun[ended]
            self._keep(infos, ended)
        self._encode(seen, masks, obs)
        if self._shapes:
            np.clip(self._scale * rewards, -self._clip, self._clip, out=rewards)
        if self.mode is AutoresetMode.NEXT_STEP:
            self._over[:] = terminated | truncated
            if self._lives is not None and not self._lives.rests:
                self._over &= ~on
        truncated[idle] = True  # nothing flows into a row that is no transition
        return finals

    def state(self) -> dict[str, Any]:
        """How often it was started: all that can be saved of it."""
        return {"starts": self.starts, **self.seeding.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Begin new episodes, other ones than the run began with."""
        self.starts = int(state["starts"])
        self.seeding.restore(state)

    def close(self) -> None:
        """Close the engine, once."""
        if not self.closed:
            self.closed = True
            close_or_warn(self.env, self.name)

    def _finals(
        self,
        seen: Any,
        infos: Mapping[str, Any],
        masks: NDArray[np.int8] | None,
        ended: NDArray[np.int64],
        terminated: NDArray[np.bool_],
        idle: NDArray[np.int64],
        on: NDArray[np.bool_],
    ) -> Finals | None:
        """Last observations and infos of the episodes that ended, from where the engine has them."""
        if not len(ended) and not len(idle):
            return None
        last = self.observations.rows(len(ended))
        told: list[Mapping[str, Any]] = []
        same = self.mode is AutoresetMode.SAME_STEP
        if same and len(ended) and "final_obs" not in infos:
            raise EnvError(
                f"{self.name} resets in the step that ends an episode (SAME_STEP) and gave no 'final_obs' "
                "in its infos, without which truncated episodes cannot be learned from"
            )
        lasts, last_infos = (
            (infos.get("final_obs"), infos.get("final_info", {})) if same else (seen, infos)
        )
        for k, i in enumerate(ended.tolist()):
            info = self._info(last_infos, i)
            mask = None if masks is None or same else masks[i]
            self._last(lasts, i, info, mask, bool(terminated[i]), last[k])
            told.append(info)
        return Finals(ended, last, self._told(told, ended, on[ended]), idle=idle)

    def _masks_of(
        self, seen: Any, infos: Mapping[str, Any], over: NDArray[np.bool_], call: str
    ) -> NDArray[np.int8] | None:
        """The masks after a call `[n_envs, size]`, where there are such; none is asked of those in `over`."""
        return None if self._masks is None else self._masks.rows(seen, infos, over, call)

    def _last(
        self,
        lasts: Any,
        i: int,
        info: Mapping[str, Any],
        mask: NDArray[np.int8] | None,
        over: bool,
        row: NDArray[Any],
    ) -> None:
        """Write the last observation of environment `i` into its row, with `mask` or the one in `info`."""
        try:
            seen = row_of(lasts, i)
            if self._masks is not None and mask is not None:
                seen = self._masks.beside(seen, mask)
            elif self._masks is not None:
                seen = self._masks.source.beside(seen, info, "step (final_info, final_obs)", over)
            self.observations.encode_into(seen, row)
        except EnvError:
            raise
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            same = "'final_obs'" if self.mode is AutoresetMode.SAME_STEP else "its observations"
            raise EnvError(
                f"{self.name} ended an episode of environment {i}, whose last observation is not in {same} "
                f"of shape {shape_of(lasts)}, expected {self.n_envs} of {self.observation_space}: {error}"
            ) from error

    def _info(self, infos: Any, i: int) -> dict[str, Any]:
        """The info of environment `i`."""
        try:
            return info_of(infos, i, self.n_envs)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise EnvError(
                f"{self.name} gave infos from which that of environment {i} cannot be taken, expected a "
                f"dict of arrays with a row each of {self.n_envs}: {error}"
            ) from error

    def _games(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whose game goes on if its episode ended in this step, and whose step only began one."""
        if self._lives is None:
            return self._nobody, self._over
        on, begun = self._lives.step(infos)
        self._paid[begun] = 0.0  # where nothing told that the game before was over
        return on, self._over | begun

    def _told(
        self, told: list[Mapping[str, Any]], ended: NDArray[np.int64], on: NDArray[np.bool_]
    ) -> list[Mapping[str, Any]]:
        """The last infos of `ended` with what was paid, and which of their games go on."""
        for k, i in enumerate(ended):
            if on[k]:
                told[k] = {**told[k], GOES_ON: True}
            elif self._shapes:
                told[k] = {**told[k], TRUE_RETURN: float(self._paid[i])}
        self._paid[ended[~on]] = 0.0
        return told

    def _begun(self, over: NDArray[np.bool_]) -> tuple[Any, Mapping[str, Any]]:
        """Observations of all and infos, once the episodes that are over were followed by others."""
        options = {"reset_mask": over.copy()}
        begun: tuple[Any, Mapping[str, Any]] = self._call(
            "reset", 2, lambda: self.env.reset(options=options)
        )
        return begun

    def _keep(self, infos: Mapping[str, Any], envs: NDArray[np.int64] | None = None) -> None:
        """Infos of all, or of some."""
        if self.keep_infos:
            kept = list(self.infos) or [{} for _ in range(self.n_envs)]
            for i in range(self.n_envs) if envs is None else envs.tolist():
                kept[i] = self._info(infos, i)
            self.infos = kept

    def _encode(self, seen: Any, masks: NDArray[np.int8] | None, obs: NDArray[Any]) -> None:
        try:
            if self._masks is not None and masks is not None:
                seen = self._masks.beside(seen, masks)
            rows = self.observations.encode_batch(seen)
            if len(rows) != self.n_envs:  # one would become all
                raise ValueError(f"{len(rows)} of them")
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            raise EnvError(
                f"{self.name} gave observations of shape {shape_of(seen)}, expected {self.n_envs} of "
                f"{self.observation_space}: {error}; {CHECK}"
            ) from error
        obs[:] = rows

    def _call(self, what: str, parts: int, call: Callable[[], Any]) -> Any:
        """What the engine gives when it is asked, a tuple of so many parts."""
        try:
            given = call()
        except RloxError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvError(raised(self.name, what, error)) from error
        if not isinstance(given, tuple | list) or len(given) != parts:
            many = f" of {len(given)}" if isinstance(given, tuple | list) else ""
            raise EnvError(
                f"{self.name} gave a {type(given).__name__}{many} in {what}, expected a tuple of {parts}"
            )
        return given


def autoreset_of(env: Vector, name: str) -> AutoresetMode:
    """How an engine begins episodes; `ConfigError` where it does not say so."""
    said = env.metadata.get("autoreset_mode")
    try:
        return said if isinstance(said, AutoresetMode) else AutoresetMode(said)
    except ValueError as error:
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        raise ConfigError(
            f"{name}: metadata['autoreset_mode'] of {type(env).__name__} is {said!r}, expected one of "
            f"{modes} (gymnasium.vector)"
        ) from error


def require_vector(env: Any, n_envs: int, name: str) -> Vector:
    """What a factory gave, if it is a `gymnasium.vector.VectorEnv` of that size."""
    if not isinstance(env, gym.vector.VectorEnv):
        raise EnvError(f"{name} gave a {type(env).__name__}, expected a gymnasium.vector.VectorEnv")
    if env.num_envs != n_envs:
        raise EnvError(f"{name} gave {env.num_envs} environments, expected num_envs={n_envs}")
    autoreset_of(env, name)
    return env
