"""Tests that a failed environment loses its episode: nothing learns from the lost step or joins it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.bit_flipping import BitFlipping
from helpers.envs import ScriptedVecEnv
from helpers.lost_steps import lose_steps
from helpers.policies import KnownCritic
from numpy.typing import NDArray

from rlox.algorithms import DQN
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig, UniformConfig
from rlox.envs.normalize import RewardNormalizer
from rlox.policies.heads import CategoricalHead
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.sources.episodes import EpisodeTracker, RecentEpisodes
from rlox.sources.recurrent import RecurrentCollector
from rlox.sources.replay import ReplaySource, UpdateSchedule
from rlox.sources.replay_sampler import ReplaySampler, make_buffer
from rlox.types import Clock, Progress, Update

N, GAMMA = 2, 0.9
Script = tuple[NDArray[Any], ...]


def counted(n_steps: int, ends: dict[int, list[int]], lost: dict[int, list[int]]) -> Script:
    """Makes a script with observations [episode, step] and reward 1; the two kinds of ends alternate."""
    obs = np.zeros((n_steps + 1, N, 2), np.float32)
    finals = np.zeros((n_steps, N, 2), np.float32)
    flags = np.zeros((3, n_steps, N), np.bool_)
    for n in range(N):
        for t in range(n_steps):
            episode, step = obs[t, n]
            finals[t, n] = [episode, step + 1]
            over, gone = t in ends.get(n, []), t in lost.get(n, [])
            flags[0 if episode % 2 else 1, t, n] = over and not gone
            flags[2, t, n] = gone
            obs[t + 1, n] = [episode + 1, 0] if over or gone else [episode, step + 1]
    return obs, finals, np.ones((n_steps, N)), *flags


def vec_of(script: Script) -> Any:
    return ScriptedVecEnv(*script[:5], lost=script[5])


def cut_before(script: Script) -> Script:
    """Returns the script with lost steps as ordinary rows, and the steps before them as last of episodes."""
    obs, finals, rewards, terminated, truncated, lost = (column.copy() for column in script)
    for t, n in np.argwhere(lost):
        truncated[t, n], rewards[t, n], finals[t, n] = True, 0.0, obs[t, n]
        if t and not (terminated | truncated)[t - 1, n]:
            truncated[t - 1, n], finals[t - 1, n] = True, obs[t, n]
    return obs, finals, rewards, terminated, truncated, np.zeros_like(lost)


SCRIPTS = {
    "in mid-episode": counted(8, {0: [5]}, {1: [3]}),
    "in the first step of a rollout": counted(8, {}, {0: [0], 1: [4]}),
    "in the first step of an episode": counted(8, {0: [2], 1: [1]}, {0: [3], 1: [2]}),
    "twice in a row": counted(8, {1: [6]}, {0: [3, 4], 1: [5]}),
    "both at once, and in the last step": counted(8, {}, {0: [2, 7], 1: [2, 7]}),
}
lost_scripts = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)


def value(obs: torch.Tensor) -> torch.Tensor:
    return 10 * obs[:, 0] + obs[:, 1]


@lost_scripts
def test_a_rollout_is_cut_off_where_an_episode_was_last_observed(script: Script) -> None:
    n_steps = len(script[2])
    got, expected = (
        RolloutCollector(env=vec_of(each), gamma=GAMMA).collect(KnownCritic(value), n_steps)
        for each in (script, cut_before(script))
    )
    assert got.valid is not None
    assert expected.valid is None
    assert np.array_equal(got.valid.numpy().reshape(n_steps, N), ~script[5])
    for name in ("obs", "rewards", "terminated", "truncated", "next_values", "advantages"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    assert got.final_obs is not None
    assert expected.final_obs is not None
    assert all(torch.equal(a, b) for a, b in zip(got.final_obs, expected.final_obs, strict=True))


def test_advantages_before_a_lost_step_equal_values_computed_by_hand() -> None:
    script = counted(4, {}, {0: [2]})
    rollout = RolloutCollector(env=vec_of(script), gamma=GAMMA).collect(KnownCritic(value), 4)
    before = rollout.advantages.view(4, N)[:2, 0].tolist()
    last = 1 + GAMMA * 2 - 1  # reward + GAMMA * V(last observation) - V(observation)
    assert before == pytest.approx([1 + GAMMA * 1 - 0 + GAMMA * 0.95 * last, last])


@lost_scripts
def test_no_minibatch_has_a_step_that_was_lost(script: Script) -> None:
    n_steps = len(script[2])
    rollout = RolloutCollector(env=vec_of(script)).collect(KnownCritic(value), n_steps)
    kept = np.count_nonzero(~script[5])
    drawn = [batch.obs for batch in rollout.sample_minibatches(3)]
    assert sum(map(len, drawn)) == len(rollout.rows().obs) == kept
    numbered = rollout.obs.view(n_steps, N, 2)
    for t, n in np.argwhere(script[5]):
        same = (torch.cat(drawn) == numbered[t, n]).all(-1).sum()
        assert same == (script[0][:-1][~script[5]] == numbered[t, n].numpy()).all(-1).sum()


@lost_scripts
def test_lost_episodes_are_counted_and_not_reported_as_finished(script: Script) -> None:
    n_steps = len(script[2])
    collector = RolloutCollector(env=vec_of(script))
    collector.collect(KnownCritic(value), n_steps)
    progress = collector.progress
    finished = np.argwhere((script[3] | script[4]) & ~script[5])
    lengths = [int(script[1][t, n, 1]) for t, n in finished]
    assert (progress.lost_episodes, progress.restarts) == (script[5].sum(),) * 2
    assert [(e.env, e.length, e.total_reward) for e in progress.episodes] == [
        (n, length, float(length)) for (_, n), length in zip(finished, lengths, strict=True)
    ]


@lost_scripts
def test_a_memory_begins_anew_after_a_lost_step(script: Script) -> None:
    n_steps, torch_seed = len(script[2]), 4
    rollouts = []
    for each in (script, cut_before(script)):
        torch.manual_seed(torch_seed)
        policy = RecurrentActorCritic(2, CategoricalHead(2), "lstm", 3, critic="own")
        collector = RecurrentCollector(env=vec_of(each), gamma=GAMMA)
        rollouts.append((collector.collect(policy, n_steps), collector.state()["memory"]))
    (got, memory), (expected, other) = rollouts
    valid = got.valid
    assert valid is not None
    assert torch.equal(got.extras["is_first"], expected.extras["is_first"])
    assert np.array_equal(memory, other)
    for name in ("values", "next_values", "advantages"):
        same = torch.allclose(getattr(got, name)[valid], getattr(expected, name)[valid])
        assert same, name


def source_of(script: Script, train_freq: int, n_step: int) -> ReplaySource:
    class Still:
        def random_actions(self, step: int, obs: Any) -> Any:
            return 0

        def act(self, obs: Any, step: int, elapsed: float) -> Any:
            return 0

    env, kind = vec_of(script), UniformConfig(capacity=64)
    buffer, full = make_buffer(kind, env, 3)
    memory = ReplaySampler(buffer, kind, 512, n_step, GAMMA, full)
    return ReplaySource(env, memory, Still(), UpdateSchedule(0, train_freq, lambda since, until: 1))


@pytest.mark.parametrize("train_freq", [N, 5 * N])
@pytest.mark.parametrize("n_step", [1, 3])
@lost_scripts
def test_no_window_of_a_buffer_reaches_over_a_lost_step(script: Script, n_step: int, train_freq: int) -> None:
    n_steps = len(script[2])
    source, clock = source_of(script, train_freq, n_step), Clock(horizon=n_steps * N)
    lost = restarts = 0
    while clock.units_left:
        _, progress = source.next(clock)
        lost += progress.lost_episodes
        restarts += progress.restarts
        clock = clock.tick(progress, Update())
    assert lost == restarts == script[5].sum()
    drawn = source.replay_sampler.sample(1, 0.0, 0)
    obs, after = drawn.obs[0].numpy(), drawn.next_obs[0].numpy()
    assert (obs[:, 0] == after[:, 0]).all()  # of the same episode
    length = after[:, 1] - obs[:, 1]
    assert ((length >= 1) & (length <= n_step)).all()
    assert drawn.rewards[0].numpy() == pytest.approx(sum(GAMMA**k * (length > k) for k in range(n_step)))
    stored = {tuple(row) for row in obs}
    assert stored == {tuple(row) for row in script[0][:-1][~script[5]]}
    assert len(source.replay_sampler.buffer) == np.count_nonzero(~script[5])


@pytest.mark.parametrize("more", [{}, {"prioritized": True}, {"n_step": 3}, {"hindsight": "future"}], ids=str)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_updates_begin_only_after_the_first_step_that_is_not_lost(backend: str, more: dict[str, Any]) -> None:
    run = DQN(
        BitFlipping, learning_starts=0, train_freq=1, batch_size=4, net_arch=[8], backend=backend, **more
    )  # fmt: skip
    with lose_steps((1, 2, 3, 6)):
        run.train(3)
        assert (run.clock.env_steps, run.clock.updates) == (3, 0)
        run.train(8)
    assert len(run.source.replay_sampler.buffer) == 4
    assert run.clock.updates == 5


def test_a_lost_step_does_not_change_the_moments_of_rewards() -> None:
    rewards, ended = np.array([3.0, 0.0]), np.array([False, True])
    normalizer, alone = RewardNormalizer(2, GAMMA), RewardNormalizer(1, GAMMA)
    normalizer.returns[1] = 100.0
    normalizer.scale(rewards, ended, np.array([1]))
    alone.scale(rewards[:1], ended[:1])
    assert normalizer.moments.state() == alone.moments.state()
    assert normalizer.returns.tolist() == [3.0, 0.0]


def test_the_moments_of_a_rollouts_rewards_leave_out_lost_steps() -> None:
    script = SCRIPTS["both at once, and in the last step"]
    collector = RolloutCollector(env=vec_of(script), config=EnvConfig(normalize_reward=True))
    collector.collect(KnownCritic(value), len(script[2]))
    assert collector.reward_normalizer is not None
    assert collector.reward_normalizer.moments.count == 6 * N


def test_lost_episodes_are_reported_once_also_after_a_restore() -> None:
    tracker, again = EpisodeTracker(3), EpisodeTracker(3)
    tracker.drop_episodes(np.array([0, 2]), 1)
    again.restore(tracker.state())
    for each in (tracker, again):
        assert each.progress(6, ()) == Progress(6, (), 2, 1)
        assert each.progress(6, ()) == Progress(6)
    assert set(tracker.state()) == {"returns", "lengths"}


def test_failure_totals_count_the_whole_run_also_after_a_restore() -> None:
    recent, again = RecentEpisodes(), RecentEpisodes()
    assert recent.failure_metrics == {}
    recent.add(Progress(1, (), 2, 1))
    again.restore(recent.state())
    again.add(Progress(1, (), 1, 1))
    assert again.failure_metrics == {"env/restarts": 2, "env/lost_episodes": 3}
