"""Tests that twenty native updates on datasets equal literal transcriptions of the papers, in float64.

The reference of cloning is torch's autograd, clipping and Adam.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from parity import test_offline as papers
from parity.ours_replayed import CRITICS
from parity.test_offline import ACT, BATCH, GAMMA, HIDDEN, LIMIT, LR, OBS, TAU, UPDATES
from parity.transcriptions.iql import IQL
from parity.transcriptions.td3_bc import TD3BC
from rlox._core import Explorer, OffPolicyEngine
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnknownNameError
from rlox.optim import FlatParameters
from rlox.policies.actors import CategoricalActor, GaussianActor
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy

CLOSE = 1e-9  # of the norm
A = NDArray[Any]


def adams(module: nn.Module) -> tuple[A, A, A, A]:
    """Return the module's own memory, the moments and the step count."""
    vector = FlatParameters(module).vector.numpy()
    return vector, np.zeros_like(vector), np.zeros_like(vector), np.zeros(1, np.int64)


def shapes(module: nn.Module, prefix: str = "", without: str = "") -> list[Any]:
    """Return the names and shapes that an engine takes."""
    named = module.named_parameters()
    return [
        (name if name == "log_std" else prefix + name.removeprefix(without), tuple(p.shape))
        for name, p in named
    ]


def columns(batch: dict[str, Any]) -> list[A]:
    discounts = torch.where(batch["terminated"], 0.0, GAMMA).double()
    names = ("obs", "actions", "rewards", "next_obs")
    return [*(batch[name].numpy()[None] for name in names), discounts.numpy()[None]]


SHAPE: dict[str, Any] = {
    "obs_dim": OBS,
    "size": ACT,
    "members": CRITICS,
    "actor": HIDDEN,
    "critic": HIDDEN,
    "activation": "relu",
    "precision": "f64",
}


def td3_bc(**changed: Any) -> float:
    data = papers.numbers()
    policy, weights = papers.start(DeterministicPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu"))
    settings = {"alpha": 1.7, "policy_delay": 2, "target_noise_clip": 0.5}
    paper = TD3BC(weights, {**papers.PAPER, **settings})
    networks = {"actor": shapes(policy.actor, "actor."), "critic": shapes(policy.critic)}
    engine = OffPolicyEngine("td3", networks, **SHAPE)
    actor, critic = adams(policy.actor), adams(policy.critic)
    targets = {"actor": actor[0].copy(), "critic": critic[0].copy()}
    given = {
        "learning_rate": LR, "tau": TAU, "policy_delay": 2, "target_noise": 1.0, "noise_clip": 0.5,
        "max_grad_norm": LIMIT, "alpha": 1.7, **changed,
    }  # fmt: skip
    for i, batch in enumerate(data):
        paper.train(batch)
        noise = batch["noise_target"].numpy()[None]
        errors = np.zeros((1, BATCH))
        learned = {"actor": actor, "critic": critic}
        engine.learn(learned, targets, *columns(batch), errors, noise, first=i, **given)
    ours = papers.joined(papers.apart(policy.state_dict()))
    return papers.apart_by((ours, papers.joined(paper.weights)))


def iql_engine(policy: IQLPolicy) -> OffPolicyEngine:
    networks = {
        "actor": shapes(policy.actor, "actor.", "net."),
        "critic": shapes(policy.critic),
        "value": shapes(policy.value, "value."),
    }
    return OffPolicyEngine("iql", networks, **SHAPE)


def iql(**changed: Any) -> float:
    data = papers.numbers()
    policy, weights = papers.start(IQLPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu"))
    settings = {"expectile": 0.8, "temperature": 2.0, "total": UPDATES}
    paper = IQL(weights, {**papers.PAPER, **settings})
    actor, critic, value = (adams(m) for m in (policy.actor, policy.critic, policy.value))
    engine = iql_engine(policy)
    target = {"critic": critic[0].copy()}
    learned = {"actor": actor, "critic": critic, "value": value}
    given = {
        "learning_rate": LR, "tau": TAU, "expectile": 0.8, "temperature": 2.0, "max_weight": 100.0,
        "max_grad_norm": LIMIT, **changed,
    }  # fmt: skip
    for i, batch in enumerate(data):
        paper.train(batch)
        falls = 0.5 * (1 + math.cos(math.pi * i / UPDATES))
        errors = np.zeros((1, BATCH))
        rate = {"actor_learning_rate": LR * falls}
        engine.learn(learned, target, *columns(batch), errors, **rate, **given)
        assert (errors > 0).all()
    ours = papers.joined(papers.apart(policy.state_dict()))
    return papers.apart_by((ours, papers.joined(paper.weights)))


@pytest.mark.parametrize("algo", [td3_bc, iql])
def test_twenty_native_td3_bc_and_iql_updates_equal_the_papers(algo: Any) -> None:
    assert algo() < CLOSE


@pytest.mark.parametrize(
    ("algo", "changed"),
    [
        (td3_bc, {"alpha": 1.6}),
        (td3_bc, {"alpha": None}),
        (td3_bc, {"policy_delay": 1}),
        (td3_bc, {"max_grad_norm": None}),
        (iql, {"expectile": 0.7}),
        (iql, {"temperature": 1.9}),
        (iql, {"max_weight": 1.5}),
        (iql, {"tau": 0.2}),
        (iql, {"max_grad_norm": None}),
    ],
)
def test_native_offline_updates_depend_on_every_setting(algo: Any, changed: dict[str, Any]) -> None:
    assert algo(**changed) > 1e-5


def clone(engine: OffPolicyEngine, state: Any, obs: A, taken: A, **settings: Any) -> dict[str, float]:
    """Learn from batches of observations and actions; cloning reads no other column."""
    settings = {"squared": False, "max_grad_norm": None} | settings
    other, errors = np.zeros(obs.shape[:2]), np.full(obs.shape[:2], 3.0, state[0].dtype)
    metrics = engine.learn({"policy": state}, {}, obs, taken, other, obs, other, errors, **settings)
    assert (errors == 3.0).all()
    return metrics


@pytest.mark.parametrize("number", range(24))
def test_native_cloning_equals_autograd(number: int) -> None:
    """Compare choices, vectors and their squared error, with several batches in a call."""
    draw = np.random.default_rng(number)
    kind, activation = (
        ("choices", "numbers", "mse")[number % 3],
        ("relu", "tanh", "elu", "silu")[number % 4],
    )
    k, rows, obs_dim, size = (int(n) for n in draw.integers(2, 9, 4))
    hidden = [int(w) for w in draw.integers(1, 20, int(draw.integers(0, 3)))]
    norm = (None, 0.1, 50.0)[number // 3 % 3]
    torch.manual_seed(number)
    made: Any = CategoricalActor if kind == "choices" else GaussianActor
    policy = made(obs_dim, size, hidden, activation).double()
    obs = draw.normal(size=(k, rows, obs_dim))
    taken = draw.integers(0, size, (k, rows)) if kind == "choices" else draw.normal(size=(k, rows, size))
    engine = OffPolicyEngine(
        "bc", {"policy": shapes(policy)}, gaussian=kind != "choices", size=size, obs_dim=obs_dim,
        hidden=hidden, activation=activation, precision="f64",
    )  # fmt: skip
    state = adams(policy)
    before = state[0].copy()
    settings = {
        "learning_rate": 0.01,
        "squared": kind == "mse",
        "max_grad_norm": norm,
        "adam_eps": 1e-3,
    }
    told = clone(engine, state, obs, taken, **settings)
    ours = state[0].copy()
    state[0][:] = before
    adam = torch.optim.Adam(policy.parameters(), 0.01, eps=1e-3)
    rows_of: list[list[float]] = []
    for seen, done in zip(torch.from_numpy(obs), torch.from_numpy(taken), strict=True):
        log_prob, best = policy.score(seen, done)
        loss = (best - done).square().mean() if kind == "mse" else -log_prob.mean()
        fit = (best == done).double().mean() if kind == "choices" else (best - done).abs().mean()
        adam.zero_grad()
        loss.backward()
        most = math.inf if norm is None else norm
        found = nn.utils.clip_grad_norm_(policy.parameters(), most)
        adam.step()
        rows_of.append([float(loss.detach()), float(fit.detach()), float(found)])
    theirs = FlatParameters(policy).vector.numpy()
    assert np.linalg.norm(ours - theirs) < 1e-9 * np.linalg.norm(theirs)
    assert np.linalg.norm(ours - before) > 1e-4
    names = ("loss", "fit", "grad_norm")
    np.testing.assert_allclose([told[n] for n in names], np.mean(rows_of, axis=0), rtol=1e-9)
    assert state[3].tolist() == [k]


def cloner(
    kind: str = "numbers",
) -> tuple[OffPolicyEngine, tuple[A, A, A, A], GaussianActor | CategoricalActor]:
    made: Any = CategoricalActor if kind == "choices" else GaussianActor
    policy = made(3, 2, [4], "tanh")
    engine = OffPolicyEngine(
        "bc", {"policy": shapes(policy)}, gaussian=kind != "choices", size=2, obs_dim=3, hidden=[4],
        activation="tanh",
    )  # fmt: skip
    return engine, adams(policy), policy


def test_native_cloning_refuses_invalid_batches_and_changes_no_weight() -> None:
    engine, state, _ = cloner()
    before = state[0].copy()
    obs, taken = np.zeros((2, 5, 3), np.float32), np.zeros((2, 5, 2), np.float32)
    for arguments, error, said in (
        ((state, obs[..., :2], taken), ShapeError, "obs"),
        ((state, obs, taken[..., :1]), ShapeError, "actions"),
        ((state[:3], obs, taken), ConfigError, "policy"),
        ((state, obs[:, :0], taken[:, :0]), ConfigError, "at least 1"),
    ):
        with pytest.raises(error, match=said):
            clone(engine, *arguments, learning_rate=0.1)
    with pytest.raises(ConfigError, match="learning_rate"):
        clone(engine, state, obs, taken, learning_rate=-1.0)
    with pytest.raises(UnknownNameError, match='unknown network with a target "policy"'):
        columns = (obs, taken, np.zeros((2, 5)), obs, np.zeros((2, 5)), np.zeros((2, 5), np.float32))
        settings = {"learning_rate": 0.1, "max_grad_norm": None, "squared": False}
        engine.learn({"policy": state}, {"policy": state[0].copy()}, *columns, **settings)
    with pytest.raises(NonFiniteError, match="loss"):
        clone(engine, state, obs, taken * np.float32(np.nan), learning_rate=0.1)
    np.testing.assert_array_equal(state[0], before)
    choices, of_choices, _ = cloner("choices")
    with pytest.raises(ConfigError, match="action of row 1"):
        clone(choices, of_choices, obs[:1], np.array([[0, 2, 0, 0, 0]]), learning_rate=0.1)
    with pytest.raises(ConfigError, match="squared"):
        clone(choices, of_choices, obs, np.zeros((2, 5), int), learning_rate=0.1, squared=True)


@pytest.mark.parametrize("kind", ["numbers", "choices"])
def test_the_explorer_of_a_cloned_policy_takes_its_best_actions(kind: str) -> None:
    engine, state, policy = cloner(kind)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    outputs = policy.net(torch.from_numpy(obs)).detach().numpy()
    if kind == "choices":
        choices = np.full(50, -1)
        Explorer(engine).act(state[0], obs, choices)
        np.testing.assert_array_equal(choices, outputs.argmax(1))
    else:
        vectors = np.zeros((50, 2), np.float32)
        Explorer(engine).act(state[0], obs, vectors, np.ones_like(vectors))
        np.testing.assert_allclose(vectors, outputs, atol=1e-6)


def test_a_native_iql_update_names_the_minibatch_of_a_nan() -> None:
    policy = IQLPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu").double()
    engine = iql_engine(policy)
    learned = {name: adams(getattr(policy, name)) for name in ("actor", "critic", "value")}
    target = {"critic": learned["critic"][0].copy()}
    batch = columns(papers.numbers()[0])
    batch[2] = batch[2] * np.nan
    given = {
        "learning_rate": LR,
        "actor_learning_rate": LR,
        "tau": TAU,
        "expectile": 0.8,
        "temperature": 2.0,
        "max_grad_norm": None,
    }
    with pytest.raises(ConfigError, match="weights is an array, expected None"):
        errors = np.zeros((1, BATCH))
        engine.learn(learned, target, *batch, errors, None, np.ones((1, BATCH)), max_weight=1.0, **given)
    with pytest.raises(NonFiniteError, match="critic loss by minibatch"):
        engine.learn(learned, target, *batch, np.zeros((1, BATCH)), max_weight=100.0, **given)
