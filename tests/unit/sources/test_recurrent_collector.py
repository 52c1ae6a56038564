"""Tests that the collector keeps a state for each environment and resets it exactly where episodes begin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import AlwaysTruncates, ScriptedVecEnv, random_script
from numpy.typing import NDArray
from torch import Tensor

import rlox.sources.recurrent as module
from rlox.envs.base import LIFE_LOST, EpisodeEnds
from rlox.errors import ConfigError
from rlox.policies import DiscretePolicy
from rlox.policies.heads import CategoricalHead
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.sources.recurrent import RecurrentCollector
from rlox.types import Rollout

T, N, GAMMA, SEED = 12, 5, 0.9, 1
CRITICS = ["own", "shared", "none"]


def policy(critic: str = "own", obs_dim: int = 2, **options: Any) -> RecurrentActorCritic:
    torch.manual_seed(4)
    made = RecurrentActorCritic(obs_dim, CategoricalHead(2), "lstm", 3, critic=critic, **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.6)
    return made


def scripted(rollouts: int = 2) -> tuple[RecurrentCollector, tuple[NDArray[Any], ...]]:
    script = random_script(np.random.default_rng(SEED), rollouts * T, N)
    env: Any = ScriptedVecEnv(*script)
    return RecurrentCollector("env", N, 0, gamma=GAMMA, env=env), script


class ByHand:
    """Plays the script again, one environment and one step at a time."""

    def __init__(self, made: RecurrentActorCritic, script: tuple[NDArray[Any], ...]) -> None:
        self.policy, self.script = made, script
        self.states = [torch.zeros(1, made.state_size) for _ in range(N)]

    def value(self, obs: NDArray[Any], state: Tensor) -> float:
        return float(self.policy.get_value(torch.from_numpy(obs[None]), state))

    def after(self, obs: NDArray[Any], state: Tensor) -> Tensor:
        """Returns the state after `obs`: both recurrent networks take a step."""
        seen, own = torch.from_numpy(obs[None]), self.policy.actor_state_size
        states = [self.policy.actor_rnn.step(seen, state[:, :own])[1]]
        if self.policy.critic_rnn is not None:
            states.append(self.policy.critic_rnn.step(seen, state[:, own:])[1])
        return torch.cat(states, -1)

    def rollout(self, start: int, actions: Tensor) -> dict[str, NDArray[np.float64]]:
        obs, finals, _, terminated, truncated = self.script
        found = {name: np.zeros((T, N)) for name in ("values", "next_values", "log_probs")}
        self.logits = torch.zeros(T, N, 2)
        for t in range(T):
            for n in range(N):
                seen, state, at = obs[start + t, n], self.states[n], start + t
                found["values"][t, n] = self.value(seen, state)
                logits, _ = self.policy.act(
                    torch.from_numpy(seen[None]), state[:, : self.policy.actor_state_size]
                )
                self.logits[t, n] = logits
                chosen = int(actions.view(T, N)[t, n])
                found["log_probs"][t, n] = float(torch.log_softmax(logits, -1)[0, chosen])
                led = self.after(seen, state)
                if terminated[at, n]:
                    following = 0.0
                elif truncated[at, n]:
                    following = self.value(finals[at, n], led)
                else:
                    following = self.value(obs[at + 1, n], led)
                found["next_values"][t, n] = following
                ended = terminated[at, n] | truncated[at, n]
                self.states[n] = torch.zeros_like(led) if ended else led
        return found


@pytest.mark.parametrize("critic", CRITICS)
@torch.no_grad()
def test_values_and_log_probabilities_follow_the_states_of_single_steps(critic: str) -> None:
    made = policy(critic)
    collector, script = scripted(3)
    oracle = ByHand(made, script)
    cut_off = script[4] & ~script[3]
    assert cut_off.sum() > 10
    for number in range(3):
        begun = torch.cat(oracle.states)
        rollout = collector.collect(made, T)
        expected = oracle.rollout(number * T, rollout.actions)
        for name, column in expected.items():
            found = getattr(rollout, name).view(T, N).numpy()
            np.testing.assert_allclose(found, column, atol=1e-5, err_msg=name)
        assert rollout.first_state is not None
        torch.testing.assert_close(rollout.first_state, begun, atol=1e-5, rtol=0)
        last = [oracle.value(script[0][number * T + T, n], oracle.states[n]) for n in range(N)]
        np.testing.assert_allclose(rollout.last_values, last, atol=1e-5)


@torch.no_grad()
def test_actions_follow_the_logits_of_single_steps() -> None:
    """A rollout's stream gives the noise; the states alone determine the logits to which it is added."""
    made = policy()
    collector, script = scripted(3)
    oracle = ByHand(made, script)
    for number in range(3):
        rollout = collector.collect(made, T)
        oracle.rollout(number * T, rollout.actions)
        explore = made.head.sampler(T, N, collector.streams.generator("action", number))
        expected = torch.stack([explore(logits, t) for t, logits in enumerate(oracle.logits)])
        assert torch.equal(rollout.actions.view(T, N), expected)


def test_rows_that_begin_an_episode_are_marked_across_rollouts() -> None:
    collector, script = scripted(2)
    ended = script[3] | script[4]
    begins = np.concatenate([np.ones((1, N), bool), ended[:-1]])
    for number in range(2):
        rollout = collector.collect(policy(), T)
        expected = begins[number * T : number * T + T]
        assert np.array_equal(rollout.extras["is_first"].view(T, N).numpy(), expected)


class Lives(ScriptedVecEnv):
    """Every end is a lost life, after which the game goes on."""

    def step_into(self, *given: Any) -> EpisodeEnds | None:
        finals = super().step_into(*given)
        return finals and finals._replace(infos=[{LIFE_LOST: True}] * len(finals.envs))


def test_each_life_resets_the_recurrent_state_also_between_rollouts() -> None:
    script = random_script(np.random.default_rng(SEED), 2 * T, N)
    ended = script[3] | script[4]
    assert ended[T - 1].any()
    env: Any = Lives(*script)
    collector = RecurrentCollector("env", N, 0, gamma=GAMMA, env=env)
    collector.collect(policy(), T)
    rollout = collector.collect(policy(), T)
    begins = ended[T - 1 : 2 * T - 1]
    assert np.array_equal(rollout.extras["is_first"].view(T, N).numpy(), begins)
    assert rollout.first_state is not None
    assert np.array_equal(rollout.first_state.any(1).numpy(), ~begins[0])
    assert not collector.progress.episodes


def numbers_of_a_gru(x: float, h: float) -> float:
    """Computes one step of a GRU with one hidden number by its definition, with the weights of `tiny`."""

    def sigmoid(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    reset, update = sigmoid(0.5 * x + 0.3 * h), sigmoid(-0.2 * x + 0.7 * h)
    new = math.tanh(0.9 * x + reset * (-0.4 * h) + 0.1)
    return (1 - update) * new + update * h


def tiny() -> RecurrentActorCritic:
    """Makes a GRU of one number for actor and critic; V = 2 tanh(1.5 h) - 0.25."""
    made = RecurrentActorCritic(
        1, CategoricalHead(2), "gru", 1, critic="shared", net_arch=(1,), ortho_init=False
    )
    rnn = made.actor_rnn.rnn
    values = {
        rnn.weight_ih_l0: [[0.5], [-0.2], [0.9]],
        rnn.weight_hh_l0: [[0.3], [0.7], [-0.4]],
        rnn.bias_ih_l0: [0.0, 0.0, 0.1],
        rnn.bias_hh_l0: [0.0, 0.0, 0.0],
        made.critic[0].weight: [[1.5]],
        made.critic[0].bias: [0.0],
        made.critic[2].weight: [[2.0]],
        made.critic[2].bias: [-0.25],
    }
    with torch.no_grad():
        for parameter, value in values.items():
            parameter.copy_(torch.tensor(value))
    return made


def test_a_time_limit_is_bootstrapped_from_the_state_that_led_to_it_by_hand() -> None:
    """The second of three steps is truncated. Its final observation is 5; the reset gives -1."""
    seen, last = [1.0, 2.0, -1.0, 0.5], 5.0
    obs = np.array(seen, np.float32).reshape(4, 1, 1)
    finals = np.array([0, last, 0], np.float32).reshape(3, 1, 1)
    no = np.zeros((3, 1), bool)
    truncated = np.array([[0], [1], [0]], bool)
    env: Any = ScriptedVecEnv(obs, finals, np.ones((3, 1)), no, truncated)
    rollout = RecurrentCollector("env", 1, 0, gamma=GAMMA, gae_lambda=0.0, env=env).collect(tiny(), 3)

    def value(x: float, h: float) -> float:
        return 2 * math.tanh(1.5 * numbers_of_a_gru(x, h)) - 0.25

    h1 = numbers_of_a_gru(1.0, 0.0)
    h2 = numbers_of_a_gru(2.0, h1)
    values = [value(1.0, 0.0), value(2.0, h1), value(-1.0, 0.0)]
    after = [values[1], value(last, h2), value(0.5, numbers_of_a_gru(-1.0, 0.0))]
    np.testing.assert_allclose(rollout.values, values, atol=1e-6)
    np.testing.assert_allclose(rollout.next_values, after, atol=1e-6)
    assert abs(value(last, h2) - value(last, 0.0)) > 0.05  # the state after a reset differs
    expected = [1 + GAMMA * n - v for n, v in zip(after, values, strict=True)]
    np.testing.assert_allclose(rollout.advantages, expected, atol=1e-6)


def collected(many: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Rollout, Any]:
    monkeypatch.setattr(module, "SCORE_ROWS", many)
    collector, _ = scripted(1)
    return collector.collect(policy(), T), collector.state()["memory"]


def test_the_number_of_rows_scored_at_once_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, memory = collected(10_000, monkeypatch)
    expected = {name: getattr(whole, name).clone() for name in ("log_probs", "values", "next_values")}
    for many in (1, 2 * T):
        rollout, left = collected(many, monkeypatch)
        for name, column in expected.items():
            torch.testing.assert_close(getattr(rollout, name), column, atol=5e-6, rtol=0)
        np.testing.assert_allclose(left, memory, atol=5e-6)


def test_the_next_rollout_does_not_overwrite_states_of_the_previous_one() -> None:
    collector, _ = scripted(2)
    rollout = collector.collect(policy(), T)
    assert rollout.first_state is not None
    kept = rollout.first_state.clone(), rollout.extras["is_first"].clone()
    collector.collect(policy(), T)
    assert torch.equal(rollout.first_state, kept[0])
    assert torch.equal(rollout.extras["is_first"], kept[1])


def test_environments_that_cannot_be_saved_start_again_without_a_memory() -> None:
    made = policy(obs_dim=1)
    running = RecurrentCollector(AlwaysTruncates, 2)
    running.collect(made, 4)
    assert running.state()["memory"].any()
    again = RecurrentCollector(AlwaysTruncates, 2)
    again.restore(running.state())
    rollout = again.collect(made, 4)
    assert rollout.first_state is not None
    assert not rollout.first_state.any()
    assert rollout.extras["is_first"].view(4, 2)[0].all()


def test_a_policy_without_a_memory_is_refused() -> None:
    collector, _ = scripted(1)
    with pytest.raises(ConfigError, match="DiscretePolicy is not recurrent"):
        collector.collect(DiscretePolicy(2, 2), T)
