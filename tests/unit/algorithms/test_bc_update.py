"""What batches of a dataset do to a cloned policy, and what is refused before they can."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import Countdown
from torch import nn

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, PPO
from rlox.algorithms.bc import BCLearner
from rlox.configs import BCConfig
from rlox.errors import CheckpointError, ConfigError, ShapeError
from rlox.policies.actors import CategoricalActor, GaussianActor
from rlox.runs.record import record, write_dataset
from rlox.types import Clock, Transitions

DATA = Path(__file__).parents[2] / "golden" / "datasets"
CARTPOLE, PENDULUM = str(DATA / "CartPole-v1"), str(DATA / "Pendulum-v1")


def batches(actions: torch.Tensor, n: int = 4, size: int = 10) -> Transitions:
    g = torch.Generator().manual_seed(0)
    obs = torch.randn(n, size, 3, generator=g)
    zeros = torch.zeros(n, size)
    return Transitions(obs, actions, zeros, obs, zeros, np.zeros((n, size), np.uint64))


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_choices_are_learned_by_cross_entropy_as_torch_has_it() -> None:
    torch.manual_seed(0)
    policy, twin = (CategoricalActor(3, 4, (8,), "relu") for _ in range(2))
    twin.load_state_dict(policy.state_dict())
    actions = torch.randint(4, (4, 10), generator=torch.Generator().manual_seed(1))
    data = batches(actions.unsqueeze(-1))  # `[n, B, 1]`, as a dataset has them
    update = BCLearner(policy, BCConfig(learning_rate=0.01)).update(data, Clock())
    optimizer, found = torch.optim.Adam(twin.parameters(), 0.01), []
    for i in range(4):
        logits = twin.net(data.obs[i])
        loss = nn.CrossEntropyLoss()(logits, actions[i])
        found.append(
            (float(loss.detach()), float((logits.argmax(-1) == actions[i]).float().mean()))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(flat(policy), flat(twin))
    loss_mean, accuracy = np.mean(found, 0)
    assert update.metrics["loss/policy"] == pytest.approx(loss_mean, rel=1e-5)
    assert update.metrics["policy/accuracy"] == pytest.approx(accuracy)
    assert (update.count, update.samples) == (4, 40)


@pytest.mark.parametrize("kind", ["nll", "mse"])
def test_vectors_are_learned_by_the_gaussians_likelihood_or_the_means_squared_error(
    kind: str,
) -> None:
    torch.manual_seed(0)
    policy, twin = (GaussianActor(3, 2, (8,), "tanh") for _ in range(2))
    twin.load_state_dict(policy.state_dict())
    data = batches(torch.randn(4, 10, 2, generator=torch.Generator().manual_seed(1)))
    BCLearner(policy, BCConfig(learning_rate=0.01, loss=kind)).update(data, Clock())
    optimizer = torch.optim.Adam(twin.parameters(), 0.01)
    for i in range(4):
        mean = twin.net(data.obs[i])
        if kind == "mse":
            loss = nn.MSELoss()(mean, data.actions[i])
        else:
            normal = torch.distributions.Normal(mean, twin.log_std.exp())
            loss = -torch.distributions.Independent(normal, 1).log_prob(data.actions[i]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(flat(policy), flat(twin), rtol=1e-5, atol=1e-6)


def test_a_deterministic_expert_is_cloned() -> None:
    """Action 1 where the first number is positive: 2 % of the errors of chance are left."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(2000, 3)).astype(np.float32)
    actions = (obs[:, 0] > 0).astype(np.float32)
    none = np.zeros(2000, bool)
    dataset = OfflineDatasetBuffer(obs, obs, actions, np.zeros(2000), none, none)
    bc = BC(dataset, obs_dim=3, act_dim=2, continuous=False, hidden=32, learning_rate=3e-3, seed=0)
    metrics = bc.train(600)
    fresh = rng.normal(size=(1000, 3)).astype(np.float32)
    assert (np.asarray(bc.predict(fresh)) == (fresh[:, 0] > 0)).mean() > 0.98
    assert metrics["updates"] == 600.0 and metrics["env_steps"] == 0.0
    assert isinstance(bc.predict(fresh[0]), int)


def test_a_recording_is_what_the_environment_did_and_its_actions_those_that_were_taken() -> None:
    made: list[Countdown] = []

    def factory() -> Countdown:
        made.append(Countdown(lengths=(2, 3, 1)))
        return made[-1]

    algorithm = PPO(factory, n_envs=1)
    dataset = record(algorithm, 3, seed=5, env=factory)
    columns = dataset.columns
    starts = [i for i, o in enumerate(columns["obs"]) if o[2] == 0]
    assert len(starts) == 3 == len(dataset.about["returns"])
    for start, end in zip(starts, [*starts[1:], len(columns["rewards"])], strict=True):
        steps = slice(start, end)
        np.testing.assert_array_equal(columns["next_obs"][steps][:-1], columns["obs"][steps][1:])
        ended = columns["terminated"][steps] | columns["truncated"][steps]
        assert ended.tolist() == [False] * (end - start - 1) + [True]
    assert columns["obs"][starts, 0].tolist() == [5.0, 6.0, 7.0]  # seeds of the episodes
    assert sum(dataset.about["returns"]) == pytest.approx(float(columns["rewards"].sum()))
    assert made[-1].taken == columns["actions"].tolist()


def test_sampled_recordings_are_a_function_of_the_seed() -> None:
    algorithm = PPO("CartPole-v1", seed=1)
    one, again, other, best = (
        record(algorithm, 2, seed=seed, deterministic=greedy).columns["actions"].tolist()
        for seed, greedy in ((1, False), (1, False), (2, False), (1, True))
    )
    assert one == again
    assert one != other
    assert one != best


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dataset": CARTPOLE, "env_id": "Acrobot-v1"}, ShapeError, "4 numbers, Acrobot-v1 of 6"),
        ({"dataset": CARTPOLE, "obs_dim": 4}, ConfigError, "needs obs_dim, act_dim and continuous"),
        ({"env_id": "CartPole-v1"}, ConfigError, "missing key 'buffer.path'"),
        (
            {"dataset": CARTPOLE, "env_id": "CartPole-v1", "act_dim": 3},
            ConfigError,
            "algo.act_dim=3: the environment has 2",
        ),
        (
            {"dataset": PENDULUM, "obs_dim": 3, "act_dim": 2},
            ShapeError,
            "actions of 1 numbers, none of 2",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        BC(**options)


def test_a_choice_that_does_not_exist_is_refused_by_its_number() -> None:
    bc = BC(CARTPOLE, obs_dim=4, act_dim=1, continuous=False)
    with pytest.raises(ShapeError, match="the dataset has action 1, expected 0 to 0"):
        bc.train(10)


def test_without_an_environment_it_learns_and_predicts_and_says_why_it_does_not_play(
    tmp_path: Path,
) -> None:
    bc = BC(PENDULUM, obs_dim=3, act_dim=1, hidden=8, batch_size=16)
    bc.train(20)
    with pytest.raises(ConfigError, match="without an environment"):
        bc.evaluate(1)
    bc.save(tmp_path / "saved")
    again = BC.from_checkpoint(tmp_path / "saved")
    obs = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(again.predict(obs), bc.predict(obs))


def test_a_policy_plays_without_its_dataset_and_does_not_go_on_with_another(tmp_path: Path) -> None:
    moved = shutil.copytree(CARTPOLE, tmp_path / "data")
    bc = BC(str(moved), env_id="CartPole-v1", hidden=8, batch_size=16)
    bc.train(20)
    bc.save(tmp_path / "saved")
    moved.rename(tmp_path / "elsewhere")
    played = BC.from_checkpoint(tmp_path / "saved", replay=False)
    assert played.evaluate(2).returns == bc.evaluate(2).returns
    with pytest.raises(ConfigError, match=r"buffer\.path"):
        BC.from_checkpoint(tmp_path / "saved")
    other = record(PPO("CartPole-v1", seed=7), 2, seed=9)
    write_dataset(other, moved)
    with pytest.raises(CheckpointError, match="another dataset"):
        BC.from_checkpoint(tmp_path / "saved")
