"""Collection of datasets by policy quality: random, medium, medium-replay, expert (Fu et al. 2020)."""

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
from rlox.envs.make import EnvLike, wrapped_factory
from rlox.envs.parts_codec import codec_of
from rlox.envs.space_json import space_to_json
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, UnsupportedSpaceError
from rlox.offline.description import ReturnStatistics, describe_dataset
from rlox.offline.replay_columns import read_replay_columns, require_replay_sampler
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import best_checkpoint, intact_checkpoints, resolve_checkpoint
from rlox.runs.record import GrowingColumns, make_dataset, open_env, record, record_episode
from rlox.sources.dataset_file import Dataset
from rlox.sources.preparation import complete_returns
from rlox.training.actor import StatelessActor

__all__ = ["PlaySettings", "make_random_dataset", "make_run_dataset"]

log = logging.getLogger("rlox.offline")

MEDIUM_FRACTION = 1.0 / 3.0  # lowest score of medium, as a part of the way from random to expert
SCORING_SEED = 500_000  # episode i of a score starts from reset(seed=SCORING_SEED + i)


def _ignore(*args: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class PlaySettings:
    """Settings for collecting a dataset.

    Attributes
    ----------
    steps : minimum number of transitions; episodes are always complete
    seed : episode i starts from `reset(seed=seed + i)`
    is_sampled : whether actions are sampled; otherwise the policy is deterministic
    n_score_episodes : episodes for the score of a policy
    on_rows : called after each episode with the number of transitions and the mean return
    on_score : called with the name and the score of each scored checkpoint
    """

    steps: int = 100_000
    seed: int = 1_000_000
    is_sampled: bool = True
    n_score_episodes: int = 20
    on_rows: Callable[[int, float], None] = _ignore
    on_score: Callable[[str, float], None] = _ignore


class UniformActor(StatelessActor[gym.Space[Any]]):
    """An actor that samples actions from the space; `policy` is the batched action space."""

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """Do nothing: no module has to change its mode."""
        yield

    def act(self, rows: NDArray[Any], generator: Any = None) -> Any:
        """Sample one action for each row."""
        return self.policy.sample()


def make_random_dataset(config: EnvConfig, settings: PlaySettings, env: EnvLike | None = None) -> Dataset:
    """Collect a dataset with random actions in an environment."""
    rows, returns, env_metadata = _play_randomly(
        config, env, settings.seed, settings.steps, on_rows=settings.on_rows
    )
    metadata = {"env": config.id, "algo": "random", "quality": "random", "seed": settings.seed}
    return _make_dataset(rows.columns(), {**metadata, "returns": returns}, env_metadata, None)


def make_run_dataset(run_dir: Path, quality: str, settings: PlaySettings, trust: bool = False) -> Dataset:
    """Make a dataset from the checkpoints of a run, at the given `quality`.

    - `random` plays random actions in the run's environment.
    - `expert` plays the best checkpoint by the run's evaluations or, without any, by scores.
    - `medium` plays the first checkpoint whose score is at least a third of the way from random to expert.
    - `medium-replay` is the replay buffer of the checkpoint of `medium`.
    - `full-replay` is the replay buffer of the last checkpoint.

    A score is the mean return of `settings.n_score_episodes` deterministic episodes. A checkpoint with
    non-finite returns is skipped with a warning. Raises `NonFiniteError` if no checkpoint is left, or if
    random actions have no finite score.
    """
    from rlox.algorithms import ALGORITHMS

    def load_checkpoint(checkpoint: Path, with_replay: bool = False) -> Algorithm:
        name = _algorithm_of(checkpoint)
        algorithm_class = ALGORITHMS[name]
        return algorithm_class.from_checkpoint(checkpoint, replay=with_replay, trust=trust, device="cpu")

    try:
        last_checkpoint = resolve_checkpoint(run_dir)
    except CheckpointError as error:
        raise ConfigError(f"policy={run_dir}: {error}") from error
    with closing(load_checkpoint(last_checkpoint)) as algorithm:
        config = algorithm.config.env
        if quality.endswith("-replay"):
            require_replay_sampler(algorithm)
    if quality == "random":
        return make_random_dataset(config, settings)
    if quality == "full-replay":
        with closing(load_checkpoint(last_checkpoint, with_replay=True)) as algorithm:
            return _replay_dataset(algorithm, quality, last_checkpoint, None)
    checkpoint_scores = _CheckpointScores(
        run_dir, load_checkpoint, settings, bool(algorithm.config.eval.every)
    )
    scores = {"random": _random_score(config, settings)}
    best_checkpoint, scores["expert"] = checkpoint_scores.best_checkpoint()
    chosen_checkpoint = (
        best_checkpoint if quality == "expert" else _medium_checkpoint(checkpoint_scores, scores)
    )
    with closing(load_checkpoint(chosen_checkpoint, with_replay=quality == "medium-replay")) as algorithm:
        if quality != "medium-replay":
            return _record_dataset(algorithm, settings, quality, chosen_checkpoint, scores)
        return _replay_dataset(algorithm, quality, chosen_checkpoint, scores)


class _CheckpointScores:
    """The checkpoints of a run, oldest first, with their scores; each score is computed once.

    `has_evaluations` tells whether the run was evaluated during training, not only at its end.
    """

    def __init__(self, run_dir: Path, load: Any, settings: PlaySettings, has_evaluations: bool) -> None:
        self.run_dir, self._load, self._settings = run_dir, load, settings
        self._has_evaluations = has_evaluations or (run_dir / "checkpoints" / "best").exists()
        folders = [folder for folder, _ in intact_checkpoints(run_dir)][::-1]
        self.folders = folders or [resolve_checkpoint(run_dir)]
        self._scores: dict[str, float | None] = {}

    def __call__(self, folder: Path) -> float | None:
        """Return the score of a checkpoint; `None`, with a warning, if the score is not finite."""
        name = folder.resolve().name
        if name not in self._scores:
            self._scores[name] = score = self._score_checkpoint(folder, name)
            if score is not None:
                self._settings.on_score(name, score)
        return self._scores[name]

    def _score_checkpoint(self, folder: Path, name: str) -> float | None:
        try:
            with closing(self._load(folder)) as algorithm:
                return _score(algorithm, self._settings)
        except NonFiniteError as error:
            log.warning("skipping %s: %s", name, error)
            return None

    def score_all(self) -> list[tuple[Path, float]]:
        """Return the checkpoints that have a score, oldest first."""
        results = [(folder, self(folder)) for folder in self.folders]
        return [(folder, score) for folder, score in results if score is not None]

    def best_checkpoint(self) -> tuple[Path, float]:
        """Return the best checkpoint by the run's evaluations, or else by scores, and its score."""
        folder = best_checkpoint(self.run_dir) if self._has_evaluations else None
        if folder is not None and (score := self(folder)) is not None:
            return folder, score
        if candidates := self.score_all():
            return max(candidates, key=lambda candidate: candidate[1])  # the first of equal ones
        raise NonFiniteError(f"{self.run_dir} has no checkpoint with a finite score: all were skipped")


def _algorithm_of(checkpoint: Path) -> str:
    from rlox.runs.checkpoint import read_checkpoint

    return str(read_checkpoint(checkpoint).config["algo"]["name"])


def _play_randomly(
    config: EnvConfig,
    source: EnvLike | None,
    seed: int,
    steps: int = 1,
    episodes: int = 1,
    on_rows: Callable[[int, float], None] = _ignore,
) -> tuple[GrowingColumns, list[float], dict[str, Any]]:
    """Take random actions for at least `steps` and `episodes`; return rows, returns and env metadata."""
    env = wrapped_factory(config, source)()
    try:
        name = config.id
        spaces = codec_of(env.observation_space, name), ActionCodec.of(env.action_space)
        actions = batch_space(env.action_space, 1)
        actions.seed(seed)
        actor = UniformActor(actions, *spaces, None, "cpu")
        rows, returns, total = GrowingColumns(), list[float](), 0.0
        while len(returns) < episodes or len(rows) < steps:
            returns.append(record_episode(actor, env, seed + len(returns), None, rows))
            total += returns[-1]
            on_rows(len(rows), total / len(returns))
        return rows, returns, _env_metadata(env)
    finally:
        close_or_warn(env, config.id)


def _random_score(config: EnvConfig, settings: PlaySettings) -> float:
    _, returns, _ = _play_randomly(config, None, SCORING_SEED, episodes=settings.n_score_episodes)
    score = float(np.mean(returns[: settings.n_score_episodes]))
    if not np.isfinite(score):
        raise NonFiniteError(f"random actions in {config.id} have no score: {score} is not finite")
    return score


def _score(algorithm: Algorithm, settings: PlaySettings) -> float:
    evaluation = algorithm.evaluate(settings.n_score_episodes, SCORING_SEED)
    if evaluation.non_finite_message:
        raise NonFiniteError(
            f"a checkpoint of {algorithm.name} has no score: {evaluation.non_finite_message}"
        )
    return evaluation.mean


def _medium_checkpoint(checkpoint_scores: _CheckpointScores, scores: dict[str, float]) -> Path:
    """Return the first checkpoint of medium quality; store its score in `scores`."""
    run_dir, random_score, expert_score = checkpoint_scores.run_dir, scores["random"], scores["expert"]
    if expert_score <= random_score:
        raise ConfigError(
            f"{run_dir}: its best checkpoint scores {expert_score:.1f}, random actions {random_score:.1f}: "
            "nothing was learned, so there is no medium policy; train for longer"
        )
    threshold = random_score + MEDIUM_FRACTION * (expert_score - random_score)
    checkpoint, score = next(
        candidate for candidate in checkpoint_scores.score_all() if candidate[1] >= threshold
    )
    if checkpoint.resolve().name == checkpoint_scores.best_checkpoint()[0].resolve().name:
        score_text = ", ".join(f"{score:.1f}" for _, score in checkpoint_scores.score_all())
        raise ConfigError(
            f"{run_dir} has no checkpoint of medium quality: random actions score {random_score:.1f}, the "
            f"best checkpoint {expert_score:.1f}; expected an earlier one with at least {threshold:.1f}. The "
            f"checkpoints score {score_text}. Train with more checkpoints: checkpoint.every=N "
            "checkpoint.keep=1000"
        )
    scores["medium"] = score
    return checkpoint


def _record_dataset(
    algorithm: Algorithm, settings: PlaySettings, quality: str, checkpoint: Path, scores: dict[str, Any]
) -> Dataset:
    is_deterministic = not settings.is_sampled
    recording = record(
        algorithm, None, settings.seed, is_deterministic, steps=settings.steps, on_episode=settings.on_rows
    )
    metadata = {**recording.about, **_metadata(algorithm, quality, checkpoint)}
    return _make_dataset(recording.columns, metadata, _env_metadata_of_config(algorithm), scores)


def _replay_dataset(
    algorithm: Algorithm, quality: str, checkpoint: Path, scores: dict[str, Any] | None
) -> Dataset:
    columns = read_replay_columns(algorithm)
    metadata = {
        **_metadata(algorithm, quality, checkpoint),
        "returns": complete_returns(columns).tolist(),
    }
    return _make_dataset(columns, metadata, _env_metadata_of_config(algorithm), scores)


def _metadata(algorithm: Algorithm, quality: str, checkpoint: Path) -> dict[str, Any]:
    return {
        "env": algorithm.config.env.id,
        "algo": algorithm.config.algo.name,
        "trained": algorithm.clock.counters,
        "quality": quality,
        "checkpoint": checkpoint.resolve().name,
        "trained_seed": algorithm.config.seed,
    }


def _make_dataset(
    columns: Any, metadata: dict[str, Any], env_metadata: dict[str, Any], scores: dict[str, Any] | None
) -> Dataset:
    """Make a dataset, adding statistics of the columns and the environment's metadata."""
    extra = dict(env_metadata)
    if scores is not None:
        extra["scores"] = scores
    description = describe_dataset(columns)
    extra |= {name: description[name] for name in ("episodes", "terminations", "time_limits")}
    if metadata["returns"]:
        extra["behaviour"] = asdict(ReturnStatistics.from_returns(metadata["returns"]))
    return make_dataset(columns, {**metadata, **extra})


def _env_metadata_of_config(algorithm: Algorithm) -> dict[str, Any]:
    with open_env(algorithm) as env:
        return _env_metadata(env)


def _env_metadata(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return as text the Gymnasium spec (`None` unless `gym.make` made the environment) and the spaces."""
    metadata: dict[str, Any] = {"spec": None}
    with suppress(TypeError, ValueError):  # arguments that JSON cannot hold
        metadata["spec"] = env.spec and env.spec.to_json()
    with suppress(UnsupportedSpaceError):  # spaces that rlox wraps around others
        metadata["observation_space"] = space_to_json(env.observation_space)
        metadata["action_space"] = space_to_json(env.action_space)
    return metadata
