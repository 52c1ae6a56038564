"""Tests that algorithms respect action masks when they store, learn, play and resume."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.masked_envs import BY_METHOD, Masked, make_masked
from torch import Tensor, nn

from rlox.algorithms import A2C, BC, DQN, PPO, Rainbow
from rlox.algorithms.dqn.learner import DQNLearner
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig
from rlox.configs.dqn import DQNConfig
from rlox.errors import ConfigError, EnvError, ShapeError
from rlox.policies.masking import MaskedDiscretePolicy, MaskedQPolicy
from rlox.runs.record import record
from rlox.types import Clock, Transitions

SMALL: dict[Any, dict[str, Any]] = {
    PPO: {"n_steps": 24, "batch_size": 24, "n_epochs": 2, "net_arch": (8,)},
    A2C: {"n_steps": 8, "net_arch": (8,)},
    DQN: {
        "learning_starts": 40, "train_freq": 8, "batch_size": 8, "buffer_size": 120, "net_arch": (8,),
        "exploration_fraction": 1.0, "target_update_interval": 40,
    },
}  # fmt: skip
SMALL[Rainbow] = {key: value for key, value in SMALL[DQN].items() if "exploration" not in key}
PARTS = {"prioritized": True, "n_step": 3, "double_dqn": True, "dueling": True}
KINDS = pytest.mark.parametrize(
    ("facade", "more"),
    [
        (PPO, {}),
        (A2C, {}),
        (DQN, {}),
        (DQN, PARTS),
        (DQN, {"noisy": True, "exploration_fraction": 0.1}),
        (Rainbow, {}),
    ],
    ids=str,
)


def made(facade: Any, source: str = "info", strict: bool = True, **more: Any) -> Any:
    """Return an algorithm on an environment with doors; by default a closed door raises."""
    given = {"n_envs": 3, "seed": 1, "action_mask": source, **SMALL[facade], **more}
    return facade(lambda: make_masked(source, strict=strict), **given)


def weights(algorithm: Any) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@KINDS
def test_no_closed_door_is_ever_tried_in_training_evaluation_or_play(
    facade: Any, more: dict[str, Any]
) -> None:
    """A closed door raises an error. Sampled play must be as strict as greedy play."""
    algorithm = made(facade, normalize_obs=True, normalize_reward=True, **more)
    algorithm.train(720)
    assert algorithm.clock.updates >= 10
    assert len(algorithm.evaluate(20).returns) == 20
    assert len(algorithm.evaluate(20, deterministic=False).returns) == 20
    env = make_masked("info")
    for seed in range(5):
        obs, info = env.reset(seed=seed)
        ended = False
        while not ended:
            mask = info["action_mask"]
            action = algorithm.predict(obs, deterministic=seed < 2, action_masks=mask)
            obs, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated


@pytest.mark.parametrize("facade", [PPO, A2C, DQN])
def test_without_its_mask_a_closed_door_is_tried_soon(facade: Any) -> None:
    with pytest.raises(EnvError, match="Forbidden"):
        made(facade, action_mask="none").train(720)


@KINDS
def test_the_source_of_a_mask_changes_no_number(facade: Any, more: dict[str, Any]) -> None:
    found = []
    for source in ("info", "method", "observation"):
        algorithm = made(facade, source, **more)
        algorithm.train(240)
        found.append((weights(algorithm), algorithm.evaluate(5).returns))
    assert all(torch.equal(found[0][0], other[0]) for other in found[1:])
    assert found[0][1] == found[1][1] == found[2][1]


def test_subprocesses_learn_what_one_process_does() -> None:
    found = []
    for workers in ("sync", "subprocess"):
        algorithm = made(PPO, "method", workers=workers)
        algorithm.train(144)
        algorithm.close()
        found.append(weights(algorithm))
    assert torch.equal(*found)


def test_rollouts_and_minibatches_have_a_column_of_masks() -> None:
    algorithm = made(PPO, normalize_obs=True)
    collector = algorithm.collector
    for _ in range(3):
        rollout = collector.collect(algorithm.policy, 24)
    masks = rollout.extras["action_mask"]
    assert (masks.dtype, masks.shape) == (torch.bool, (72, 6))
    assert (masks.sum(-1) == 2).all()
    assert masks.gather(1, rollout.actions[:, None]).all()
    seen = 0
    generator = torch.Generator().manual_seed(1)
    for batch in rollout.sample_minibatches(30, generator=generator):
        assert torch.equal(batch.extras["action_mask"], batch.obs[:, 6:] == 1)
        assert batch.extras["action_mask"].gather(1, batch.actions[:, None]).all()
        log_probs, _, values = algorithm.policy.evaluate_actions(batch.obs, batch.actions)
        torch.testing.assert_close(log_probs, batch.log_probs)  # the ratio is 1
        torch.testing.assert_close(values, batch.values)
        seen += len(batch.obs)
    assert seen == 72


def test_rollouts_without_masks_have_no_such_column() -> None:
    algorithm = PPO("CartPole-v1", n_envs=2, n_steps=8)
    assert algorithm.collector.collect(algorithm.policy, 8).extras == {}


def test_training_keeps_the_weights_of_doors_that_never_open() -> None:
    """Two of four doors are never open; their weights do not change."""

    class Half(Masked):
        def open(self) -> Any:
            return np.array([1, 1, 0, 0], np.int8)

    for facade in (PPO, A2C):
        options = {"n_envs": 2, "action_mask": "info", "ent_coef": 0.1, **SMALL[facade]}
        algorithm = facade(lambda: Half(n_actions=4), **options)
        head: Any = algorithm.policy.actor[-1]
        before = head.weight.detach().clone(), head.bias.detach().clone()
        algorithm.train(300)
        assert torch.equal(head.weight[2:], before[0][2:])
        assert torch.equal(head.bias[2:], before[1][2:])
        assert not torch.equal(head.weight[:2], before[0][:2])


class Table(nn.Module):
    """A table of values; the first column of a row gives the index."""

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.values[obs[..., 0].long()]
        return found


@pytest.mark.parametrize(
    ("double", "goals"),
    # r + 0.5 v: in state 1 (actions 0 and 2 allowed) the greatest allowed target value is 3.
    # In state 2 (action 1 alone) it is 4. The online network prefers action 0 in state 1; the target value
    # there is 2. Without the masks the values are 9 and 8.
    # The last row has ended, so its target is its reward, whatever its mask is.
    [(False, [1 + 1.5, 2 + 2.0, 3.0]), (True, [1 + 1.0, 2 + 2.0, 3.0])],
)
def test_a_target_is_of_what_is_allowed_next(double: bool, goals: list[float]) -> None:
    def net(values: list[list[float]]) -> MaskedQPolicy:
        policy = MaskedQPolicy(1, 3, (2,))
        policy.q = Table(values)
        return policy

    online = net([[0.0, 0, 0], [7.0, 9.0, 6.0], [0.0, -5.0, 8.0]])
    config = DQNConfig(double_dqn=double, learning_rate=1e-9)
    learner = DQNLearner(online, net([[0.0] * 3] * 3), config)
    with torch.no_grad():
        learner.target.q.values.copy_(  # type: ignore[operator, union-attr]
            torch.tensor([[0.0, 0, 0], [2.0, 9.0, 3.0], [8.0, 4.0, 8.0]])
        )
    now = [0.0, 1, 1, 1]  # state 0, where all actions are allowed
    batch = Transitions(
        obs=torch.tensor([[now] * 3]),
        actions=torch.tensor([[0, 1, 2]]),
        rewards=torch.tensor([[1.0, 2.0, 3.0]]),
        next_obs=torch.tensor([[[1.0, 1, 0, 1], [2.0, 0, 1, 0], [2.0, 0, 0, 0]]]),
        discounts=torch.tensor([[0.5, 0.5, 0.0]]),
        indices=np.arange(3, dtype=np.uint64)[None],
        weights=torch.ones(1, 3),
    )
    errors = learner.update(batch, Clock(horizon=10)).columns["priorities"]
    assert errors.tolist() == goals  # Q of state 0 is 0


@pytest.mark.parametrize(("n_step", "prioritized"), [(1, False), (3, False), (3, True)])
def test_replay_rows_store_the_masks_of_their_first_and_next_state(n_step: int, prioritized: bool) -> None:
    algorithm = made(DQN, n_step=n_step, prioritized=prioritized, batch_size=64, normalize_obs=True)
    algorithm.train(160)
    batch = algorithm.source.replay_sampler.sample(4, 0.0, 0)
    terminals = cut = 0
    for i in range(4):
        for obs, after, discount in zip(batch.obs[i], batch.next_obs[i], batch.discounts[i], strict=True):
            assert obs[6:].tolist() == doors(obs)
            if discount == 0:
                terminals += 1
                assert after[6:].tolist() == [1.0] * 6
            else:
                assert after[6:].tolist() == doors(after)
                cut += int(after[5]) == 6  # time limit: the mask of the same episode, not the next
    assert cut > 2
    assert terminals > 2


def doors(row: Tensor) -> list[float]:
    """Return the open doors in the state of a stored row, by the rule of `Masked`."""
    place, number = int(row[:4].argmax()), int(row[4])
    first = (2 * place + number) % 6
    return [float(door in (first, (first + 3) % 6)) for door in range(6)]


@KINDS
def test_a_run_that_is_loaded_goes_on_to_the_same_weights(
    facade: Any, more: dict[str, Any], tmp_path: Path
) -> None:
    whole, part = (made(facade, "method", **more) for _ in range(2))
    whole.fit(720)
    # stop in mid-episode and in mid-rollout
    part.fit(720, hooks=(lambda clock, *_: part.stop("half") if clock.now >= 336 else None,))
    part.save(tmp_path / "saved")
    again = facade.from_checkpoint(tmp_path / "saved", lambda: make_masked("method"))
    again.fit(720)
    assert torch.equal(weights(whole), weights(again))
    assert whole.recent.state() == again.recent.state()
    assert again.config.env.action_mask == "method"


def test_predict_takes_masks_of_one_observation_or_of_a_batch() -> None:
    algorithm = made(PPO)
    algorithm.train(72)
    obs = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    for choice in range(6):
        mask = np.eye(6, dtype=bool)[choice]
        assert algorithm.predict(obs[0], action_masks=mask) == choice
        assert algorithm.predict(obs[0], False, mask.astype(int).tolist()) == choice
    assert algorithm.predict(obs, action_masks=np.eye(6)).tolist() == list(range(6))
    # without a mask every action is allowed
    free = algorithm.predict(obs)
    assert free.tolist() == algorithm.predict(obs, action_masks=np.ones((6, 6))).tolist()
    assert len({algorithm.predict(obs[0], deterministic=False) for _ in range(80)}) == 6


def test_predict_finds_a_mask_that_is_part_of_the_observation() -> None:
    algorithm = made(DQN, "observation")
    obs = np.zeros((6, 6), np.float32)
    one = {"observation": obs[0], "action_mask": np.eye(6, dtype=np.int8)[4]}
    assert algorithm.predict(one) == 4
    batch = {"observation": obs, "action_mask": np.eye(6)}
    assert algorithm.predict(batch).tolist() == list(range(6))
    assert algorithm.predict([one, one]).tolist() == [4, 4]
    with pytest.raises(ConfigError, match="are part 'action_mask' of the observations"):
        algorithm.predict(one, action_masks=np.ones(6))
    with pytest.raises(ShapeError, match="expected"):
        algorithm.predict({"observation": obs[0]})
    with pytest.raises(ShapeError, match="part 'action_mask' of the observation allows no action"):
        algorithm.predict({**one, "action_mask": np.zeros(6)})


@pytest.mark.parametrize(
    ("masks", "told"),
    [
        (np.ones(5), "action_masks has shape [5], expected [6] of 0 and 1"),
        (np.ones((2, 6)), "action_masks has shape [2, 6], expected [6]"),
        (np.full(6, 2), "action_masks has 2, expected [6]"),
        (np.zeros(6), "action_masks allows no action"),
        (np.ma.array(np.ones(6), mask=np.eye(6)[0]), "action_masks is a masked array: some of it"),
    ],
)
def test_predict_refuses_invalid_masks(masks: Any, told: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(told)):
        made(A2C).predict(np.zeros(6), action_masks=masks)


def test_a_policy_without_masks_takes_none() -> None:
    with pytest.raises(ConfigError, match="made without masks"):
        PPO("CartPole-v1").predict(np.zeros(4), action_masks=[1, 1])


@pytest.mark.parametrize("sources", [("none", "info"), ("info", "none")])
def test_weights_of_a_run_begin_one_with_masks_and_one_without(
    sources: tuple[str, str], tmp_path: Path
) -> None:
    first = made(PPO, strict=False, action_mask=sources[0])
    first.save(tmp_path / "first")
    begun = made(PPO, strict=False, action_mask=sources[1], seed=5, init_from=tmp_path / "first")
    assert torch.equal(weights(first), weights(begun))


def test_a_recording_has_what_is_seen_without_the_masks() -> None:
    algorithm = made(PPO)
    dataset = record(algorithm, 3, env=lambda: make_masked("info"))
    assert dataset.columns["obs"].shape[1:] == dataset.columns["next_obs"].shape[1:] == (6,)
    with pytest.raises(ConfigError, match="bc does not support action masks"):
        BC(env_id=lambda: make_masked("info"), action_mask="info")


def test_a_collector_of_ones_own_has_masked_rows() -> None:
    config = EnvConfig(id=BY_METHOD, n_envs=2, action_mask="method")
    collector = RolloutCollector(BY_METHOD, config=config)
    rollout = collector.collect(MaskedDiscretePolicy(6, 6), 16)
    assert rollout.obs.shape == (32, 12)
    assert rollout.extras["action_mask"].gather(1, rollout.actions[:, None]).all()
