"""Tests the inputs, training rows and target return of a Decision Transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlox import OfflineDatasetBuffer
from rlox.algorithms import DecisionTransformer
from rlox.algorithms.decision_transformer import DecisionTransformerLearner
from rlox.configs import DecisionTransformerConfig, make
from rlox.errors import CheckpointError, ConfigError, UnsupportedSpaceError
from rlox.optim import AdamW
from rlox.policies.decision_transformer import DecisionTransformerPolicy
from rlox.rng import Streams
from rlox.sources.sub_trajectories import SubTrajectories
from rlox.types import Clock


class Several(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.MultiDiscrete([2, 2])


DATA = Path(__file__).parents[2] / "golden" / "datasets"
CARTPOLE, PENDULUM = str(DATA / "CartPole-v1"), str(DATA / "Pendulum-v1")
OBS, ACT, LENGTH = 3, 2, 5
SMALL: dict[str, Any] = {"context_length": 4, "hidden": 8, "n_layers": 1, "batch_size": 8}


def policy(choices: bool = False, dropout: float = 0.0) -> DecisionTransformerPolicy:
    torch.manual_seed(0)
    return DecisionTransformerPolicy(OBS, ACT, choices, 8, 2, 2, dropout, 50)


def stretches(choices: bool = False, n: int = 1, size: int = 6) -> SubTrajectories:
    """Return sub-trajectories; the last two steps of every second one are padding."""
    g = torch.Generator().manual_seed(1)
    shape = (n, size, LENGTH)
    actions = (
        torch.randint(ACT, shape, generator=g) if choices else torch.rand(*shape, ACT, generator=g) * 2 - 1
    )
    mask = torch.ones(shape, dtype=torch.bool)
    mask[:, ::2, -2:] = False
    returns = torch.randn(shape, generator=g) * 100
    obs, times = torch.randn(*shape, OBS, generator=g), torch.arange(LENGTH).expand(shape)
    return SubTrajectories(obs, actions, returns, times, mask)


def said(model: DecisionTransformerPolicy, given: SubTrajectories) -> Tensor:
    with torch.no_grad():
        out: Tensor = model.eval()(
            given.returns[0] * 0.01, given.obs[0], given.actions[0], given.timesteps[0]
        )
    return out


def test_later_timesteps_do_not_change_earlier_outputs_of_the_transformer() -> None:
    model, given = policy(), stretches()
    before = said(model, given)
    for t in range(LENGTH):
        for name in ("returns", "obs", "actions"):
            changed = {n: getattr(given, n).clone() for n in ("returns", "obs", "actions")}
            later = t if name == "actions" else t + 1  # an output does not see its own action
            changed[name][:, :, later:] += 1.0
            other = said(model, SubTrajectories(**changed, timesteps=given.timesteps, mask=given.mask))
            torch.testing.assert_close(other[:, : t + 1], before[:, : t + 1])
            if name != "actions" and later < LENGTH:
                assert not torch.allclose(other[:, later:], before[:, later:])


def test_the_first_output_of_the_transformer_depends_on_the_target_return() -> None:
    model, given = policy(), stretches()
    before = said(model, given)
    given.returns[0, :, 0] += 50.0
    assert not torch.allclose(said(model, given)[:, 0], before[:, 0])


def by_hand(model: DecisionTransformerPolicy, given: SubTrajectories, i: int) -> tuple[Tensor, Tensor]:
    """Return the loss and the outputs of one batch, computed one sub-trajectory at a time without padding."""
    outputs, targets = [], []
    for row in range(given.obs.shape[1]):
        steps = int(given.mask[i, row].sum())
        tokens = []
        for t in range(steps):
            when = model.of_timestep(given.timesteps[i, row, t])
            tokens += [
                model.of_return((given.returns[i, row, t] * 0.01)[None]) + when,
                model.of_obs(given.obs[i, row, t]) + when,
                model.of_action(given.actions[i, row, t]) + when,
            ]
        x = model.norm(torch.stack(tokens))
        for block in model.transformer.blocks:
            x = x + attended(block, block.before(x))
            x = x + block.back(torch.relu(block.wider(block.between(x))))
        x = model.head(model.transformer.norm(x))[1::3]
        outputs.append(x if model.is_discrete else torch.tanh(x))
        targets.append(given.actions[i, row, :steps])
    found, target = torch.cat(outputs), torch.cat(targets)
    if model.is_discrete:
        return nn.CrossEntropyLoss()(found, target), found
    return ((found - target) ** 2).mean(), found


def attended(block: Any, x: Tensor) -> Tensor:
    """Attend from each token to itself and the tokens before it, one head at a time."""
    query, key, value = block.attention(x).chunk(3, -1)
    width = x.shape[-1] // block.n_heads
    heads = []
    for head in range(block.n_heads):
        part = slice(head * width, (head + 1) * width)
        rows = []
        for t in range(len(x)):
            scores = key[: t + 1, part] @ query[t, part] / width**0.5
            rows.append(torch.softmax(scores, 0) @ value[: t + 1, part])
        heads.append(torch.stack(rows))
    out: Tensor = block.joined(torch.cat(heads, -1))
    return out


@pytest.mark.parametrize("choices", [False, True])
def test_updates_are_those_of_a_transformer_by_hand_in_float64(choices: bool) -> None:
    given = stretches(choices, n=20)
    rows = {n: getattr(given, n).double() for n in ("returns", "obs")}
    actions = given.actions if choices else given.actions.double()
    given = SubTrajectories(**rows, actions=actions, timesteps=given.timesteps, mask=given.mask)
    ours, twin = policy(choices).double(), policy(choices).double()
    settings = {"dropout": 0.0, "warmup_updates": 5, "return_scale": 0.01, "learning_rate": 1e-2}
    config = make(DecisionTransformerConfig, {**settings, "weight_decay": 0.1})
    learner = DecisionTransformerLearner(ours, config, Streams(1))
    optimizer = torch.optim.AdamW(twin.parameters(), 1e-2, weight_decay=0.1, eps=1e-8)
    losses = []
    for i in range(20):
        loss, _ = by_hand(twin, given, i)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.25)
        optimizer.param_groups[0]["lr"] = 1e-2 * min(1.0, (i + 1) / 5)
        optimizer.step()
    update = learner.update(given, Clock(unit="updates", horizon=100))
    assert update.metrics["loss/policy"] == pytest.approx(np.mean(losses), rel=1e-6)
    assert (update.count, update.samples) == (20, int(given.mask.sum()))
    apart = torch.cat([(a - b).flatten() for a, b in zip(ours.parameters(), twin.parameters(), strict=True)])
    norm = torch.cat([p.flatten() for p in twin.parameters()]).norm()
    assert float((apart.norm() / norm).detach()) < 1e-6


def test_five_steps_of_adamw_equal_those_of_torchs_adamw() -> None:
    torch.manual_seed(0)
    ours, twin = nn.Linear(4, 3), nn.Linear(4, 3)
    twin.load_state_dict(ours.state_dict())
    mine = AdamW(ours, 0.1, weight_decay=0.3, eps=1e-8)
    theirs = torch.optim.AdamW(twin.parameters(), 0.1, weight_decay=0.3, eps=1e-8)
    for _ in range(5):
        x = torch.randn(6, 4)
        mine.backward(ours(x).square().mean(), None)
        mine.step()
        theirs.zero_grad()
        twin(x).square().mean().backward()
        theirs.step()
    for a, b in zip(ours.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_dropout_masks_depend_only_on_the_seed_and_the_update_number() -> None:
    def learned(parts: list[slice], seed: int = 1) -> Tensor:
        model = policy(dropout=0.5)
        config = make(DecisionTransformerConfig, {"dropout": 0.5, "warmup_updates": 0})
        learner = DecisionTransformerLearner(model, config, Streams(seed))
        data = stretches(n=4)
        for part in parts:
            names = ("obs", "actions", "returns", "timesteps", "mask")
            some = SubTrajectories(**{name: getattr(data, name)[part] for name in names})
            learner.update(some, Clock(updates=part.start, unit="updates", horizon=100))
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    whole = learned([slice(0, 4)])
    assert torch.equal(whole, learned([slice(0, 1), slice(1, 4)]))
    assert not torch.equal(whole, learned([slice(0, 4)], seed=2))


def test_a_decision_transformer_updates_return_to_go_and_keeps_its_last_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm = DecisionTransformer(PENDULUM, env_id="Pendulum-v1", target_return=-500.0, **SMALL)
    algorithm.train(1)
    seen: list[tuple[Tensor, ...]] = []
    forward = algorithm.policy.forward

    def told(*given: Tensor) -> Tensor:
        seen.append(tuple(part.clone() for part in given))
        out: Tensor = forward(*given)
        return out

    monkeypatch.setattr(algorithm.policy, "forward", told)
    actor = algorithm.components.actor
    player, rewards = actor.make_player(1), [-1.0, -20.0, -3.0, -40.0, -5.0, -6.0]
    rows = np.random.default_rng(0).normal(size=(6, 1, 3)).astype(np.float32)
    done = []
    with actor.inference_mode():
        for row, reward in zip(rows, rewards, strict=True):
            done.append(np.asarray(player.act(row))[0] / 2.0)  # torques go up to 2
            player.observe_rewards([reward])
    left = -500.0 - np.concatenate([[0.0], np.cumsum(rewards)[:-1]])
    returns, obs, actions, times = (part[0].numpy() for part in seen[-1])
    np.testing.assert_allclose(returns, 1e-3 * left[2:], rtol=1e-5)
    np.testing.assert_allclose(obs, actor.normalize(rows[2:, 0]), rtol=1e-5)
    np.testing.assert_allclose(actions[:-1], np.stack(done[2:5]), atol=1e-6)
    assert times.tolist() == [2, 3, 4, 5]
    second = [part[0].numpy() for part in seen[1]]
    np.testing.assert_allclose(second[0][:2], [-0.5, -0.499], rtol=1e-5)
    assert second[3][:2].tolist() == [0, 1]


def test_a_decision_transformer_keeps_parallel_episodes_separate() -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL)
    algorithm.train(16)
    actor = algorithm.components.actor
    rows = np.random.default_rng(0).normal(size=(7, 3, 4)).astype(np.float32)

    def alone(place: int, first: int) -> list[int]:
        player, found = actor.make_player(1), []
        for t in range(first, 7):
            found.append(int(player.act(rows[t, [place]])[0]))
            player.observe_rewards([1.0 + place])
        return found

    with actor.inference_mode():
        together = actor.make_player(3)
        found: list[list[int]] = [[], [], []]
        for t in range(5):
            if t == 3:
                together.reset_slot(1)
            for place, action in enumerate(together.act(rows[t])):
                found[place].append(int(action))
            together.observe_rewards([1.0, 2.0, 3.0])
        together.select_slots([1, 2])
        for t in (5, 6):
            for place, action in zip((1, 2), together.act(rows[t][[1, 2]]), strict=True):
                found[place].append(int(action))
            together.observe_rewards([2.0, 3.0])
        assert found[1][3:] == alone(1, 3)
        assert found[2] == alone(2, 0)
        assert found[0] == alone(0, 0)[:5]


def test_the_target_return_defaults_to_the_datasets_highest_return(tmp_path: Path) -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL)
    algorithm.train(16)
    rewards = algorithm.source.load().stats()["max_return"]
    assert algorithm.components.actor.target_return.value == rewards
    algorithm.save(tmp_path / "saved")
    alone = DecisionTransformer.from_checkpoint(tmp_path / "saved", replay=False)
    assert alone.components.actor.target_return.value == rewards
    assert alone.evaluate(3).returns == algorithm.evaluate(3).returns
    alone.ask(7.0)
    assert alone.components.actor.target_return.value == 7.0
    alone.save(tmp_path / "asked")
    again = DecisionTransformer.from_checkpoint(tmp_path / "asked", replay=False)
    assert again.components.actor.target_return.value == rewards  # not saved
    obs = np.zeros((2, 4), np.float32)
    assert algorithm.predict(obs, target_return=3.0).shape == (2,)
    assert isinstance(algorithm.predict(obs[0]), int)


def test_a_decision_transformer_achieves_the_target_return_in_a_bandit() -> None:
    """The return equals the action, so a target return of 1 gives action 1, and 0 gives 0."""
    rng = np.random.default_rng(0)
    obs, taken = rng.normal(size=(600, 1)).astype(np.float32), rng.integers(0, 2, 600)
    yes, no = np.ones(600, bool), np.zeros(600, bool)
    data = OfflineDatasetBuffer(obs, obs, taken, taken.astype(np.float32), yes, no)
    more = {
        **SMALL,
        "warmup_updates": 0,
        "return_scale": 1.0,
        "learning_rate": 1e-2,
        "dropout": 0.0,
    }
    algorithm = DecisionTransformer(data, 1, 2, continuous=False, **more)
    algorithm.train(100)
    rows = rng.normal(size=(40, 1)).astype(np.float32)
    for wish in (0, 1):
        assert (algorithm.predict(rows, target_return=wish) == wish).all()
    assert (algorithm.predict(rows) == 1).all()


class Chosen(gym.Env[Any, Any]):
    """Six steps with equal observations; action 1 pays 1."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    steps = 6

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.left = self.steps
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(1, np.float32), float(action), self.left == 0, False, {}


def test_a_decision_transformer_collects_exactly_its_target_return_over_steps() -> None:
    rng = np.random.default_rng(0)
    often = np.repeat(rng.random(500), Chosen.steps)
    taken = (rng.random(often.size) < often).astype(np.int64)
    obs, no = np.zeros((often.size, 1), np.float32), np.zeros(often.size, bool)
    ends = np.arange(often.size) % Chosen.steps == Chosen.steps - 1
    data = OfflineDatasetBuffer(obs, obs, taken, taken.astype(np.float32), ends, no)
    more = {"return_scale": 0.2, "learning_rate": 3e-3, "dropout": 0.0, "batch_size": 32}
    sizes = {"context_length": 6, "hidden": 16, "n_layers": 1, "warmup_updates": 0}
    algorithm = DecisionTransformer(data, env_id=Chosen, **sizes, **more)
    algorithm.train(400)
    paid = []
    for wish in range(Chosen.steps + 1):
        algorithm.ask(float(wish))
        paid.append(algorithm.evaluate(1).mean)
    assert paid == list(range(Chosen.steps + 1))


def test_a_decision_transformer_refuses_datasets_and_spaces_it_cannot_learn() -> None:
    with pytest.raises(ConfigError, match=r"algo\.max_timesteps=9: an episode .* set algo\.max_time"):
        DecisionTransformer(PENDULUM, env_id="Pendulum-v1", max_timesteps=9, **SMALL)
    with pytest.raises(ConfigError, match=r"expected algo\.hidden to be a multiple of 3"):
        DecisionTransformer(PENDULUM, env_id="Pendulum-v1", n_heads=3, **SMALL)
    obs, no = np.zeros((8, 1), np.float32), np.zeros(8, bool)
    endless = OfflineDatasetBuffer(obs, obs, np.zeros(8, np.int64), np.zeros(8), no, no)
    with pytest.raises(ConfigError, match="no episode of the dataset ends"):
        DecisionTransformer(endless, 1, 2, continuous=False, **SMALL)
    with pytest.raises(UnsupportedSpaceError, match=r"decision_transformer needs Discrete or Box"):
        DecisionTransformer(PENDULUM, env_id=Several, **SMALL)


def episodes() -> dict[str, Any]:
    """Return two episodes of 20 and 12 steps and 8 steps of an unfinished one; row k has observation k."""
    k = np.arange(40)
    return {
        "obs": np.stack([k, -k, 0 * k], 1).astype(np.float32),
        "next_obs": np.stack([k + 1, -k - 1, 0 * k], 1).astype(np.float32),
        "actions": np.stack([np.sin(k), np.cos(k)], 1).astype(np.float32) * 2.0,
        "rewards": -np.ones(40, np.float32),
        "terminated": k == 19,
        "truncated": k == 31,
    }


def test_sub_trajectories_contain_only_rows_of_complete_episodes() -> None:
    given = episodes()
    data = OfflineDatasetBuffer(**given)
    algorithm = DecisionTransformer(data, 3, 2, act_high=2.0, **SMALL)
    batch, _ = algorithm.source.next(Clock(unit="updates"))
    mean, std = given["obs"].mean(0), given["obs"].std(0) + 1e-3
    rows = np.rint(batch.obs[..., 0].numpy() * std[0] + mean[0]).astype(int)
    mask = batch.mask.numpy()
    assert not np.array_equal(rows[0], rows[1])
    rows = rows[mask]
    assert set(rows) == set(range(32))
    expected = (given["obs"][rows] - mean) / std
    np.testing.assert_allclose(batch.obs.numpy()[mask], expected, atol=1e-5)
    np.testing.assert_allclose(batch.actions.numpy()[mask], given["actions"][rows] / 2.0, atol=1e-6)
    begin, end = np.where(rows < 20, 0, 20), np.where(rows < 20, 20, 32)
    np.testing.assert_array_equal(batch.timesteps.numpy()[mask], rows - begin)
    np.testing.assert_allclose(batch.returns.numpy()[mask], rows - end)
    assert algorithm.components.actor.target_return.dataset_return == -12.0
    again, _ = algorithm.source.next(Clock(unit="updates"))
    assert not torch.equal(again.obs, batch.obs)


def test_a_checkpoint_of_another_highest_return_is_refused() -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL)
    algorithm.train(16)
    saved = algorithm.checkpoint()
    saved.state["source"]["best_return"] += 1.0
    with pytest.raises(CheckpointError, match="the highest return was"):
        DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL).restore(saved)


def test_evaluate_subtracts_rewards_from_the_return_to_go_of_a_transformer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", target_return=30.0, **SMALL)
    metrics = algorithm.train(16)
    assert metrics["policy/target_return"] == 30.0
    asked: list[float] = []
    forward = algorithm.policy.forward

    def told(returns: Tensor, *rest: Tensor) -> Tensor:
        asked.append(float(returns.max()))
        out: Tensor = forward(returns, *rest)
        return out

    monkeypatch.setattr(algorithm.policy, "forward", told)
    played = algorithm.evaluate(1)
    assert len(asked) == played.lengths[0]
    first = [0.03, 0.03, 0.03, 0.03, 0.029, 0.028]  # the highest target of the last 4 steps
    np.testing.assert_allclose(asked[:6], first, rtol=1e-5)


@pytest.mark.parametrize("wrong", ["x", float("nan"), float("inf"), True])
def test_a_decision_transformer_refuses_a_target_return_that_is_no_number(wrong: Any) -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL)
    with pytest.raises(ConfigError, match="expected a finite number"):
        algorithm.ask(wrong)
    with pytest.raises(ConfigError, match="expected a finite number"):
        algorithm.predict(np.zeros(4, np.float32), target_return=wrong)


@pytest.mark.parametrize("setting", [{"n_heads": 2}, {"return_scale": 1.0}, {"context_length": 3}])
def test_init_from_refuses_weights_with_other_heads_return_scale_or_context(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    given = {"env_id": "CartPole-v1", **SMALL}
    DecisionTransformer(CARTPOLE, **{**given, **setting}).save(tmp_path / "saved")
    (name, value), begun = next(iter(setting.items())), {**given, "init_from": tmp_path / "saved"}
    with pytest.raises(ConfigError, match=rf"has algo\.{name}={value}, .*; set algo\.{name}={value}$"):
        DecisionTransformer(CARTPOLE, **begun)
    DecisionTransformer(CARTPOLE, **{**begun, **setting}, learning_rate=1e-5, dropout=0.0)


def test_a_decision_transformer_refuses_action_masks() -> None:
    algorithm = DecisionTransformer(CARTPOLE, env_id="CartPole-v1", **SMALL)
    for masks in ([0, 0], [[0, 1]]):
        with pytest.raises(ConfigError, match="this policy was made without masks"):
            algorithm.predict(np.zeros((len(masks), 4), np.float32), action_masks=masks)
