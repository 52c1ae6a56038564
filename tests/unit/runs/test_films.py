"""Tests films of training episodes: one of every n episodes, in the run folder, also of a resumed run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from helpers.sessions import algorithm, resume_session, rows, without_timings

from rlox.envs.base import LIFE_LOST
from rlox.envs.videos import VIDEO, EpisodeVideoRecorder, render_frame
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError
from rlox.runs.session import Session
from rlox_cli.config.validate import try_environment

pytest.importorskip("imageio_ffmpeg", reason="video is optional")


def filmed(**env: Any) -> Any:
    return algorithm(256, env={"n_envs": 2, "record_every": 3, **env}, checkpoint={"every": 128})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "videos").iterdir())


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_every_third_episode_of_the_first_environment_is_filmed(workers: str, tmp_path: Path) -> None:
    Session(filmed(workers=workers), tmp_path).run()
    ends = [e["env_steps"] for e in rows(tmp_path / "episodes.jsonl") if e["env"] == 0]
    assert len(ends) > 3
    assert names(tmp_path) == [f"train-{steps:012d}.mp4" for steps in ends[::3]]
    assert all(b"ftyp" in path.read_bytes()[:16] for path in (tmp_path / "videos").iterdir())


def test_a_resumed_run_films_and_learns_like_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    whole.mkdir()
    Session(filmed(), whole).run()
    shutil.copytree(whole, part, symlinks=True)
    shutil.rmtree(part / "checkpoints" / "step-000000000256")
    shutil.rmtree(part / "videos")
    resume_session(part, 256).run()
    assert names(part)
    assert names(part) == names(whole)[-len(names(part)) :]
    assert without_timings(rows(whole / "metrics.jsonl")) == without_timings(rows(part / "metrics.jsonl"))


def test_a_film_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    for folder, every in (("with", 1), ("without", 0)):
        (tmp_path / folder).mkdir()
        Session(filmed(record_every=every, backend="gymnasium"), tmp_path / folder).run()
    assert names(tmp_path / "with")
    assert not (tmp_path / "without" / "videos").exists()
    found = [without_timings(rows(tmp_path / f / "metrics.jsonl")) for f in ("with", "without")]
    assert found[0] == found[1]


class Lives(gym.Wrapper[Any, Any, Any, Any]):
    """A game of three lives. A life is lost every five steps, and the game ends with the third one."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1", render_mode="rgb_array"))
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> Any:
        self.steps += 1
        seen, paid, _, _, info = self.env.step(action)
        lost = self.steps % 5 == 0
        return seen, paid, lost, False, {**info, LIFE_LOST: lost and self.steps % 15 != 0}


def test_a_game_of_several_lives_is_one_film() -> None:
    env = EpisodeVideoRecorder(Lives(), 2)
    films, games = [], 0
    env.reset(seed=0)
    for _ in range(45):
        _, _, lost, _, info = env.step(0)
        games += lost and not info[LIFE_LOST]
        films += [games] if VIDEO in info else []
        if lost:
            env.reset()
    env.close()
    assert (games, films) == (3, [1, 3])


class Blind(gym.Wrapper[Any, Any, Any, Any]):
    """Raises an error when it renders."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gym.make("CartPole-v1", render_mode=render_mode))

    def render(self) -> Any:
        raise RuntimeError("no GPU to draw with")


gym.register("Blind-v0", Blind)


def test_an_environment_that_cannot_render_raises_an_error_with_its_name() -> None:
    with pytest.raises(EnvError, match=r"CartPole.* raised RuntimeError: no GPU to draw with .*render"):
        render_frame(Blind("rgb_array"))


def test_an_unrenderable_environment_fails_before_a_run() -> None:
    with pytest.raises(EnvError, match="no GPU to draw with"):
        try_environment(filmed(id="Blind-v0").config)


class Drawn(gym.Wrapper[Any, Any, Any, Any]):
    """CartPole that returns `drawn` from `render`, or raises it."""

    def __init__(self, drawn: Any) -> None:
        super().__init__(gym.make("CartPole-v1", render_mode="rgb_array"))
        self.drawn = drawn

    def render(self) -> Any:
        if isinstance(self.drawn, Exception):
            raise self.drawn
        return self.drawn


@pytest.mark.parametrize(
    ("drawn", "error", "told"),
    [
        (
            gym.error.DependencyNotInstalled("pygame is not installed"),
            MissingExtraError,
            "CartPole-v1 renders with a package that is not installed: pip install 'imageio",
        ),
        (
            ValueError("no light"),
            EnvError,
            r"CartPole-v1 raised ValueError: no light .*in render\(\)",
        ),
        ([], ConfigError, r"CartPole-v1 gave list in render\(\), expected a frame"),
        (None, ConfigError, r"CartPole-v1 gave NoneType in render\(\), expected a frame"),
    ],
)
def test_an_environment_that_draws_no_frame_is_named_with_what_it_drew(
    drawn: Any, error: type[RloxError], told: str
) -> None:
    with pytest.raises(error, match=told):
        render_frame(Drawn(drawn))
