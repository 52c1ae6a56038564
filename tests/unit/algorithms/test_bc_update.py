"""Tests how a cloned policy learns from batches of a dataset, and which datasets and settings BC refuses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.envs import Countdown
from helpers.factored_actions import env_id
from torch import nn

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, PPO
from rlox.algorithms.bc import BCLearner
from rlox.configs import BCConfig
from rlox.errors import CheckpointError, ConfigError, ShapeError
from rlox.policies.actors import CategoricalActor, FactoredActor, GaussianActor
from rlox.rng import Streams
from rlox.runs.record import record, write_dataset
from rlox.sources.dataset_file import read_dataset
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
        found.append((float(loss.detach()), float((logits.argmax(-1) == actions[i]).float().mean())))
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


def test_bc_predicts_98_percent_of_a_deterministic_experts_actions() -> None:
    """The expert takes action 1 where the first number is positive, else action 0."""
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


def test_a_recording_stores_the_episodes_and_actions_of_the_environment() -> None:
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
    assert columns["obs"][starts, 0].tolist() == [5.0, 6.0, 7.0]  # the seeds of the episodes
    assert sum(dataset.about["returns"]) == pytest.approx(float(columns["rewards"].sum()))
    assert made[-1].actions_taken == columns["actions"].tolist()


def test_a_recording_names_the_environment_that_was_played() -> None:
    algorithm = PPO("CartPole-v1", n_envs=1)
    played = {
        "CartPole-v1": None,
        "CartPole-v0": "CartPole-v0",
        "<CartPoleEnv>": gym.make("CartPole-v1").unwrapped,
    }
    for name, env in played.items():
        assert record(algorithm, 1, env=env).about["env"] == name


def test_a_sampled_recording_draws_on_the_device_of_the_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm, asked = PPO("CartPole-v1", seed=1), []

    def generator(self: Streams, name: str, counter: int = 0, device: str = "?") -> torch.Generator:
        asked.append((name, device))
        return torch.Generator()

    monkeypatch.setattr(Streams, "generator", generator)
    record(algorithm, 2, deterministic=False)
    assert asked == [("record", "cpu")] * 2


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
        (
            {"dataset": CARTPOLE, "obs_dim": 4},
            ConfigError,
            "needs algo.obs_dim, algo.act_dim and algo",
        ),
        ({"env_id": "CartPole-v1"}, ConfigError, "missing key 'buffer.path'"),
        (
            {"dataset": CARTPOLE, "env_id": "CartPole-v1", "act_dim": 3},
            ConfigError,
            "algo.act_dim=3: the environment or dataset has 2",
        ),
        (
            {"dataset": PENDULUM, "obs_dim": 3, "act_dim": 2},
            ShapeError,
            "actions of 1 numbers, none of 2",
        ),
    ],
)
def test_bc_refuses_datasets_that_do_not_fit_the_environment_or_sizes(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        BC(**options)


def made(actions: Any, obs: Any = None, normalize: bool = False) -> OfflineDatasetBuffer:
    """Return a dataset with one row for each of these actions."""
    n = len(actions)
    obs = np.arange(4.0 * n, dtype=np.float32).reshape(n, 4) if obs is None else obs
    no = np.zeros(n, bool)
    return OfflineDatasetBuffer(obs, obs, actions, np.zeros(n), no, no, normalize=normalize)


CHOICES = {"obs_dim": 4, "act_dim": 2, "continuous": False}
VECTORS = {"obs_dim": 4, "act_dim": 1, "continuous": True}


@pytest.mark.parametrize(
    ("actions", "sizes", "message"),
    [
        (
            np.arange(8) % 2,
            {**CHOICES, "act_dim": 1},
            "has action 1, expected a choice from 0 to 0",
        ),
        (np.arange(8) - 1, CHOICES, "has action -1, expected a choice from 0 to 1"),
        (np.full(8, 0.5), CHOICES, "has action 0.5, expected a choice from 0 to 1"),
        (
            np.arange(8) % 2,
            VECTORS,
            "are int64, which are choices, expected floating-point vectors",
        ),
    ],
)
def test_bc_refuses_wrong_action_kinds_and_out_of_range_choices(
    actions: Any, sizes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=f"the dataset.*{message}"):
        BC(made(actions), **sizes)


def test_a_folder_of_the_other_kind_is_refused_like_a_dataset_in_memory() -> None:
    with pytest.raises(ShapeError, match=r"the actions of the dataset .*CartPole-v1 are int64"):
        BC(CARTPOLE, obs_dim=4, act_dim=1, continuous=True)
    with pytest.raises(ShapeError, match=r"Pendulum-v1 has action .*, expected a choice from 0 to 1"):
        BC(PENDULUM, obs_dim=3, act_dim=2, continuous=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_choices_of_any_type_are_learned_alike(dtype: type) -> None:
    plain, other = (
        BC(made((np.arange(64) % 2).astype(kind)), **CHOICES, hidden=4, batch_size=8)
        for kind in (np.int64, dtype)
    )
    for bc in (plain, other):
        bc.train(8)
    torch.testing.assert_close(flat(other.policy), flat(plain.policy), rtol=0, atol=0)


def test_a_dataset_of_another_environment_is_refused_unless_none_is_played(tmp_path: Path) -> None:
    read = read_dataset(Path(CARTPOLE))
    write = {"gone": "MountainCar-v0", "same": "CartPole-v1", "unknown": "<lambda>"}
    for folder, env in write.items():
        write_dataset(replace(read, about={**read.about, "env": env}), tmp_path / folder)
    told = "gone is from env=MountainCar-v0, the run's environment is CartPole-v1"
    with pytest.raises(ConfigError, match=told):
        BC(tmp_path / "gone", env_id="CartPole-v1")
    BC(tmp_path / "gone", **CHOICES)
    BC(tmp_path / "same", env_id="gymnasium.envs:CartPole-v1")
    BC(tmp_path / "unknown", env_id="CartPole-v1")


def test_bc_accepts_a_folder_as_text_or_path_and_refuses_other_types() -> None:
    assert BC(Path(CARTPOLE), env_id="CartPole-v1").config == BC(CARTPOLE, env_id="CartPole-v1").config
    for wrong in ({"obs": np.zeros((3, 4))}, 3):
        with pytest.raises(ConfigError, match=f"dataset is a {type(wrong).__name__}, expected an"):
            BC(wrong, **CHOICES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"normalize_obs": True}, {"normalize_reward": True}, {"n_envs": 2}, {"workers": "subprocess"}],
)
def test_bc_refuses_settings_of_environment_steps(
    options: dict[str, Any],
) -> None:
    key, value = next(iter(options.items()))
    with pytest.raises(ConfigError, match=f"env.{key}={str(value).lower()}: bc takes no steps"):
        BC(CARTPOLE, env_id="CartPole-v1", **options)


@pytest.mark.parametrize("sizes", [CHOICES, {"env_id": "CartPole-v1"}])
def test_a_squared_error_of_choices_is_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"algo\.loss=mse needs actions that are vectors"):
        BC(CARTPOLE, **sizes, loss="mse")


def standardised(seed: int = 0, dtype: Any = np.float32) -> OfflineDatasetBuffer:
    """Return rows far from 0 with unequal spreads; the last number is constant.

    The action is 1 where the first number is above its mean.
    """
    obs = np.random.default_rng(seed).normal([300, -5, 0.2, 7], [40, 0.1, 3, 0], size=(400, 4))
    return made((obs[:, 0] > 300) * 1.0, obs.astype(dtype), normalize=True)


def test_bc_normalizes_observations_with_the_datasets_moments_also_when_loaded(
    tmp_path: Path,
) -> None:
    dataset = standardised()
    bc = BC(dataset, **CHOICES, hidden=32, learning_rate=3e-3, batch_size=64)
    bc.train(200)
    raw = np.random.default_rng(1).normal([300, -5, 0.2, 7], [40, 0.1, 3, 1e-7], size=(300, 4))
    seen = torch.from_numpy(dataset.normalize(raw.astype(np.float32)).astype(np.float32))
    found = bc.predict(raw)
    np.testing.assert_array_equal(found, bc.policy.mode(seen))
    assert (np.asarray(found) == (raw[:, 0] > 300)).mean() > 0.95
    bc.save(tmp_path / "saved")
    alone = BC.from_checkpoint(tmp_path / "saved", replay=False)
    np.testing.assert_array_equal(alone.predict(raw), found)
    both = BC.from_checkpoint(tmp_path / "saved", dataset=standardised())
    for run in (bc, both):
        run.train(220)
    torch.testing.assert_close(flat(both.policy), flat(bc.policy), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_actor_sees_what_the_learner_saw_to_1e_5(dtype: Any) -> None:
    dataset = standardised(dtype=dtype)
    bc = BC(dataset, **CHOICES, hidden=4, batch_size=16)
    bc.train(1)
    rows = bc.source.last_batch()
    at, plain = rows["indices"].astype(int).ravel(), standardised(dtype=dtype)
    obs = np.random.default_rng(0).normal([300, -5, 0.2, 7], [40, 0.1, 3, 0], size=(400, 4))
    seen = obs.astype(np.float32)[at]
    bc.components.actor.normalizer.apply(seen)  # type: ignore[union-attr]
    mean, std = plain.stats()["obs_mean"], plain.stats()["obs_std"]
    std[3] = 1.0
    np.testing.assert_allclose(seen, rows["obs"].reshape(-1, 4), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(seen, (obs.astype(np.float32)[at] - mean) / std, atol=1e-5)


def test_a_normalised_dataset_is_evaluated_by_its_moments(tmp_path: Path) -> None:
    columns: dict[str, Any] = dict(read_dataset(Path(CARTPOLE)).columns)
    bc = BC(
        OfflineDatasetBuffer(**columns, normalize=True),
        env_id="CartPole-v1",
        hidden=16,
        learning_rate=3e-3,
        batch_size=32,
    )
    bc.train(400)
    env, returns = gym.make("CartPole-v1"), []
    buffer = OfflineDatasetBuffer(**columns, normalize=True)
    for seed in (5, 6):
        obs, total, ended = env.reset(seed=seed)[0], 0.0, False
        while not ended:
            seen = torch.from_numpy(buffer.normalize(obs[None]).astype(np.float32))
            obs, reward, terminated, truncated, _ = env.step(int(bc.policy.mode(seen)[0]))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    assert bc.evaluate(2, seed=5).returns == tuple(returns)
    bc.save(tmp_path / "saved")
    alone = BC.from_checkpoint(tmp_path / "saved", replay=False)
    assert alone.evaluate(2, seed=5).returns == tuple(returns)


@pytest.mark.parametrize("change", ["actions", "rewards within an episode", "normalize"])
def test_from_checkpoint_refuses_a_changed_dataset_in_memory(tmp_path: Path, change: str) -> None:
    obs = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    no, actions, rewards = np.zeros(60, bool), np.arange(60) % 2, np.zeros(60, np.float32)

    def dataset(**options: Any) -> OfflineDatasetBuffer:
        return OfflineDatasetBuffer(obs, obs, actions, rewards, no, no, **options)

    bc = BC(dataset(), **CHOICES, hidden=4, batch_size=8)
    bc.train(4)
    bc.save(tmp_path / "saved")
    assert BC.from_checkpoint(tmp_path / "saved", dataset=dataset(seed=9)).clock.updates == 4
    if change == "actions":
        actions[[17, 18]] = actions[[18, 17]]
    elif change != "normalize":
        rewards[[3, 4]] = 1.0, -1.0
    with pytest.raises(CheckpointError, match="another dataset"):
        BC.from_checkpoint(tmp_path / "saved", dataset=dataset(normalize=change == "normalize"))


def test_bc_without_an_environment_learns_and_predicts_but_cannot_evaluate(
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
    with pytest.raises(ConfigError, match="expected the folder of a dataset"):
        BC.from_checkpoint(tmp_path / "saved")
    other = record(PPO("CartPole-v1", seed=7), 2, seed=9)
    write_dataset(other, moved)
    with pytest.raises(CheckpointError, match="another dataset"):
        BC.from_checkpoint(tmp_path / "saved")


def test_actions_of_several_parts_are_learned_by_their_joint_likelihood() -> None:
    torch.manual_seed(0)
    policy, twin = (FactoredActor(3, (3, 2), 1, (8,), "relu") for _ in range(2))
    twin.load_state_dict(policy.state_dict())
    g = torch.Generator().manual_seed(1)
    choices = torch.stack([torch.randint(n, (4, 10), generator=g) for n in (3, 2)], -1)
    actions = torch.cat([choices.float(), torch.randn(4, 10, 1, generator=g)], -1)
    data = batches(actions)
    update = BCLearner(policy, BCConfig(learning_rate=0.01)).update(data, Clock())
    optimizer, found = torch.optim.Adam(twin.parameters(), 0.01), []
    for i in range(4):
        first, second, mean = twin.net(data.obs[i]).split((3, 2, 1), -1)
        numbers = torch.distributions.Normal(mean, twin.head.log_std.exp())
        loss = -numbers.log_prob(actions[i, :, 2:]).sum(-1).mean()
        right = []
        for logits, taken in zip((first, second), choices[i].unbind(-1), strict=True):
            loss = loss + nn.CrossEntropyLoss()(logits, taken)
            right.append((logits.argmax(-1) == taken).float().mean())
        error = (mean - actions[i, :, 2:]).abs().mean()
        found.append([float(x.detach()) for x in (loss, torch.stack(right).mean(), error)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(flat(policy), flat(twin))
    names = ("loss/policy", "policy/accuracy", "policy/error")
    assert [update.metrics[name] for name in names] == pytest.approx(np.mean(found, 0), rel=1e-5)


def test_a_recording_of_several_parts_has_the_choices_from_0_and_then_the_numbers() -> None:
    played = record(PPO(env_id("Nested"), n_envs=1, n_steps=16), 1, deterministic=False)
    actions = played.columns["actions"]
    assert (actions.shape, actions.dtype) == ((8, 4), np.float32)
    assert set(actions[:, 0]) <= {0.0, 1.0, 2.0}  # the gear, which is -1, 0 or 1 in the environment
    assert set(actions[:, 1]) <= {0.0, 1.0}
    learned = BC(played.buffer(), env_id=env_id("Nested"), batch_size=4, act_dim=4)
    assert "policy/error" in learned.train(4)


@pytest.mark.parametrize(
    ("space", "actions", "told"),
    [
        ("MultiDiscrete", np.zeros((8, 3), np.int64), "has actions of 3 numbers, MatchMultiDisc"),
        (
            "MultiDiscrete",
            np.full((8, 2), 2),
            r"has action 2 as its choice \[1\], expected a choice fr",
        ),
        (
            "DictMixed",
            np.full((8, 2), 0.5, np.float32),
            "has action 0.5 as its choice gear, expected",
        ),
        (
            "DictMixed",
            np.zeros((8, 2), np.int64),
            "are int64, which are choices, expected floating",
        ),
    ],
)
def test_bc_refuses_a_dataset_whose_action_parts_differ(space: str, actions: Any, told: str) -> None:
    obs, ends = np.zeros((8, 4), np.float32), np.zeros(8, bool)
    data = OfflineDatasetBuffer(obs, obs, actions, np.zeros(8, np.float32), ends, ends)
    with pytest.raises(ShapeError, match=told):
        BC(data, env_id=env_id(space))


@pytest.mark.parametrize("given", [{"loss": "mse"}, {"continuous": True}, {"act_dim": 3}])
def test_bc_refuses_vector_settings_for_mixed_actions(given: dict[str, Any]) -> None:
    data = record(PPO(env_id("DictMixed"), n_envs=1, n_steps=16), 1).buffer()
    with pytest.raises(ConfigError, match=f"algo.{next(iter(given))}="):
        BC(data, env_id=env_id("DictMixed"), **given)
