"""Tests Atari games: each step of the preprocessing, lives, scores, and three engines frame by frame."""

from __future__ import annotations

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlox.algorithms import DQN
from rlox.configs import EnvConfig, make
from rlox.configs.env import AtariConfig
from rlox.envs.base import LIFE_LOST, TRUE_RETURN
from rlox.envs.engines.atari import AtariGame, ale_arguments, resize_area
from rlox.envs.make import wrapped_factory
from rlox.envs.wrappers import make_wrapper
from rlox.errors import ConfigError
from rlox.sources.episodes import EpisodeTracker
from rlox.types import Episode

FRAMES = gym.spaces.Box(0, 255, (210, 160), np.uint8)


def extra(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"extra not installed: {module}")


class Game(gym.Env[Any, Any]):
    """A game whose frame t has brightness t and that rewards 2 in every frame.

    The left half of a frame is darker by 2 if t is odd. Each of `deaths` costs a life, and the last one
    ends the game.
    """

    def __init__(self, deaths: tuple[int, ...] = (), fire: bool = True) -> None:
        self.observation_space, self.action_space = FRAMES, gym.spaces.Discrete(4)
        self.deaths, self.fire = deaths, fire
        self.given: list[int] = []
        self.games = 0

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE" if self.fire else "UP", "RIGHT", "LEFT"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.games = 0, self.games + 1
        self.given = []
        return self._frame(), {"lives": len(self.deaths)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.given.append(int(action))
        lives = sum(death > self.t for death in self.deaths)
        over = bool(self.deaths) and not lives
        return self._frame(), 2.0, over, False, {"lives": lives}

    def _frame(self) -> Any:
        frame = np.full((210, 160), self.t, np.uint8)
        frame[:, :80] = max(self.t - 2 * (self.t % 2), 0)
        return frame


def played(game: Game, training: bool = False, **settings: Any) -> AtariGame:
    return AtariGame(game, AtariConfig(**settings), training)


def covers(length: int, size: int) -> Any:
    """Returns which share of pixel j area i of `size` covers, in units of `1 / size`."""
    return np.array(
        [
            [max(0, min((i + 1) * length, (j + 1) * size) - max(i * length, j * size)) for j in range(length)]
            for i in range(size)
        ]
    )


def test_resize_area_computes_exact_area_means_rounded_half_to_even() -> None:
    rng = np.random.default_rng(0)
    for height, width, size in ((210, 160, 84), (250, 160, 84), (210, 160, 160), (12, 9, 8)):
        frame = rng.integers(256, size=(height, width)).astype(np.uint8)
        sums = covers(height, size) @ frame.astype(np.int64) @ covers(width, size).T
        assert np.array_equal(resize_area(frame, size), np.rint(sums / (height * width)))
    white = np.full((250, 160), 255, np.uint8)
    assert (resize_area(white, 160) == 255).all()


def test_atari_repeats_an_action_and_observes_the_maximum_of_the_last_two_frames() -> None:
    game = Game(fire=False)
    env = played(game, noop_max=0)
    first, _ = env.reset(seed=0)
    assert first.shape == (4, 84, 84)
    assert (first == 0).all()
    seen, reward, *ends, _ = env.step(3)
    assert game.given == [3, 3, 3, 3]
    assert (reward, ends) == (8.0, [False, False])
    assert (seen[3] == 4).all()
    assert (seen[:3] == 0).all()
    second = env.step(2)[0]
    assert [int(frame[0, 0]) for frame in second] == [0, 0, 4, 8]
    odd = played(Game(fire=False), noop_max=0, frame_skip=5)
    odd.reset(seed=0)
    bright = odd.step(0)[0][3]
    assert (int(bright[0, 0]), int(bright[0, 83])) == (
        4,
        5,
    )  # frames 4 and 5; the left half of 5 is darker
    plain = played(Game(fire=False), noop_max=0, frame_skip=5, max_pool=False, stack=1)
    plain.reset(seed=0)
    assert int(plain.step(0)[0][0, 0, 0]) == 3


def test_the_first_step_includes_the_rewards_of_random_noops_and_fire() -> None:
    counts = set()
    for seed in range(40):
        game = Game()
        env = played(game, noop_max=5)
        env.reset(seed=seed)
        assert game.given == [0] * (len(game.given) - 1) + [1]
        counts.add(len(game.given))
        assert env.step(2)[1] == 2.0 * (len(game.given) - 4) + 8.0
        assert env.step(2)[1] == 8.0
    assert counts == {1, 2, 3, 4, 5}
    for settings, given in (({"fire_reset": False, "noop_max": 0}, []), ({"noop_max": 0}, [1])):
        game = Game()
        played(game, **settings).reset(seed=0)
        assert game.given == given


def test_a_lost_life_ends_an_episode_of_training_and_not_the_game() -> None:
    game = Game(deaths=(6, 11))
    env = played(game, training=True, noop_max=0)
    env.reset(seed=0)  # frame 1: FIRE
    assert env.step(0)[2] is False  # frames 2 to 5
    seen, _, terminated, truncated, info = env.step(0)  # frames 6 to 9
    assert (terminated, truncated, info[LIFE_LOST], info["lives"]) == (True, False, True, 1)
    after, _ = env.reset()
    assert (game.games, game.given[-1]) == (1, 1)  # the same game, and FIRE
    assert np.array_equal(after[:3], seen[1:])
    _, reward, terminated, _, info = env.step(0)  # frame 11, and the reward of FIRE
    assert (reward, terminated, info["lives"], LIFE_LOST in info) == (4.0, True, 0, False)
    env.reset()
    assert game.games == 2
    evaluated = played(Game(deaths=(6, 11)), noop_max=0)
    evaluated.reset(seed=0)
    assert [evaluated.step(0)[2] for _ in range(3)] == [False, False, True]


def test_a_game_that_ends_while_fire_follows_a_lost_life_keeps_its_rewards() -> None:
    game = Game(deaths=(6, 10))
    env = played(game, training=True, noop_max=0)
    env.reset(seed=0)  # frame 1: FIRE
    env.step(0)  # frames 2 to 5
    _, reward, terminated, truncated, info = env.step(0)  # frames 6 to 9, and FIRE in frame 10
    assert (reward, terminated, truncated) == (10.0, True, False)
    assert (info["lives"], LIFE_LOST in info) == (0, False)
    env.reset()
    assert (game.games, game.given) == (2, [1])
    assert env.step(0)[1] == 10.0  # for frames 1 to 5 of the new game


def test_atari_drops_the_rewards_of_a_game_that_ends_during_the_reset() -> None:
    for seed in range(20):
        env = played(Game(deaths=(3,)), noop_max=5)
        env.reset(seed=seed)
        assert env.step(0)[1:3] == (6.0, True)  # 3 frames of reward 2, however many no-ops came before


def test_a_reset_with_a_seed_begins_a_new_game_even_after_a_lost_life() -> None:
    game = Game(deaths=(2, 100))
    env = played(game, training=True, noop_max=0)
    env.reset(seed=0)
    assert env.step(0)[2]
    env.reset(seed=1)
    assert game.games == 2


def episodes(env: Any, steps: int) -> tuple[list[Episode], set[float]]:
    """Plays `steps` steps; returns the finished episodes and the rewards that learning receives."""
    tracker, told, rewards = EpisodeTracker(1), [], set()
    env.reset(seed=0)
    for _ in range(steps):
        _, reward, terminated, _, info = env.step(0)
        rewards.add(reward)
        tracker.add(np.array([reward]))
        if terminated:
            told += tracker.finish(np.array([0]), 0, [info])
            env.reset()
    return told, rewards


def test_the_reported_score_sums_unclipped_rewards_of_whole_games() -> None:
    config = EnvConfig("ALE/Fake-v5", atari=AtariConfig(noop_max=0))
    told, rewards = episodes(make_wrapper(config, training=True)(Game(deaths=(6, 11))), 12)
    assert rewards == {1.0}
    # 11 frames of reward 2, in 3 actions
    assert {(e.total_reward, e.length) for e in told} == {(22.0, 3)}
    assert TRUE_RETURN in (told[0].info or {})
    # here the second life ends in its first frame
    told, _ = episodes(make_wrapper(config, training=True)(Game(deaths=(6, 10))), 12)
    assert [(e.total_reward, e.length) for e in told] == [(20.0, 2)] * 6
    unclipped = EnvConfig("ALE/Fake-v5", atari=AtariConfig(noop_max=0, clip_rewards=False))
    raw = make_wrapper(unclipped, training=True)(Game(fire=False))
    raw.reset(seed=0)
    assert raw.step(0)[1] == 8.0


def test_atari_preprocessing_refuses_a_frameskip_in_env_kwargs() -> None:
    with pytest.raises(ConfigError, match=r"frameskip.*set env.atari.frame_skip"):
        ale_arguments(EnvConfig("ALE/Pong-v5", kwargs={"frameskip": 2}))
    plain = EnvConfig("ALE/Pong-v5", kwargs={"frameskip": 2}, atari=AtariConfig(preprocess=False))
    assert ale_arguments(plain) == {}
    sticky = EnvConfig("ALE/Pong-v5", repeat_action_probability=0.0)
    assert ale_arguments(sticky)["repeat_action_probability"] == 0.0


def pong(backend: str, **keys: Any) -> EnvConfig:
    keys = {"repeat_action_probability": 0.0, "atari": {"noop_max": 1}, **keys}
    return make(EnvConfig, {"id": "ALE/Pong-v5", "backend": backend, **keys})


@extra("ale_py")
@extra("envpool")
def test_three_engines_show_the_same_frames_of_a_game_of_pong() -> None:
    envs = [wrapped_factory(pong(b))() for b in ("gymnasium", "envpool", "ale")]
    ours, pool, ale = (env.reset(seed=1)[0] for env in envs)
    rng, score = np.random.default_rng(0), 0.0
    for step in range(2000):
        assert np.array_equal(ours, pool), step
        # the stack of ALE's engine begins with black frames, the others fill it with the first frame
        known = min(step + 1, 4)
        assert np.array_equal(ours[-known:], ale[-known:]), step
        assert not ale[: 4 - known].any()
        action = int(rng.integers(6))
        (ours, *one), (pool, *two), (ale, *three) = (env.step(action) for env in envs)
        assert one[:3] == two[:3] == three[:3], step
        score += one[0]
        if one[1]:
            break
    assert one[1]
    assert score < -15
    for env in envs:
        env.close()


@extra("ale_py")
@pytest.mark.parametrize("backend", ["gymnasium", "ale"])
def test_max_episode_steps_of_an_atari_game_counts_frames(backend: str) -> None:
    env = wrapped_factory(pong(backend, max_episode_steps=40))()
    env.reset(seed=0)
    steps = 1
    while not env.step(0)[3]:
        steps += 1
    assert steps == 10  # one frame comes before the first step
    env.close()


@extra("ale_py")
def test_atari_preprocess_false_gives_the_registered_environment() -> None:
    env = wrapped_factory(pong("gymnasium", atari={"preprocess": False}))()
    assert env.observation_space.shape == (210, 160, 3)
    env.close()


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("gymnasium", marks=extra("ale_py")),
        pytest.param("ale", marks=extra("ale_py")),
        pytest.param("envpool", marks=extra("envpool")),
    ],
)
def test_a_replay_buffer_returns_atari_transitions_unchanged_and_stores_frames_once(
    backend: str,
) -> None:
    dqn = DQN(
        "ALE/Breakout-v5", n_envs=2, env_backend=backend, learning_starts=1000, batch_size=64,
        buffer_size=2000, encoder="nature", encoder_features=8, net_arch=[],
    )  # fmt: skip
    memory, pushed = dqn.source.replay_sampler, set()
    push = memory.push

    def seen(stretch: Any) -> None:
        columns = stretch.columns
        for obs, after, over in zip(columns["obs"], columns["next_obs"], columns["terminated"], strict=True):
            pushed.add((obs.tobytes(), after.tobytes(), bool(over)))
        push(stretch)

    memory.push = seen
    dqn.train(total_timesteps=400)  # long enough to lose lives
    assert any(over for *_, over in pushed)
    batch = memory.sample(4, 0.0, 400)
    obs, after = (rows.flatten(0, 1).numpy() for rows in (batch.obs, batch.next_obs))
    for k, discount in enumerate(batch.discounts.flatten().tolist()):
        assert (obs[k].tobytes(), after[k].tobytes(), discount == 0.0) in pushed
    assert memory.full_bytes / 2000 < 8000  # a stack has 28,224 bytes
    dqn.close()
