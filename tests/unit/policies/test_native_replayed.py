"""Tests Rust policies of off-policy algorithms: their torch module shares their memory."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlox.algorithms import DDPG, DQN, SAC, TD3
from rlox.errors import CheckpointError, ConfigError
from rlox.optim import TargetNetwork
from rlox.parameters.optimizer import NativeTargetNetwork
from rlox.policies.value_distribution import QuantileValue

SMALL: dict[str, Any] = {
    "n_envs": 2, "seed": 4, "net_arch": (9, 8), "batch_size": 16, "learning_starts": 32,
    "buffer_size": 256,
}  # fmt: skip
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "values": (DQN, {"env_id": "CartPole-v1"}),
    "dueling": (DQN, {"env_id": "CartPole-v1", "dueling": True}),
    "dueling, one layer": (DQN, {"env_id": "CartPole-v1", "dueling": True, "net_arch": (9,)}),
    "squashed": (SAC, {"env_id": "Pendulum-v1"}),
    "deterministic": (TD3, {"env_id": "Pendulum-v1", "critic_net_arch": (7,)}),
    "one critic": (DDPG, {"env_id": "Pendulum-v1"}),
}
OF_KINDS = pytest.mark.parametrize("kind", KINDS)


def made(kind: str, backend: str = "native", **options: Any) -> Any:
    facade, own = KINDS[kind]
    return facade(**{**SMALL, **own, "backend": backend, **options})


def observations(run: Any, count: int) -> Any:
    size = run.components.source.env.observations.dim
    return np.random.default_rng(1).normal(size=(count, size)).astype(np.float32)


@OF_KINDS
def test_a_native_off_policy_learner_starts_with_the_state_of_its_torch_twin(kind: str) -> None:
    native, torchs = made(kind), made(kind, "torch")
    found, expected = native.learner.native.state_dict(), torchs.policy.state_dict()
    assert list(found) == list(expected)
    for name, view in found.items():
        np.testing.assert_array_equal(view, expected[name].numpy())
    state, theirs = native.learner.state(), torchs.learner.state()
    assert layout(state) == layout(theirs)


def layout(tree: Any) -> Any:
    """Returns the names of a tree and the shapes of its arrays."""
    if isinstance(tree, dict):
        return {name: layout(value) for name, value in tree.items()}
    return tuple(np.shape(tree))


@OF_KINDS
def test_the_module_has_the_memory_of_the_vectors(kind: str) -> None:
    run = made(kind)
    run.train(80)
    native = run.learner.native
    assert native._module is None
    named = dict(run.policy.named_parameters())
    assert list(named) == list(native.state_dict())
    for name, view in native.state_dict().items():
        view += 1.0
        np.testing.assert_array_equal(named[name].detach().numpy(), view)
    with torch.no_grad():
        for parameter in named.values():
            parameter.fill_(7.0)
    assert all((view == 7.0).all() for view in native.state_dict().values())
    run.train(160)
    assert not all((view == 7.0).all() for view in native.state_dict().values())


@OF_KINDS
def test_greedy_actions_of_a_native_off_policy_run_equal_its_torch_modules(kind: str) -> None:
    run = made(kind)
    run.train(160)
    obs = observations(run, 64)
    found = run.predict(obs)
    actor = run.components.actor
    with torch.no_grad():
        said = actor.actions.to_env(run.policy.mode(torch.from_numpy(obs)).numpy())
    np.testing.assert_allclose(found, said, rtol=1e-5, atol=1e-6)
    assert len(np.unique(found)) > 1


@OF_KINDS
def test_native_off_policy_runs_train_from_weights_assigned_by_the_user(kind: str, tmp_path: Path) -> None:
    run = made(kind)
    run.train(80)
    size = sum(p.numel() for p in run.policy.parameters())
    numbers = torch.linspace(-0.5, 0.5, size)
    torch.nn.utils.vector_to_parameters(numbers, run.policy.parameters())
    obs = observations(run, 20)
    with torch.no_grad():
        said = run.components.actor.actions.to_env(run.policy.mode(torch.from_numpy(obs)).numpy())
    np.testing.assert_allclose(run.predict(obs), said, rtol=1e-5, atol=1e-6)
    run.save(tmp_path / "saved")
    saved = type(run).from_checkpoint(tmp_path / "saved", backend="torch").policy
    assert torch.equal(torch.nn.utils.parameters_to_vector(saved.parameters()), numbers)
    run.train(120)
    moved = torch.nn.utils.parameters_to_vector(run.policy.parameters()) - numbers
    assert 0 < moved.abs().max() < 0.2


def another(policy: Any, name: str) -> None:
    """Replaces the part `name` by another one of the same sizes."""
    setattr(policy, name, copy.deepcopy(getattr(policy, name)))
    with torch.no_grad():
        for parameter in getattr(policy, name).parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))


def class_of_its_own(policy: Any) -> None:
    policy.__class__ = type("Mine", (type(policy),), {"mode": lambda self, obs: ones(policy, obs)})


def ones(policy: Any, obs: torch.Tensor) -> torch.Tensor:
    shape = obs.shape[:1] if hasattr(policy, "q") else (len(obs), 1)
    return torch.ones(shape, dtype=torch.int64 if hasattr(policy, "q") else torch.float32)


CHANGES: list[tuple[str, Any, str]] = [
    ("values", lambda p: another(p, "q"), "of other layers"),
    ("dueling", lambda p: another(p.q, "advantage"), "of other layers"),
    ("values", lambda p: setattr(p.q, "forward", lambda obs: -obs[:, :2]), "forward of its own"),
    ("values", lambda p: setattr(p, "value_distribution", QuantileValue(1)), "other value_distribution"),
    ("values", class_of_its_own, "a Mine now"),
    ("squashed", lambda p: another(p, "actor"), "of other layers"),
    ("squashed", lambda p: another(p, "critic"), "of other layers"),
    ("squashed", lambda p: setattr(p.critic, "activation", torch.nn.Tanh()), "of other layers"),
    ("squashed", class_of_its_own, "a Mine now"),
    ("squashed", lambda p: setattr(p.actor, "explore", print), "explore of its own"),
    ("deterministic", lambda p: another(p, "actor"), "of other layers"),
    ("deterministic", lambda p: another(p.critic, "weights"), "of other layers"),
    ("deterministic", class_of_its_own, "a Mine now"),
]


@pytest.mark.parametrize(("kind", "change", "says"), CHANGES)
def test_a_changed_module_of_a_native_off_policy_run_plays_but_cannot_train(
    kind: str, change: Any, says: str, tmp_path: Path
) -> None:
    run = made(kind)
    change(run.policy)
    obs = observations(run, 20)
    with torch.no_grad():
        said = run.components.actor.actions.to_env(run.policy.mode(torch.from_numpy(obs)).numpy())
    np.testing.assert_allclose(run.predict(obs), said, rtol=1e-5, atol=1e-6)
    run.save(tmp_path / "saved")
    saved = type(run).from_checkpoint(tmp_path / "saved").policy.state_dict()
    for name, value in run.policy.state_dict().items():
        assert torch.equal(saved[name], value), name
    with pytest.raises(ConfigError, match=says):
        run.train(80)


def test_an_actor_of_any_other_kind_is_played() -> None:
    run = made("squashed")

    class Other(torch.nn.Module):
        def mode(self, obs: torch.Tensor) -> torch.Tensor:
            return torch.full((len(obs), 1), 0.5)

    run.policy.actor = Other()
    assert run.predict(observations(run, 3)).tolist() == [[1.0]] * 3


@OF_KINDS
def test_predictions_use_weights_loaded_into_a_native_learner(kind: str) -> None:
    run, other = made(kind), made(kind, seed=5)
    run.policy.load_state_dict(other.policy.state_dict(), assign=True)
    obs = observations(run, 20)
    np.testing.assert_allclose(run.predict(obs), other.predict(obs), rtol=1e-5, atol=1e-6)
    weights = {name: p.clone().requires_grad_() for name, p in made(kind).policy.named_parameters()}
    run.learner.load_initial_weights(weights)
    np.testing.assert_allclose(run.predict(obs), made(kind).predict(obs), rtol=1e-5, atol=1e-6)


@OF_KINDS
def test_init_from_initialises_the_target_networks_too(kind: str, tmp_path: Path) -> None:
    trained = made(kind)
    trained.train(120)
    trained.save(tmp_path / "trained")
    weights = trained.learner.native.state_dict()
    for backend in ("native", "torch"):
        run = made(kind, backend, seed=9, init_from=tmp_path / "trained")
        targets = [
            target
            for target in vars(run.learner).values()
            if isinstance(target, (NativeTargetNetwork, TargetNetwork))
        ]
        assert targets
        for target in targets:
            for name, value in target.state().items():
                (whole,) = [
                    full for full in weights if f".{full}".endswith(f".{name}") and of(target, run, full)
                ]
                np.testing.assert_array_equal(np.asarray(value), weights[whole])


def of(target: Any, run: Any, name: str) -> bool:
    """Says whether a parameter of this name belongs to the network that the target follows."""
    role = next(role for role, found in vars(run.learner).items() if found is target)
    part = role.removeprefix("target").removeprefix("_") or "critic"
    return role == "target_network" or name.startswith(f"{part}.")


@pytest.mark.parametrize("kind", ["values", "squashed", "deterministic"])
def test_another_thread_can_predict_while_a_native_run_trains(kind: str) -> None:
    run, asked, wrong = made(kind), [], []
    obs, done = observations(run, 4), threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                asked.append(run.predict(obs))
            except Exception as error:
                wrong.append(error)

    beside = threading.Thread(target=ask)
    beside.start()
    try:
        run.train(500)
    finally:
        done.set()
        beside.join()
    assert not wrong, wrong[0]
    assert len(asked) > 20


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("values", lambda p: p), ("squashed", lambda p: p), ("squashed", lambda p: p.actor)],
)
def test_native_off_policy_runs_predict_with_a_replaced_mode_method(kind: str, asked: Any) -> None:
    run = made(kind)
    obs = observations(run, 5)
    before = run.predict(obs)
    one = asked(run.policy)
    mode = one.mode
    one.mode = lambda obs: 1 - mode(obs)
    found = run.predict(obs)
    bounds = run.components.actor.actions
    actions = torch.from_numpy(obs)
    with torch.no_grad():
        expected = bounds.to_env(run.policy.mode(actions).numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not np.allclose(found, before)


def test_a_target_that_does_not_fit_is_refused() -> None:
    target = made("deterministic").learner.target_actor
    before = target.vector.copy()
    state = target.state()
    state["0.bias"] = np.zeros(3, np.float32)
    with pytest.raises(CheckpointError, match=r"0\.bias is \[3\] there and \[9\] here"):
        target.restore(state)
    np.testing.assert_array_equal(target.vector, before)


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_a_target_follows_as_torchs_does(tau: float) -> None:
    runs = [made("values", backend) for backend in ("native", "torch")]
    for run in runs:
        for value in run.learner.policy.parameters():
            with torch.no_grad():
                value += 0.1 * torch.arange(value.numel()).view_as(value)
        run.learner.target_network.polyak_update(tau)
    native, torchs = (run.learner.target_network.state() for run in runs)
    for name, value in native.items():
        np.testing.assert_allclose(value, torchs[name].numpy(), rtol=1e-6, atol=1e-7)
