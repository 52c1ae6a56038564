"""Tests that a Rust policy makes its torch module on first access and shares its memory with it."""

from __future__ import annotations

import copy
import os
import platform
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.masked_envs import Masked

from rlox.algorithms import A2C, PPO
from rlox.errors import CheckpointError, ConfigError
from rlox.policies import DiscretePolicy
from rlox.training.backend import cpu_kind

SMALL: dict[str, Any] = {
    "n_envs": 3, "seed": 4, "n_steps": 20, "batch_size": 15, "n_epochs": 2, "net_arch": (9, 8),
    "backend": "native",
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "choices": {"env_id": "CartPole-v1"},
    "masked": {"env_id": Masked, "action_mask": "info"},
    "numbers": {"env_id": "Pendulum-v1", "log_std_init": -0.5},
    "sde": {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 5},
}
OF_KINDS = pytest.mark.parametrize("kind", KINDS)


def made(kind: str, **options: Any) -> PPO:
    return PPO(**{**SMALL, **KINDS[kind], **options})


@OF_KINDS
def test_the_module_has_the_names_the_shapes_and_the_memory_of_the_vector(kind: str) -> None:
    run = made(kind)
    run.train(60)
    native = run.learner.native
    named = dict(run.policy.named_parameters())
    assert list(named) == list(native.state_dict())
    for name, view in native.state_dict().items():
        np.testing.assert_array_equal(named[name].detach().numpy(), view)
        view += 1.0
        np.testing.assert_array_equal(named[name].detach().numpy(), view)
    with torch.no_grad():
        named["actor.0.bias"].fill_(7.0)
    assert (native.state_dict()["actor.0.bias"] == 7.0).all()
    assert run.policy is run.policy is run.learner.policy


@OF_KINDS
def test_greedy_actions_of_a_native_ppo_policy_equal_its_torch_modules(kind: str) -> None:
    run = made(kind)
    run.train(180)
    collector = run.collector
    rollout = collector.collect(run.learner.native, 20)
    found = run.components.actor.act(rollout.obs.numpy())
    with torch.no_grad():
        said = run.components.actor.actions.to_env(run.policy.mode(rollout.obs).numpy())
    np.testing.assert_allclose(found, said, rtol=1e-5, atol=1e-6)
    if kind == "masked":
        allowed = rollout.extras["action_mask"].numpy()
        assert allowed[np.arange(len(found)), found].all()
        assert not allowed.all()


def by_vector(policy: Any, numbers: torch.Tensor) -> None:
    torch.nn.utils.vector_to_parameters(numbers, policy.parameters())


def by_assigning(policy: Any, numbers: torch.Tensor) -> None:
    other = copy.deepcopy(policy)
    by_vector(other, numbers)
    policy.load_state_dict(other.state_dict(), assign=False)
    for mine, theirs in zip(policy.parameters(), other.parameters(), strict=True):
        mine.data = theirs.data.clone()


def by_sharing(policy: Any, numbers: torch.Tensor) -> None:
    policy.share_memory()
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(numbers, policy.parameters())


@pytest.mark.parametrize(
    ("change", "backend"),
    [
        (by_vector, "native"), (by_vector, "torch"), (by_assigning, "native"), (by_assigning, "torch"),
        (by_sharing, "torch"),
    ],
)  # fmt: skip
def test_native_ppo_plays_and_trains_with_weights_assigned_by_the_user(
    change: Any, backend: str, tmp_path: Path
) -> None:
    run = made("choices", backend=backend)
    run.train(60)
    size = sum(p.numel() for p in run.policy.parameters())
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=size).astype(np.float32))
    change(run.policy, numbers)
    obs = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    with torch.no_grad():
        said = run.policy.mode(torch.from_numpy(obs)).numpy()
    assert 0 < said.mean() < 1
    np.testing.assert_array_equal(run.predict(obs), said)
    run.save(tmp_path / "saved")
    saved = PPO.from_checkpoint(tmp_path / "saved").policy
    np.testing.assert_array_equal(flat(saved), numbers.numpy())
    run.train(120)  # it learns from these weights
    moved = np.abs(flat(run.policy) - numbers.numpy())
    assert 0 < moved.max() < 0.1


def flat(policy: Any) -> Any:
    return torch.nn.utils.parameters_to_vector(policy.parameters()).detach().numpy()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda p: setattr(p.actor[0], "weight", torch.nn.Parameter(torch.ones(9, 4))),
            "of other parameters",
        ),
        (lambda p: torch.nn.utils.parametrizations.spectral_norm(p.actor[0]), "of another class"),
        (lambda p: p.double(), r"actor\.0\.weight is torch\.float64 .*expected torch\.float32"),
        (lambda p: setattr(p, "__class__", Mine), "a Mine now"),
        (lambda p: by_sharing(p, torch.linspace(-1, 1, 295)), "other memory"),
        (lambda p: setattr(p, "actor", reversed_net(p.actor)), "of other layers"),
        (
            lambda p: setattr(p.actor, "forward", reversed_net(p.actor).forward),
            "forward of its own",
        ),
    ],
)
def test_a_changed_module_of_native_ppo_plays_and_saves_but_cannot_train(
    change: Any, says: str, tmp_path: Path
) -> None:
    run = made("choices")
    change(run.policy)
    obs = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    kind = next(run.policy.parameters()).dtype
    with torch.no_grad():
        said = run.policy.mode(torch.from_numpy(obs).to(kind)).numpy()
    if kind == torch.float32:
        np.testing.assert_array_equal(run.predict(obs), said)
    if list(run.policy.state_dict()) == list(made("choices").policy.state_dict()):
        run.save(tmp_path / "saved")
        saved = PPO.from_checkpoint(tmp_path / "saved").policy.state_dict()
        for name, value in run.policy.state_dict().items():
            assert torch.equal(saved[name], value.float()), name
    with pytest.raises(ConfigError, match=says):
        run.train(60)


def reversed_net(net: torch.nn.Sequential) -> torch.nn.Sequential:
    """Copies the network and negates the last layer, so that it prefers the opposite actions."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in other[-1].parameters():
            parameter.neg_()
    return other


class Mine(DiscretePolicy):
    """A user's own subclass."""

    def mode(self, obs: torch.Tensor) -> torch.Tensor:
        return self.actor(obs).argmin(-1)


def test_a_refused_native_update_leaves_the_run_unchanged(tmp_path: Path) -> None:
    run, whole = made("choices"), made("choices")
    run.train(60)
    handle = run.policy.actor.register_forward_hook(lambda *_: None)
    with pytest.raises(ConfigError, match="hooked"):
        run.train(120)
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.save(tmp_path / "saved")
        run.train(120)
    whole.train(60)
    whole.train(120)
    np.testing.assert_array_equal(flat(run.policy), flat(whole.policy))


def test_a_module_made_in_inference_mode_or_on_meta_can_still_learn() -> None:
    run = made("numbers")
    with torch.inference_mode():
        policy = run.policy
    policy.actor(torch.ones(1, 3)).sum().backward()
    assert policy.actor[0].weight.grad is not None
    with torch.device("meta"):
        assert made("numbers").policy.log_std.device.type == "cpu"


def test_threads_that_ask_for_the_module_at_once_get_one() -> None:
    run = made("choices")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: run.policy, range(8)))
    assert {id(policy) for policy in found} == {id(run.policy)}


def test_native_predictions_call_hooks_on_the_module() -> None:
    run = made("choices")
    heard: list[int] = []
    run.policy.actor.register_forward_hook(lambda *_: heard.append(1))
    run.predict(np.zeros(4, np.float32))
    assert heard


def test_native_ppo_predicts_with_a_mode_method_that_the_user_replaced() -> None:
    run = made("choices")
    best = run.predict(np.ones(4, np.float32))
    run.policy.mode = lambda obs: run.policy.logits(obs).argmin(-1)
    assert run.predict(np.ones(4, np.float32)) == 1 - best


def test_making_the_module_draws_no_random_numbers() -> None:
    run = made("numbers")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert run.policy.log_std.tolist() == [-0.5]
    assert torch.equal(torch.get_rng_state(), before)


def test_native_and_torch_ppo_sample_the_same_actions() -> None:
    native, torchs = made("choices"), made("choices", backend="torch")
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    sampled = [run.predict(obs, deterministic=False) for run in (native, torchs)]
    np.testing.assert_array_equal(*sampled)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w: w.pop("critic.0.bias"), r"critic\.0\.bias is missing there and \[9\] here"),
        (lambda w: w.update(more=np.zeros(2)), r"more is \[2\] there and missing here"),
        (
            lambda w: w.update({"actor.0.weight": np.zeros((4, 9))}),
            r"actor\.0\.weight is \[4, 9\] there and \[9, 4\] here",
        ),
    ],
)
def test_mismatched_weights_are_refused_and_change_nothing(change: Any, says: str) -> None:
    native = made("choices").learner.native
    before = native.vector.copy()
    weights = {name: view + 1.0 for name, view in native.state_dict().items()}
    change(weights)
    with pytest.raises(CheckpointError, match=says):
        native.load_state_dict(weights)
    np.testing.assert_array_equal(native.vector, before)


@pytest.mark.parametrize("facade", [PPO, A2C])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_rollout_of_arrays_is_the_rollout_of_tensors(facade: Any, normalize: bool) -> None:
    options = {k: v for k, v in SMALL.items() if facade is PPO or k not in ("batch_size", "n_epochs")}
    runs = [facade("MountainCar-v0", normalize_obs=normalize, **options) for _ in range(2)]
    arrays = runs[0].collector.collect_arrays(runs[0].learner.native, 250)
    tensors = runs[1].collector.collect(runs[1].learner.native, 250)
    for name in ("obs", "actions", "rewards", "truncated", "next_values", "advantages", "returns"):
        found = getattr(arrays, name)
        assert type(found) is np.ndarray, name
        np.testing.assert_array_equal(found, getattr(tensors, name).numpy())
    assert tensors.final_obs is not None
    np.testing.assert_array_equal(arrays.final_obs.obs, tensors.final_obs.obs.numpy())


@pytest.mark.skipif(
    platform.machine() != "x86_64" or "ATEN_CPU_CAPABILITY" in os.environ,
    reason="what is said is of x86, and torch was told otherwise where the variable is set",
)
def test_cpu_kind_ends_with_torchs_cpu_capability() -> None:
    assert cpu_kind().split()[-1] == torch.backends.cpu.get_cpu_capability()
