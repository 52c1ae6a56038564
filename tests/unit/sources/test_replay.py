"""Tests what a replay source stores, draws and counts, with a script whose numbers are all known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import ScriptedVecEnv, random_script
from helpers.transitions import Model
from numpy.typing import NDArray

from rlox.configs import PrioritizedConfig, ReplayConfig, UniformConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.envs.normalize import ObservationNormalizer, RewardNormalizer
from rlox.errors import NonFiniteError
from rlox.sources.replay import MAX_TICK_STEPS, ReplaySource, UpdateSchedule
from rlox.sources.replay_sampler import ReplaySampler, make_buffer
from rlox.sources.store import InMemoryStore, NullStore
from rlox.types import Clock, Transitions, Update

GAMMA = 0.9


class Numbered:
    """Takes action 1 if it explores at random, else 0. Records its observations."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.steps: list[int] = []

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> Any:
        self.steps.append(step)
        return 1

    def act(self, obs: Any, step: int, elapsed: float) -> Any:
        self.seen.append((obs.copy(), elapsed))
        self.steps.append(step)
        return 0


def settings_of(**settings: Any) -> OffPolicyConfig:
    return OffPolicyConfig(name="any", **settings)


def source(
    script: Any,
    config: OffPolicyConfig | None = None,
    buffer: ReplayConfig | None = None,
    batch_size: int = 16,
    **more: Any,
) -> ReplaySource:
    """Makes a source from a script; by default with one batch for each step, without a warm-up."""
    algo = config or settings_of(learning_starts=0, train_freq=1)
    env, kind = ScriptedVecEnv(*script), buffer or UniformConfig()
    made, full = make_buffer(replace(kind, capacity=kind.capacity or 4096), env, 3)
    memory = ReplaySampler(made, kind, batch_size, algo.n_step, GAMMA, full)
    cadence = UpdateSchedule(algo.learning_starts, algo.train_freq, algo.gradient_steps_between)
    return ReplaySource(env, memory, Numbered(), cadence, **more)


def run(source: ReplaySource, total: int) -> list[tuple[int, int]]:
    """Ticks until `total`; returns the environment steps and the batches of each tick."""
    clock, ticks = Clock(horizon=total), []
    while clock.units_left:
        batch, progress = source.next(clock)
        count = 0 if batch is None else len(batch)
        clock = clock.tick(progress, Update(count=count))
        ticks.append((progress.env_steps, count))
    return ticks


def model_of(script: Any, n_steps: int) -> Model:
    """Returns the expected contents of a buffer of all rows after `n_steps`."""
    obs, finals, rewards, terminated, truncated = script
    model = Model(10**6, obs.shape[1])
    for t in range(n_steps):
        for n in range(obs.shape[1]):
            ended = terminated[t, n] or truncated[t, n]
            after = finals[t, n] if ended else obs[t + 1, n]
            model.streams[n].append(
                {"obs": obs[t, n], "next_obs": after, "actions": 0, "rewards": rewards[t, n],
                 "terminated": terminated[t, n], "truncated": truncated[t, n]}
            )  # fmt: skip
    return model


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_replay_source_stores_true_transitions_and_final_observations(
    n_envs: int,
) -> None:
    script = random_script(np.random.default_rng(0), 60, n_envs)
    made = source(script)
    run(made, 60 * n_envs)
    held = model_of(script, 60).transitions()
    rows = made.replay_sampler.buffer.gather(np.array(list(held), np.uint64))
    for i, expected in enumerate(held.values()):
        for key, value in expected.items():
            np.testing.assert_array_equal(rows[key][i], np.float32(value), err_msg=key)
    assert sum(e["terminated"] or e["truncated"] for e in held.values()) > 5


@pytest.mark.parametrize("n_step", [1, 3])
def test_targets_of_windows_follow_the_definition_also_at_every_kind_of_end(n_step: int) -> None:
    script = random_script(np.random.default_rng(1), 80, 3)
    made = source(script, settings_of(learning_starts=0, train_freq=240, n_step=n_step), batch_size=999)
    clock = Clock(horizon=240)
    batch, _ = made.next(clock)
    assert batch is not None
    model, ends = model_of(script, 80), set()
    for i, index in enumerate(batch.indices[0].tolist()):
        total, discount, last = model.window(index, n_step, GAMMA)
        assert batch.rewards[0, i] == pytest.approx(total, abs=1e-5)
        assert batch.discounts[0, i] == pytest.approx(discount, abs=1e-6)
        np.testing.assert_array_equal(batch.next_obs[0, i], last["next_obs"])
        ends.add((bool(last["terminated"]), bool(last["truncated"])))
    assert len(ends) == 4


@pytest.mark.parametrize("n_envs", [1, 3, 8])
@pytest.mark.parametrize(
    ("settings", "batches"),
    [
        ({"train_freq": 4}, 960 // 4 - 100 // 4),
        ({"train_freq": 6, "gradient_steps": 3}, 3 * (960 // 6 - 100 // 6)),
        ({"train_freq": 16, "gradient_steps": -1}, 16 * (960 // 16 - 100 // 16)),
        ({"train_freq": 4, "replay_ratio": 0.375}, int(960 * 0.375) - int(100 * 0.375)),
    ],
)
def test_the_number_of_batches_follows_the_settings_for_any_number_of_environments(
    settings: dict[str, Any], batches: int, n_envs: int
) -> None:
    script = random_script(np.random.default_rng(2), 960 // n_envs, n_envs)
    made = source(script, settings_of(learning_starts=100, **settings))
    ticks = run(made, 960)
    assert sum(count for _, count in ticks) == batches
    assert sum(steps for steps, _ in ticks) == 960 == made.env_steps


def test_actions_are_random_until_learning_starts_and_the_policys_from_then_on() -> None:
    script = random_script(np.random.default_rng(3), 40, 2)
    made = source(script, settings_of(learning_starts=30, train_freq=1))
    run(made, 80)
    actions = made.replay_sampler.buffer.gather(np.arange(80, dtype=np.uint64))["actions"]
    assert actions.tolist() == [1] * 30 + [0] * 50
    assert made.exploration.steps == list(range(40))  # type: ignore[attr-defined]


def test_exploration_gets_the_observations_and_the_elapsed_fraction_of_the_run() -> None:
    script = random_script(np.random.default_rng(4), 10, 2)
    made = source(script)
    run(made, 20)
    for t, (obs, elapsed) in enumerate(made.exploration.seen):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(obs, script[0][t])
        assert elapsed == pytest.approx(2 * t / 20)


def test_a_long_warm_up_returns_often_and_without_batches() -> None:
    script = random_script(np.random.default_rng(5), 10_000, 1)
    made = source(script, settings_of(learning_starts=9_000, train_freq=1_000))
    ticks = run(made, 10_000)
    assert max(steps for steps, _ in ticks) <= MAX_TICK_STEPS
    assert len([count for _, count in ticks if not count]) > 30
    assert sum(count for _, count in ticks) == 1


def test_the_steps_of_a_long_training_are_counted_with_its_last_tick() -> None:
    script = random_script(np.random.default_rng(6), 100, 1)
    made = source(script, settings_of(learning_starts=0, train_freq=100, gradient_steps=150))
    assert run(made, 100) == [(0, 64), (0, 64), (100, 22)]


def test_batches_that_depend_on_one_another_are_drawn_one_at_a_time() -> None:
    script = random_script(np.random.default_rng(7), 10, 1)
    algo = settings_of(learning_starts=0, train_freq=10, gradient_steps=3)
    made = source(script, algo, PrioritizedConfig())
    assert run(made, 10) == [(0, 1), (0, 1), (10, 1)]


def test_priorities_that_were_learned_decide_what_is_drawn_next() -> None:
    script = random_script(np.random.default_rng(8), 50, 1)
    algo = settings_of(learning_starts=0, train_freq=50, gradient_steps=2)
    made = source(script, algo, PrioritizedConfig(alpha=1.0), batch_size=400)
    batch, _ = made.next(Clock(horizon=100))
    assert batch is not None
    errors = np.where(batch.indices.ravel() == 7, 3.0, 0.0)
    made.feedback(Update(columns={"priorities": errors}, indices=batch.indices.ravel()))
    batch, _ = made.next(Clock(horizon=100))
    assert batch is not None
    drawn = {int(k): int((batch.indices == k).sum()) for k in np.unique(batch.indices)}
    assert drawn[7] > 350


def test_weights_and_draws_follow_the_errors_with_priority_eps_added() -> None:
    script = random_script(np.random.default_rng(14), 20, 1)
    algo = settings_of(learning_starts=0, train_freq=20, gradient_steps=2)
    kind = PrioritizedConfig(alpha=0.5, beta=0.7, beta_final=0.7, priority_eps=0.25)
    made = source(script, algo, kind, batch_size=4_000)
    first, _ = made.next(Clock(horizon=40))
    assert first is not None and first.weights is not None
    assert (first.weights == 1).all()  # no error is known yet
    errors = np.arange(20) / 10.0
    made.feedback(Update(columns={"priorities": errors}, indices=np.arange(20, dtype=np.uint64)))
    second, _ = made.next(Clock(horizon=40))
    assert second is not None and second.weights is not None
    mass = (errors + 0.25) ** 0.5
    probabilities = mass / mass.sum()
    weights = (20 * probabilities) ** -0.7
    weights /= weights.max()
    drawn = second.indices[0].astype(int)
    np.testing.assert_allclose(second.weights[0], weights[drawn], rtol=1e-5)
    seen = np.bincount(drawn, minlength=20) / 4_000
    np.testing.assert_allclose(seen, probabilities, atol=0.02)


def test_importance_weights_become_full_at_the_end_of_the_run() -> None:
    script = random_script(np.random.default_rng(9), 100, 1)
    made = source(script, None, PrioritizedConfig(beta=0.4, beta_final=1.0))
    betas = []
    clock = Clock(horizon=100)
    while clock.units_left:
        _, progress = made.next(clock)
        betas.append(made.replay_sampler.buffer.beta)  # type: ignore[union-attr]
        clock = clock.tick(progress, Update(count=1))
    np.testing.assert_allclose(betas, 0.4 + 0.6 * np.arange(100) / 100)


def test_a_buffer_stores_raw_rows_and_batches_use_the_present_moments() -> None:
    script = random_script(np.random.default_rng(10), 50, 2)
    rewards = RewardNormalizer(2, GAMMA)
    made = source(
        script,
        settings_of(learning_starts=0, train_freq=100),
        obs_normalizer=ObservationNormalizer(2),
        reward_normalizer=rewards,
    )
    batch, _ = made.next(Clock(horizon=100))
    assert batch is not None
    raw = made.replay_sampler.buffer.gather(batch.indices[0])
    seen = script[0].reshape(-1, 2).astype(np.float64)  # every observation, the first ones too
    expected = (raw["obs"] - seen.mean(0)) / seen.std(0)
    np.testing.assert_allclose(batch.obs[0], expected, atol=1e-3)
    expected = (raw["next_obs"] - seen.mean(0)) / seen.std(0)
    np.testing.assert_allclose(batch.next_obs[0], expected, atol=1e-3)
    scale = np.sqrt(rewards.moments.var)
    np.testing.assert_allclose(batch.rewards[0], raw["rewards"] / scale, rtol=1e-5)
    np.testing.assert_array_equal(raw["obs"][0], script[0].reshape(-1, 2)[int(batch.indices[0, 0])])


def test_progress_reports_each_episode_with_its_raw_return_and_end() -> None:
    script = random_script(np.random.default_rng(16), 60, 2)
    rewards, terminated, truncated = script[2:]
    expected, total = [], np.zeros((2, 2))  # return and length of each environment
    for t in range(60):
        total += np.stack([rewards[t], np.ones(2)])
        for n in np.flatnonzero(terminated[t] | truncated[t]):
            expected.append((n, *total[:, n], 2 * (t + 1)))
            total[:, n] = 0
    made = source(script, reward_normalizer=RewardNormalizer(2, GAMMA))
    clock, told = Clock(horizon=120), []
    while clock.units_left:
        batch, progress = made.next(clock)
        told += [(e.env, e.total_reward, e.length, e.env_steps) for e in progress.episodes]
        clock = clock.tick(progress, Update(count=0 if batch is None else len(batch)))
    np.testing.assert_allclose(told, expected, rtol=1e-6)
    assert len(told) > 5


def test_the_return_that_scales_rewards_begins_anew_at_every_kind_of_end() -> None:
    script = random_script(np.random.default_rng(15), 200, 3)
    rewards, terminated, truncated = script[2:]
    rewards += 1.0
    terminated[:, 0] = truncated[:, 1] = False
    terminated[::7, 1] = truncated[::7, 0] = True
    made = source(
        script,
        settings_of(learning_starts=0, train_freq=600),
        reward_normalizer=(known := RewardNormalizer(3, GAMMA)),
    )
    batch, _ = made.next(Clock(horizon=600))
    assert batch is not None
    returns = []
    for n in range(3):
        total = 0.0
        for t in range(200):
            total = GAMMA * total + rewards[t, n]
            returns.append(total)
            if terminated[t, n] or truncated[t, n]:
                total = 0.0
    assert known.moments.var == pytest.approx(np.var(returns), rel=1e-3)
    raw = made.replay_sampler.buffer.gather(batch.indices[0])["rewards"]
    np.testing.assert_allclose(batch.rewards[0], raw / np.std(returns), rtol=1e-3)


@pytest.mark.parametrize("spoilt", ["obs", "next_obs", "rewards"])
def test_a_number_that_is_not_finite_stops_the_run_and_names_its_place(spoilt: str) -> None:
    script = random_script(np.random.default_rng(11), 20, 2)
    at = {"obs": script[0][5], "next_obs": script[1][4], "rewards": script[2][4]}[spoilt]
    at[1] = np.nan
    script[3][4, 1] = spoilt == "next_obs"  # an episode ends there
    made = source(script, settings_of(learning_starts=0, train_freq=40))
    told = rf"{spoilt} is not finite in environment 1 \(env_steps 10\)"
    with pytest.raises(NonFiniteError, match=told):
        run(made, 40)


def test_a_source_without_its_rows_fills_the_buffer_before_it_learns_again() -> None:
    rng = np.random.default_rng(12)
    algo = settings_of(learning_starts=20, train_freq=1)
    first = source(random_script(rng, 60, 1), algo)
    run(first, 60)
    again = source(random_script(rng, 200, 1), algo)
    again.restore(first.save(NullStore()), NullStore())
    assert "rows were not saved" in again.resume_warning(first.save(NullStore()))
    again.env.t = 0  # type: ignore[attr-defined]
    ticks, clock = [], Clock(env_steps=60, horizon=120)
    while clock.units_left:
        batch, progress = again.next(clock)
        clock = clock.tick(progress, Update())
        ticks.append((clock.env_steps, batch is not None))
    assert [learned for _, learned in ticks] == [at > 80 for at, _ in ticks]
    assert again.exploration.steps == list(range(60, 120))  # type: ignore[attr-defined]
    assert len(again.exploration.seen) == 60  # type: ignore[attr-defined]  # none was random


def test_windows_do_not_join_the_unfinished_episode_of_an_unsaved_environment() -> None:
    script = random_script(np.random.default_rng(13), 40, 1)
    script[3][:], script[4][:] = False, False
    algo = settings_of(learning_starts=0, train_freq=10, n_step=5)
    first, again = source(script, algo, batch_size=500), source(script, algo, batch_size=500)
    first.env.resume_grade = again.env.resume_grade = "episode_start"
    run(first, 10)
    again.restore(first.save(InMemoryStore()), InMemoryStore())
    batch, _ = again.next(Clock(env_steps=10, horizon=40))
    assert isinstance(batch, Transitions)
    old = batch.indices[0] < 10
    # one step is left from row 9, two from row 8, ...
    lengths = torch.log(batch.discounts[0]) / np.log(GAMMA)
    expected = np.minimum(10 - batch.indices[0][old].astype(int), 5)
    np.testing.assert_allclose(lengths[torch.from_numpy(old)], expected, atol=1e-3)
    assert old.sum() > 100
