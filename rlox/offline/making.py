"""Datasets by the quality of their policy: random, medium, medium-replay, expert (Fu et al. 2020)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EnvSource, single_factory
from rlox.envs.space_text import text_of
from rlox.envs.spaces import ObservationCodec
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, UnsupportedSpaceError
from rlox.offline.description import Returns, described
from rlox.offline.replayed import replayed_columns, require_replay
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import best_checkpoint, resolve_checkpoint, whole_checkpoints
from rlox.runs.record import Rows, dataset_of, env_of, play, record
from rlox.sources.dataset_file import Dataset
from rlox.sources.prepared import complete_returns
from rlox.training.actor import Forgetful

__all__ = ["Play", "of_random_actions", "of_run"]

log = logging.getLogger("rlox.offline")

PART = 1.0 / 3.0  # of the way from random to expert, where medium begins
SCORING_SEED = 500_000  # episode i of a score starts from reset(seed=SCORING_SEED + i)


def _nobody(*told: Any) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Play:
    """How a dataset is played.

    Attributes
    ----------
    steps : transitions at least, of whole episodes
    seed : episode i starts from `reset(seed=seed + i)`
    sampled : whether actions are sampled; else they are the best ones
    scored : episodes that say how good a policy is
    rows_told : hears after each episode how many transitions there are, and the mean return
    score_told : hears the name of each checkpoint that is scored, and its score
    """

    steps: int = 100_000
    seed: int = 1_000_000
    sampled: bool = True
    scored: int = 20
    rows_told: Callable[[int, float], None] = _nobody
    score_told: Callable[[str, float], None] = _nobody


class UniformActor(Forgetful[gym.Space[Any]]):
    """Any action of a space, as the space samples it; `policy` is the space of batches."""

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Nothing has to be made ready."""
        yield

    def act(self, rows: NDArray[Any], generator: Any = None) -> Any:
        """One action for each row."""
        return self.policy.sample()


def of_random_actions(config: EnvConfig, how: Play, env: EnvSource | None = None) -> Dataset:
    """What any actions give in an environment."""
    rows, returns, said = _randomly(config, env, how.seed, how.steps, told=how.rows_told)
    about = {"env": config.id, "algo": "random", "quality": "random", "seed": how.seed}
    return _told(rows.columns(), {**about, "returns": returns}, said, None)


def of_run(run: Path, quality: str, how: Play, trust: bool = False) -> Dataset:
    """What the policy of a run gives, as good as is asked.

    `expert` is the best checkpoint, by the run's evaluations or, without any, by scores; `medium` the first
    one whose score is past a third of the way from random actions' to that, and `medium-replay` what its
    replay buffer has; `full-replay` what the last one's has. A score is the mean return of `how.scored`
    episodes with the best actions; a checkpoint whose returns are not finite is passed over with a warning.
    `NonFiniteError` where none is left, or random actions have no finite score.
    """
    from rlox.algorithms import ALGORITHMS

    def loaded(checkpoint: Path, replay: bool = False) -> Algorithm:
        name = _algorithm_of(checkpoint)
        kind = ALGORITHMS[name]
        return kind.from_checkpoint(checkpoint, replay=replay, trust=trust, device="cpu")

    try:
        last = resolve_checkpoint(run)
    except CheckpointError as error:
        raise ConfigError(f"policy={run}: {error}") from error
    with closing(loaded(last)) as algorithm:
        config = algorithm.config.env
        if quality.endswith("-replay"):
            require_replay(algorithm)
    if quality == "random":
        return of_random_actions(config, how)
    if quality == "full-replay":
        with closing(loaded(last, replay=True)) as algorithm:
            return _replayed(algorithm, quality, last, None)
    scored = _Scored(run, loaded, how, bool(algorithm.config.eval.every))
    scores = {"random": _random_score(config, how)}
    best, scores["expert"] = scored.best()
    chosen = best if quality == "expert" else _medium(scored, scores)
    with closing(loaded(chosen, replay=quality == "medium-replay")) as algorithm:
        if quality != "medium-replay":
            return _played(algorithm, how, quality, chosen, scores)
        return _replayed(algorithm, quality, chosen, scores)


class _Scored:
    """The checkpoints of a run, oldest first, and what each scores, which is found out once.

    `evaluated` says whether the run was evaluated on the way, and not at its end alone.
    """

    def __init__(self, run: Path, loaded: Any, how: Play, evaluated: bool) -> None:
        self.run, self._loaded, self._how = run, loaded, how
        self._evaluated = evaluated or (run / "checkpoints" / "best").exists()
        there = [folder for folder, _ in whole_checkpoints(run)][::-1]
        self.folders = there or [resolve_checkpoint(run)]
        self._known: dict[str, float | None] = {}

    def __call__(self, folder: Path) -> float | None:
        """The score of a checkpoint; `None`, with a warning, of one that plays to no finite score."""
        name = folder.resolve().name
        if name not in self._known:
            self._known[name] = score = self._score(folder, name)
            if score is not None:
                self._how.score_told(name, score)
        return self._known[name]

    def _score(self, folder: Path, name: str) -> float | None:
        try:
            with closing(self._loaded(folder)) as algorithm:
                return _score(algorithm, self._how)
        except NonFiniteError as error:
            log.warning("passing over %s: %s", name, error)
            return None

    def all(self) -> list[tuple[Path, float]]:
        """Those that have a score, oldest first."""
        scored = [(folder, self(folder)) for folder in self.folders]
        return [(folder, score) for folder, score in scored if score is not None]

    def best(self) -> tuple[Path, float]:
        """The best one by the run's evaluations or, where they name none with a score, by these scores."""
        found = best_checkpoint(self.run) if self._evaluated else None
        if found is not None and (score := self(found)) is not None:
            return found, score
        if there := self.all():
            return max(there, key=lambda one: one[1])  # of equal ones the first
        raise NonFiniteError(f"{self.run} has no checkpoint with a score: each was passed over")


def _algorithm_of(checkpoint: Path) -> str:
    from rlox.runs.checkpoint import read_checkpoint

    return str(read_checkpoint(checkpoint).config["algo"]["name"])


def _randomly(
    config: EnvConfig,
    source: EnvSource | None,
    seed: int,
    steps: int = 1,
    episodes: int = 1,
    told: Callable[[int, float], None] = _nobody,
) -> tuple[Rows, list[float], dict[str, Any]]:
    """So many steps and episodes at least; the rows, the returns, and what the environment is."""
    env = single_factory(config, source)()
    try:
        name = config.id
        spaces = ObservationCodec.of(env.observation_space, name), ActionCodec.of(env.action_space)
        actions = batch_space(env.action_space, 1)
        actions.seed(seed)
        actor = UniformActor(actions, *spaces, None, "cpu")
        rows, returns, total = Rows(), list[float](), 0.0
        while len(returns) < episodes or len(rows) < steps:
            returns.append(play(actor, env, seed + len(returns), None, rows))
            total += returns[-1]
            told(len(rows), total / len(returns))
        return rows, returns, _of_env(env)
    finally:
        close_or_warn(env, config.id)


def _random_score(config: EnvConfig, how: Play) -> float:
    _, returns, _ = _randomly(config, None, SCORING_SEED, episodes=how.scored)
    score = float(np.mean(returns[: how.scored]))
    if not np.isfinite(score):
        raise NonFiniteError(f"random actions in {config.id} have no score: {score} is not finite")
    return score


def _score(algorithm: Algorithm, how: Play) -> float:
    played = algorithm.evaluate(how.scored, SCORING_SEED)
    if played.flaw:
        raise NonFiniteError(f"a checkpoint of {algorithm.name} has no score: {played.flaw}")
    return played.mean


def _medium(scored: _Scored, scores: dict[str, float]) -> Path:
    """The first checkpoint past a third of the way; its score goes into `scores`."""
    run, low, high = scored.run, scores["random"], scores["expert"]
    if high <= low:
        raise ConfigError(
            f"{run}: its best checkpoint scores {high:.1f}, random actions {low:.1f}: nothing was learned "
            "that a medium could be between; train for longer"
        )
    asked = low + PART * (high - low)
    found, score = next(one for one in scored.all() if one[1] >= asked)
    if found.resolve().name == scored.best()[0].resolve().name:
        told = ", ".join(f"{score:.1f}" for _, score in scored.all())
        raise ConfigError(
            f"{run} has no checkpoint whose policy is medium: random actions score {low:.1f}, the best "
            f"checkpoint {high:.1f}, so that one before it from {asked:.1f} on is expected; those that "
            f"are there score {told}. Train with more of them: checkpoint.every=N checkpoint.keep=1000"
        )
    scores["medium"] = score
    return found


def _played(
    algorithm: Algorithm, how: Play, quality: str, checkpoint: Path, scores: dict[str, Any]
) -> Dataset:
    best = not how.sampled
    made = record(algorithm, None, how.seed, best, steps=how.steps, told=how.rows_told)
    about = {**made.about, **_about(algorithm, quality, checkpoint)}
    return _told(made.columns, about, _said(algorithm), scores)


def _replayed(
    algorithm: Algorithm, quality: str, checkpoint: Path, scores: dict[str, Any] | None
) -> Dataset:
    columns = replayed_columns(algorithm)
    about = {
        **_about(algorithm, quality, checkpoint),
        "returns": complete_returns(columns).tolist(),
    }
    return _told(columns, about, _said(algorithm), scores)


def _about(algorithm: Algorithm, quality: str, checkpoint: Path) -> dict[str, Any]:
    return {
        "env": algorithm.config.env.id,
        "algo": algorithm.config.algo.name,
        "trained": algorithm.clock.counters,
        "quality": quality,
        "checkpoint": checkpoint.resolve().name,
        "trained_seed": algorithm.config.seed,
    }


def _told(
    columns: Any, about: dict[str, Any], said: dict[str, Any], scores: dict[str, Any] | None
) -> Dataset:
    """With what can be read off the columns, and what the environment is."""
    more = dict(said)
    if scores is not None:
        more["scores"] = scores
    found = described(columns)
    more |= {name: found[name] for name in ("episodes", "terminations", "time_limits")}
    if about["returns"]:
        more["behaviour"] = asdict(Returns.of(about["returns"]))
    return dataset_of(columns, {**about, **more})


def _said(algorithm: Algorithm) -> dict[str, Any]:
    with env_of(algorithm) as env:
        return _of_env(env)


def _of_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """What Gymnasium registered, `None` of an environment that it did not make, and its spaces, as text."""
    found: dict[str, Any] = {"spec": None}
    with suppress(TypeError, ValueError):  # arguments that JSON does not know
        found["spec"] = env.spec and env.spec.to_json()
    with suppress(UnsupportedSpaceError):  # those that rlox puts around others
        found["observation_space"] = text_of(env.observation_space)
        found["action_space"] = text_of(env.action_space)
    return found
