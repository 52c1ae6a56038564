"""Tests hindsight in a run: new goals come from the same episode and change reward and end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.bit_flipping import (
    BitFlipping,
    FailingBitFlipping,
    FailingOneByOne,
    FailingWithoutRule,
    NonTerminatingGoal,
    goal_reached,
)
from helpers.oracles import numeric_leaves

from rlox.algorithms import DQN
from rlox.errors import ConfigError, EnvError, NonFiniteError, UnsupportedSpaceError
from rlox.sources.store import InMemoryStore
from rlox.types import Clock, Transitions

N = 4


def make_dqn(env: type[BitFlipping] = BitFlipping, **options: Any) -> DQN:
    defaults = {"hindsight": "future", "learning_starts": 0, "train_freq": 40, "batch_size": 500}
    return DQN(lambda: env(N), n_envs=2, seed=3, **{**defaults, **options})


def sample_batch(algorithm: DQN) -> Transitions:
    batch, _ = algorithm.source.next(Clock(horizon=1000))
    assert batch is not None
    return batch


def split_obs(algorithm: DQN, rows: Any) -> dict[str, Any]:
    return algorithm.components.actor.observations.split(np.asarray(rows))


def test_hindsight_refuses_an_environment_that_allows_no_second_instance() -> None:
    alive: list[BitFlipping] = []

    def lonely() -> BitFlipping:
        if alive:
            raise OSError("Address already in use")
        alive.append(BitFlipping(N))
        return alive[0]

    refused = r"needs one more .* besides the 1 of training.*already in use\n.*buffer\.hindsight=null"
    with pytest.raises(EnvError, match=refused):
        DQN(lonely, n_envs=1, hindsight="future")


def test_rewards_and_discounts_are_those_of_the_goal_that_a_drawn_row_has() -> None:
    algorithm = make_dqn()
    batch = sample_batch(algorithm)
    after = split_obs(algorithm, batch.next_obs[0])
    there = (after["achieved_goal"] == after["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.rewards[0], there.astype(np.float32) - 1)
    np.testing.assert_allclose(batch.discounts[0], np.where(there, 0, 0.99), rtol=1e-6)
    assert 0.05 < there.mean() < 0.9
    before = split_obs(algorithm, batch.obs[0])
    np.testing.assert_array_equal(before["desired_goal"], after["desired_goal"])


def find_ends(obs: dict[str, Any]) -> np.ndarray:
    """Returns which rows of two alternating environments end an episode: at the goal, or after N steps."""
    is_at_goal = (obs["achieved_goal"] == obs["desired_goal"]).all(-1)
    is_end, steps = np.zeros(len(is_at_goal), bool), [0, 0]
    for row in range(len(is_at_goal)):
        steps[row % 2] += 1
        is_end[row] = is_at_goal[row] or steps[row % 2] == N
        if is_end[row]:
            steps[row % 2] = 0
    return is_end


def test_a_new_goal_was_reached_later_in_the_same_episode() -> None:
    algorithm = make_dqn()
    batch = sample_batch(algorithm)
    rows = algorithm.source.replay_sampler.buffer.gather(np.arange(40, dtype=np.uint64))
    after = split_obs(algorithm, batch.next_obs[0])
    ended = find_ends(rows["next_obs"])
    changed = 0
    for i, index in enumerate(batch.indices[0].astype(int)):
        goal = after["desired_goal"][i]
        if (goal == rows["next_obs"]["desired_goal"][index]).all():
            continue
        changed += 1
        later = []
        for t in range(index, 40, 2):  # two environments take turns
            later.append(rows["next_obs"]["achieved_goal"][t].tolist())
            if ended[t]:
                break
        assert goal.tolist() in later
    assert changed > 200


@pytest.mark.parametrize("env", [FailingBitFlipping, NonTerminatingGoal])
def test_a_row_that_keeps_its_goal_keeps_its_end(env: type[BitFlipping]) -> None:
    algorithm = make_dqn(env, train_freq=200, batch_size=4_000)
    batch = sample_batch(algorithm)
    rows = algorithm.source.replay_sampler.buffer.gather(batch.indices[0])
    after = split_obs(algorithm, batch.next_obs[0])
    own = rows["next_obs"]["desired_goal"]
    kept = (after["desired_goal"] == own).all(-1)
    expected = np.where(rows["terminated"], 0, 0.99)
    np.testing.assert_allclose(batch.discounts[0][kept], expected[kept], rtol=1e-6)
    there = goal_reached(after["achieved_goal"], own)
    assert (kept & (there != rows["terminated"])).sum() > 5
    assert (kept & ~rows["terminated"]).sum() > 5


@pytest.mark.parametrize("env", [FailingBitFlipping, FailingOneByOne])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_rows_end_if_they_reach_the_new_goal_or_fall(env: type[BitFlipping], strategy: str) -> None:
    algorithm = make_dqn(env, hindsight=strategy, train_freq=200, batch_size=4_000)
    batch = sample_batch(algorithm)
    after = split_obs(algorithm, batch.next_obs[0])
    there, fell = (
        goal_reached(after["achieved_goal"], after["desired_goal"]),
        np.asarray(batch.next_obs[0]),
    )
    fell = fell[:, algorithm.components.actor.observations.parts["achieved_goal"]].all(-1)
    np.testing.assert_allclose(batch.discounts[0], np.where(there | fell, 0, 0.99), rtol=1e-6)
    assert (fell & ~there).sum() > 5
    assert (there & ~fell).sum() > 50


def test_without_a_rule_for_goals_every_row_keeps_its_end() -> None:
    algorithm = make_dqn(FailingWithoutRule, train_freq=200, batch_size=4_000)
    batch = sample_batch(algorithm)
    rows = algorithm.source.replay_sampler.buffer.gather(batch.indices[0])
    expected = np.where(rows["terminated"], 0, 0.99)
    np.testing.assert_allclose(batch.discounts[0], expected, rtol=1e-6)
    after = split_obs(algorithm, batch.next_obs[0])
    there = goal_reached(after["achieved_goal"], after["desired_goal"])
    assert (there & ~rows["terminated"]).sum() > 50


def test_without_hindsight_goals_stay_as_they_were() -> None:
    algorithm = make_dqn(hindsight=None)
    batch = sample_batch(algorithm)
    rows = algorithm.source.replay_sampler.buffer.gather(batch.indices[0])
    np.testing.assert_array_equal(batch.next_obs[0], rows["next_obs"])
    np.testing.assert_array_equal(batch.rewards[0], rows["rewards"])


def test_a_run_with_hindsight_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "train_freq": 8, "batch_size": 16, "net_arch": (16,), "exploration_fraction": 1e-6,
        "target_update_interval": 40, "learning_rate": 1e-2,
    }  # fmt: skip
    whole, half = make_dqn(**settings), make_dqn(**settings)
    whole.train(240)
    half.train(128)
    half.save(tmp_path / "saved")
    again = DQN.from_checkpoint(tmp_path / "saved", lambda: BitFlipping(N))
    assert again.clock.env_steps == 128
    again.train(240)
    assert all_state(again) == all_state(whole)


def all_state(algorithm: DQN) -> dict[str, bytes]:
    """Returns both networks, the optimizer and every row by their path."""
    tree = {**algorithm.learner.state(), "rows": algorithm.source.save(InMemoryStore())["buffer"]}
    bytes_by_path = {}
    for path in numeric_leaves(tree):
        node: Any = tree
        for key in path:
            node = node[key]
        bytes_by_path["/".join(map(str, path))] = np.asarray(node).tobytes()
    assert any("adam" in name for name in bytes_by_path)
    assert any("target" in name for name in bytes_by_path)
    return bytes_by_path


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make_dqn(n_step=2), ConfigError, "hindsight=future and algo.n_step=2"),
        (
            lambda: DQN("CartPole-v1", hindsight="final"),
            UnsupportedSpaceError,
            "CartPole-v1 has no part 'observation'",
        ),
        (lambda: make_dqn(hindsight="past"), ConfigError, "expected one of future, final, episode"),
        (
            lambda: make_dqn(prioritized=True),
            ConfigError,
            "hindsight='future': buffer=prioritized has no hindsight, which belongs to buffer=uniform",
        ),
        (
            lambda: make_dqn(reward_scale=10.0),
            ConfigError,
            "hindsight=future and env.reward_scale=10: ",
        ),
        (
            lambda: make_dqn(reward_clip=0.5),
            ConfigError,
            r"hindsight=future and env.reward_clip=0\.5: ",
        ),
        (
            lambda: make_dqn(action_repeat=2),
            ConfigError,
            "hindsight=future and env.action_repeat=2: ",
        ),
    ],
)
def test_dqn_refuses_unsupported_hindsight_settings_by_name(
    call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


class ExtraCost(gym.Wrapper[Any, Any, Any, Any]):
    """Each step costs 7 more, but the rule for goals does not include this cost."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs, reward - 7, *rest


class ExtraGoalCost(ExtraCost):
    """Its rule for goals includes the cost. No goal ends an episode."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.env.get_wrapper_attr("compute_reward")(achieved, desired, info) - 7

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.zeros(len(achieved), bool)


@pytest.mark.parametrize("key", ["wrappers", "reward_wrappers"])
def test_rules_of_a_wrapper_judge_the_goals_of_what_it_is_around(key: str) -> None:
    batch, plain = sample_batch(make_dqn(**{key: [ExtraGoalCost]})), sample_batch(make_dqn())
    np.testing.assert_array_equal(np.asarray(batch.rewards), np.asarray(plain.rewards) - 7)
    assert (np.asarray(batch.discounts) == 0).mean() < (np.asarray(plain.discounts) == 0).mean()


@pytest.mark.parametrize("key", ["wrappers", "reward_wrappers"])
def test_the_error_of_a_reward_unlike_compute_reward_has_both_numbers(
    key: str,
) -> None:
    told = r"a step of .* had the reward -8, but compute_reward gives -1 for the goal of that step"
    with pytest.raises(EnvError, match=told):
        sample_batch(make_dqn(**{key: [ExtraCost]}))


class GoalOverwriter(FailingBitFlipping):
    """Its rules overwrite their goals, except those of its own steps, which are single goals."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        result = super().compute_reward(achieved.copy(), desired.copy(), info)
        if len(achieved) > 1:
            achieved[...], desired[...] = 7, 8
        return result

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        result = super().compute_terminated(achieved.copy(), desired.copy(), info)
        if len(achieved) > 1:
            achieved[...], desired[...] = 7, 8
        return result


class SingleGoalOverwriter(FailingOneByOne):
    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        result = super().compute_terminated(achieved.copy(), desired.copy(), info)
        achieved[...], desired[...] = 7, 8
        return result


@pytest.mark.parametrize(
    ("polite", "impolite"),
    [(FailingBitFlipping, GoalOverwriter), (FailingOneByOne, SingleGoalOverwriter)],
)
def test_rules_that_write_into_goals_change_nothing_that_is_learned(
    polite: type[BitFlipping], impolite: type[BitFlipping]
) -> None:
    batches = [sample_batch(make_dqn(env)) for env in (polite, impolite)]
    for name in ("obs", "next_obs", "rewards", "discounts"):
        here, there = (np.asarray(getattr(batch, name)) for batch in batches)
        np.testing.assert_array_equal(there, here, err_msg=name)


def make_rule_class(rule: str, answer: Any) -> type[BitFlipping]:
    """Makes bit flipping whose rule returns `answer(achieved, desired)`; rewards of steps do not change."""

    class CustomRule(BitFlipping):
        is_stepping = False

        def step(self, action: Any) -> Any:
            self.is_stepping = True
            result = super().step(action)
            self.is_stepping = False
            return result

        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            if rule == "compute_reward" and not self.is_stepping:
                return answer(achieved, desired)
            return super().compute_reward(achieved, desired, info)

        def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
            if rule == "compute_terminated":
                return answer(achieved, desired)
            return super().compute_terminated(achieved, desired, info)

    return CustomRule


def answer_each(value: Any) -> Any:
    """Makes a rule with the same answer for each goal, as an array for several goals."""
    return lambda achieved, desired: np.full(len(achieved), value) if achieved.ndim > 1 else value


def ragged_rewards(achieved: Any, desired: Any) -> Any:
    return [[1.0]] * (len(achieved) - 1) + [[1.0, 2.0]]


INVALID_ANSWERS = [
    (answer_each("False"), r"shape \(\d+,\) and <U5, expected a {wanted} for each of \d+ goals"),
    (answer_each(1j), r"shape \(\d+,\) and complex128, expected a {wanted} for each"),
    (
        lambda achieved, desired: np.zeros(2),
        r"shape \(2,\) and float64, expected a {wanted} for each",
    ),
    (lambda achieved, desired: "False", "'False' for a goal, expected a {wanted}"),
    (lambda achieved, desired: None, "None for a goal, expected a {wanted}"),
    (ragged_rewards, "a value that is no array"),
    (
        lambda achieved, desired: np.ma.array(np.ones(len(achieved)), mask=achieved[:, 0] == 0),
        "a masked array: some of it is masked",
    ),
    (lambda achieved, desired: torch.zeros(len(achieved), requires_grad=True), "a value that is no array"),
]


@pytest.mark.parametrize(("answer", "told"), INVALID_ANSWERS)
@pytest.mark.parametrize("rule", ["compute_reward", "compute_terminated"])
def test_a_rule_that_gives_no_number_for_each_goal_is_refused_by_name(
    rule: str, answer: Any, told: str
) -> None:
    wanted = "number" if rule == "compute_reward" else "bool"
    with pytest.raises(EnvError, match=f"{rule} returned .*{told.format(wanted=wanted)}"):
        sample_batch(make_dqn(make_rule_class(rule, answer)))


@pytest.mark.parametrize("rule", ["compute_reward", "compute_terminated"])
def test_the_error_of_a_raising_rule_names_the_rule(rule: str) -> None:
    with pytest.raises(EnvError, match=f"{rule} raised ZeroDivisionError: "):
        sample_batch(make_dqn(make_rule_class(rule, lambda achieved, desired: 1 // 0)))


@pytest.mark.parametrize("flag", [0.3, np.nan, 2, -1])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_end_of_a_goal_that_is_no_flag_is_refused(flag: Any, one_by_one: bool) -> None:
    answer = (lambda achieved, desired: flag) if one_by_one else answer_each(flag)
    with pytest.raises(EnvError, match=f"compute_terminated returned {flag} .*expected bools"):
        sample_batch(make_dqn(make_rule_class("compute_terminated", answer)))


@pytest.mark.parametrize("reward", [np.nan, -np.inf, 1e300])
def test_a_reward_of_a_goal_that_is_not_finite_is_refused(reward: float) -> None:
    answer = make_rule_class("compute_reward", answer_each(reward))
    with pytest.raises(NonFiniteError, match=r"compute_reward returned .* for a goal, .*finite"):
        sample_batch(make_dqn(answer))


def sparse_reward(achieved: Any, desired: Any) -> Any:
    return goal_reached(achieved, desired).astype(np.float32) - 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda achieved, desired: sparse_reward(achieved, desired).tolist(),
        lambda achieved, desired: torch.tensor(sparse_reward(achieved, desired)),
        lambda achieved, desired: sparse_reward(achieved, desired)[:, None].astype(np.float64),
        lambda achieved, desired: -float(np.linalg.norm(achieved - desired) > 0.5),
    ],
    ids=["a list", "a tensor", "a column", "one by one"],
)
def test_rewards_of_goals_are_taken_in_any_form_that_has_one_for_each(answer: Any) -> None:
    batches = [
        sample_batch(make_dqn(env)) for env in (BitFlipping, make_rule_class("compute_reward", answer))
    ]
    np.testing.assert_array_equal(np.asarray(batches[1].rewards), np.asarray(batches[0].rewards))


@pytest.mark.parametrize("form", [list, torch.tensor, lambda there: there.astype(np.float64)[:, None]])
def test_ends_of_goals_are_taken_as_bools_or_as_0_and_1(form: Any) -> None:
    answer = make_rule_class("compute_terminated", lambda *goals: form(goal_reached(*goals)))
    batches = [sample_batch(make_dqn(env)) for env in (BitFlipping, answer)]
    np.testing.assert_array_equal(np.asarray(batches[1].discounts), np.asarray(batches[0].discounts))
