"""Tests that SAC, TD3 and DDPG with `backend="native"` equal torch up to rounding, with equal states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.observation_probes import EYE

from rlox.algorithms import DDPG, SAC, TD3
from rlox.errors import ConfigError, NonFiniteError
from rlox.types import Clock, Transitions

SMALL: dict[str, Any] = {
    "seed": 5, "learning_starts": 64, "batch_size": 32, "buffer_size": 1_000, "train_freq": 8,
    "gradient_steps": 4, "net_arch": (24, 16), "learning_rate": 1e-3,
}  # fmt: skip
RUNS: list[tuple[Any, dict[str, Any]]] = [
    (SAC, {}),
    (SAC, {"ent_coef": 0.2, "n_critics": 3, "target_update_interval": 2, "activation": "silu"}),
    (SAC, {"prioritized": True, "n_step": 3, "max_grad_norm": 0.5, "critic_net_arch": (8,)}),
    (TD3, {"policy_delay": 3}),
    (TD3, {"prioritized": True, "target_noise": 0.0, "activation": "tanh", "n_critics": 1}),
    (DDPG, {"max_grad_norm": 0.5}),
]
EACH = pytest.mark.parametrize(("facade", "parts"), RUNS, ids=str)


def made(facade: Any, backend: str, parts: dict[str, Any]) -> Any:
    return facade("Pendulum-v1", backend=backend, **SMALL, **parts)


def weights(run: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.policy.parameters()])


def apart(left: Any, right: Any) -> float:
    return float((weights(left) - weights(right)).norm() / weights(right).norm())


def drawn(n: int = 4, weighted: bool = False) -> Transitions:
    draw, shape = torch.Generator().manual_seed(3), (n, 32)
    normal = lambda *size: torch.randn(*size, generator=draw)  # noqa: E731
    return Transitions(
        obs=normal(*shape, 3),
        actions=normal(*shape, 1).tanh(),
        rewards=normal(*shape),
        next_obs=normal(*shape, 3),
        discounts=torch.where(torch.rand(shape, generator=draw) < 0.2, 0.0, 0.99),
        indices=np.arange(n * 32, dtype=np.uint64).reshape(shape),
        weights=torch.rand(shape, generator=draw) if weighted else None,
        env_steps=64,
    )


@EACH
def test_native_sac_and_td3_updates_equal_those_of_torch_up_to_rounding(
    facade: Any, parts: dict[str, Any]
) -> None:
    runs = {name: made(facade, name, parts) for name in ("torch", "native")}
    start = weights(runs["torch"]).clone()
    batch = drawn(weighted="prioritized" in parts)
    told = {name: run.learner.update(batch, Clock(updates=7)) for name, run in runs.items()}
    assert apart(runs["native"], runs["torch"]) < 1e-5
    assert float((weights(runs["torch"]) - start).norm()) > 1e-3
    assert told["native"].metrics.keys() == told["torch"].metrics.keys()
    for name, value in told["torch"].metrics.items():
        assert told["native"].metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    assert (told["native"].count, told["native"].samples) == (4, 128)
    assert told["native"].columns.keys() == told["torch"].columns.keys()
    for name, column in told["torch"].columns.items():
        np.testing.assert_allclose(told["native"].columns[name], column, rtol=1e-3, atol=1e-5)
    states = [run.learner.state()["optimizer"] for run in runs.values()]
    for left, right in zip(*map(leaves, states), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)


def leaves(tree: Any) -> list[Any]:
    """Return every number of a state in order: targets, moments, counts, the temperature."""
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in leaves(tree[name])]
    return [np.asarray(tree)]


@EACH
def test_a_run_gives_the_same_bytes_twice_and_goes_on_exactly_or_in_torch(
    facade: Any, parts: dict[str, Any], tmp_path: Path
) -> None:
    first, again = (made(facade, "native", parts) for _ in range(2))
    for run in (first, again):
        run.train(120)
    assert torch.equal(weights(first), weights(again))
    again.save(tmp_path / "half")
    resumed = facade.from_checkpoint(tmp_path / "half")
    other = facade.from_checkpoint(tmp_path / "half", backend="torch")
    assert torch.equal(weights(other), weights(again))
    for run in (first, resumed, other):
        run.train(240)
    assert torch.equal(weights(resumed), weights(first))
    assert apart(other, first) < 1e-2
    assert apart(again, first) > 1e-3


class Lever(gym.ActionWrapper):  # type: ignore[type-arg]
    """Maps the sign of a number to a discrete action."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def action(self, action: Any) -> int:
        return int(action[0] > 0)


@pytest.mark.parametrize(
    ("facade", "settings", "says"),
    [
        (
            SAC,
            {"env_id": "CartPole-v1"},
            "SAC of Box actions, not of Discrete ones",
        ),
        (
            SAC,
            {"use_sde": True},
            r"state-dependent exploration \(algo.use_sde=true\)",
        ),
        (
            SAC,
            {"env_id": lambda: Lever(gym.make(EYE)), "encoder_features": 8},
            "from vectors, not from images",
        ),
        (
            TD3,
            {"env_id": lambda: Lever(gym.make(EYE)), "encoder_features": 8},
            "from vectors, not from images",
        ),
    ],
)
def test_native_sac_and_td3_refuse_unsupported_policies_at_construction(
    facade: Any, settings: dict[str, Any], says: str
) -> None:
    given = {"env_id": "Pendulum-v1", "backend": "native", **SMALL, **settings}
    with pytest.raises(ConfigError, match=f"algo.backend=native: .*({says}).*algo.backend=torch"):
        facade(**given)


def test_native_sac_and_td3_refuse_to_train_after_the_user_changed_a_module() -> None:
    for facade, change, says in [
        (TD3, lambda p: p.actor[0].register_forward_hook(lambda *_: None), "hooked"),
        (TD3, lambda p: p.critic.weights[0].requires_grad_(False), r"frozen in critic\.weights\.0"),
        (SAC, lambda p: setattr(p.critic, "forward", p.critic.forward), "a forward of its own"),
        (SAC, lambda p: p.actor.net.__setitem__(1, torch.nn.Tanh()), "of other layers"),
        (SAC, lambda p: setattr(p, "draw", p.draw), "a draw of its own"),
        (TD3, lambda p: setattr(p, "critic", torch.nn.Identity()), "of other layers"),
    ]:
        run = made(facade, "native", {})
        change(run.policy)
        with pytest.raises(ConfigError, match=says):
            run.learner.update(drawn(), Clock())
        assert run.learner.critic_optimizer.steps == 0


def test_native_sac_and_td3_stop_in_the_update_that_meets_a_nan() -> None:
    for facade in (SAC, TD3):
        run = made(facade, "native", {})
        batch = drawn()
        batch.rewards[2, 0] = torch.nan
        with pytest.raises(NonFiniteError, match=r"in the update 0 .*lower algo.learning_rate"):
            run.learner.update(batch, Clock())
        assert run.learner.critic_optimizer.steps == 2
        assert bool(torch.isfinite(weights(run)).all())
