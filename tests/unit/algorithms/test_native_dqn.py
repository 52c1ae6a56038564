"""Tests that DQN with `backend="native"` equals torch up to rounding, and that both resume from one state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.masked_envs import make_masked
from helpers.observation_probes import EYE

from rlox.algorithms import DQN, Rainbow
from rlox.errors import ConfigError, NonFiniteError
from rlox.types import Clock, Transitions

SMALL: dict[str, Any] = {
    "seed": 5, "learning_starts": 64, "batch_size": 32, "buffer_size": 1_000, "train_freq": 16,
    "gradient_steps": 4, "net_arch": (24, 16), "learning_rate": 1e-3, "target_update_interval": 32,
}  # fmt: skip
PARTS: list[dict[str, Any]] = [
    {},
    {"double_dqn": True, "dueling": True, "activation": "silu"},
    {"prioritized": True, "n_step": 3, "loss": "mse", "tau": 0.5, "max_grad_norm": 1.0},
]


def weights(run: DQN) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.policy.parameters()])


def apart(left: DQN, right: DQN) -> float:
    return float((weights(left) - weights(right)).norm() / weights(right).norm())


def drawn(n: int = 3, weighted: bool = False) -> Transitions:
    draw, shape = torch.Generator().manual_seed(3), (n, 32)
    normal = lambda *size: torch.randn(*size, generator=draw)  # noqa: E731
    return Transitions(
        obs=normal(*shape, 4),
        actions=torch.randint(2, shape, generator=draw),
        rewards=normal(*shape),
        next_obs=normal(*shape, 4),
        discounts=torch.where(torch.rand(shape, generator=draw) < 0.2, 0.0, 0.99),
        indices=np.arange(n * 32, dtype=np.uint64).reshape(shape),
        weights=torch.rand(shape, generator=draw) if weighted else None,
        env_steps=64,
    )


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_native_dqn_updates_equal_those_of_torch_up_to_rounding(parts: dict[str, Any]) -> None:
    runs = {name: DQN("CartPole-v1", backend=name, **SMALL, **parts) for name in ("torch", "native")}
    start = weights(runs["torch"]).clone()
    batch = drawn(weighted="prioritized" in parts)
    told = {name: run.learner.update(batch, Clock(horizon=1_000)) for name, run in runs.items()}
    assert apart(runs["native"], runs["torch"]) < 1e-5
    assert float((weights(runs["torch"]) - start).norm()) > 1e-3
    assert told["native"].metrics.keys() == told["torch"].metrics.keys()
    for name, value in told["torch"].metrics.items():
        assert told["native"].metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name
    assert (told["native"].count, told["native"].samples) == (3, 96)
    assert told["native"].columns.keys() == told["torch"].columns.keys()
    for name, column in told["torch"].columns.items():
        np.testing.assert_allclose(told["native"].columns[name], column, rtol=1e-3, atol=1e-5)


def test_both_backends_start_alike_and_resume_a_native_checkpoint(tmp_path: Path) -> None:
    runs = {name: DQN("CartPole-v1", backend=name, **SMALL) for name in ("torch", "native")}
    for run in runs.values():
        run.train(160)
    assert apart(runs["native"], runs["torch"]) < 1e-4
    runs["native"].save(tmp_path / "native")
    for name in ("torch", "native"):
        run = DQN.from_checkpoint(tmp_path / "native", backend=name)
        assert torch.equal(weights(run), weights(runs["native"]))
        assert run.learner.optimizer.steps == runs["native"].learner.optimizer.steps > 0
        run.train(320)
        assert apart(run, runs["native"]) > 1e-4


def test_a_run_gives_the_same_bytes_twice_and_goes_on_exactly(tmp_path: Path) -> None:
    first, again = (DQN("CartPole-v1", backend="native", **SMALL, **PARTS[2]) for _ in range(2))
    for run in (first, again):
        run.train(240)
    assert torch.equal(weights(first), weights(again))
    again.save(tmp_path / "half")
    resumed = DQN.from_checkpoint(tmp_path / "half")
    assert resumed.config.algo.backend == "native"
    for run in (first, resumed):
        run.train(480)
    assert torch.equal(weights(resumed), weights(first))
    assert not torch.equal(weights(again), weights(first))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"noisy": True}, r"noisy layers \(algo.noisy=true\)"),
        ({"distribution": "quantile"}, r"distributions of returns \(algo.distribution=quantile\)"),
        ({"env_id": EYE, "net_arch": (8,), "encoder_features": 8}, "from vectors, not from images"),
        (
            {"env_id": lambda: make_masked("info"), "action_mask": "info"},
            r"masks of actions \(env.action_mask\)",
        ),
    ],
)
def test_native_dqn_refuses_unsupported_networks_at_construction(settings: dict[str, Any], says: str) -> None:
    given = {"env_id": "CartPole-v1", "backend": "native", **SMALL, **settings}
    with pytest.raises(ConfigError, match=f"algo.backend=native: .*{says}.*algo.backend=torch"):
        DQN(**given)


def test_native_dqn_refuses_to_train_after_the_user_changed_its_module() -> None:
    for change, says in [
        (lambda p: p.q[0].register_forward_hook(lambda *_: None), "hooked"),
        (lambda p: p.q[0].weight.requires_grad_(False), r"frozen in q\.0\.weight"),
        (lambda p: setattr(p, "outputs", p.outputs), "a outputs of its own"),
        (lambda p: p.q.__setitem__(1, torch.nn.Tanh()), "of other layers"),
    ]:
        run = DQN("CartPole-v1", backend="native", **SMALL)
        change(run.policy)
        before = weights(run).clone()
        with pytest.raises(ConfigError, match=says):
            run.learner.update(drawn(), Clock())
        assert torch.equal(weights(run), before)


def test_native_dqn_stops_in_the_update_whose_loss_is_not_finite() -> None:
    run = DQN("CartPole-v1", backend="native", **{**SMALL, "learning_rate": 1e30})
    with pytest.raises(NonFiniteError, match=r"in the update 0 .*lower algo.learning_rate"):
        run.train(320)
    assert run.learner.optimizer.steps >= 1


def test_rainbow_has_no_engine_and_says_so() -> None:
    with pytest.raises(ConfigError, match=r"algo.backend='?native"):
        Rainbow("CartPole-v1", backend="native")
