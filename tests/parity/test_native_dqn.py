"""Tests the native engine's DQN updates against torch, on random networks, batches and settings.

In float64, torch's autograd is the reference for the loss, the errors, the gradient (Adam's first moment
after a step from zeros) and the parameters. In float32, the same cases must be as close to it as torch's own
float32 results.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox._core import OffPolicyEngine
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.losses import td_loss
from rlox.networks import DuelingMLP
from rlox.optim import FlatParameters
from rlox.policies.q_policy import QPolicy

CASES = 400
EACH = pytest.mark.parametrize("cases", [64, pytest.param(CASES, marks=pytest.mark.slow)])
DOUBLE, SINGLE = 1e-9, 1e-5  # norm of a difference over the norm
RATE, DECAY = 0.01, (0.9, 0.999)
Columns = dict[str, Any]


class Case:
    """Networks, two batches for them and settings, drawn by a number."""

    def __init__(self, number: int) -> None:
        draw = self.draw = np.random.default_rng(number)
        self.dueling, self.double = bool(number % 2), bool(number // 2 % 2)
        self.activation = ("tanh", "relu", "elu", "silu")[number // 4 % 4]
        self.loss, self.weighted = ("huber", "mse")[number // 16 % 2], bool(number // 32 % 2)
        self.rows, self.size = int(draw.integers(1, 40)), int(draw.integers(2, 7))
        self.obs_dim = int(draw.integers(1, 20))
        self.hidden = [int(w) for w in draw.integers(1, 35, int(draw.integers(self.dueling, 4)))]
        self.norm = (0.1, 1e3, None)[number % 3]
        self.online, self.target = (self._net(2 * number + i) for i in range(2))
        shape = (2, self.rows)
        self.columns: Columns = {
            "obs": draw.standard_normal((*shape, self.obs_dim)),
            "actions": draw.integers(0, self.size, shape),
            "rewards": 2.0 * draw.standard_normal(shape),
            "next_obs": draw.standard_normal((*shape, self.obs_dim)),
            "discounts": np.where(draw.random(shape) < 0.3, 0.0, 0.97),
        }
        if self.weighted:
            self.columns["weights"] = draw.uniform(0.1, 1.0, shape)

    def _net(self, seed: int) -> QPolicy:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            policy = QPolicy(self.obs_dim, self.size, self.hidden, self.activation, self.dueling)
        policy.requires_grad_(True)
        return policy.double()

    def engine(self, precision: str) -> OffPolicyEngine:
        named = [(name, tuple(p.shape)) for name, p in self.online.named_parameters()]
        return OffPolicyEngine(
            "dqn",
            {"q": named},
            size=self.size,
            obs_dim=self.obs_dim,
            hidden=self.hidden,
            activation=self.activation,
            dueling=self.dueling,
            precision=precision,
        )

    def native(self, precision: str, batches: int = 1) -> tuple[dict[str, float], Columns]:
        """Train on the first batches; return the metrics and the resulting arrays."""
        kind = np.float32 if precision == "f32" else np.float64
        vector = FlatParameters(copy.deepcopy(self.online)).vector.numpy().astype(kind)
        target = FlatParameters(copy.deepcopy(self.target)).vector.numpy()
        state = {"parameters": vector, "exp_avg": np.zeros_like(vector)}
        errors = np.zeros((batches, self.rows), kind)
        columns = {name: column[:batches] for name, column in self.columns.items()}
        told = self.engine(precision).learn(
            {"q": (vector, state["exp_avg"], np.zeros_like(vector), np.zeros(1, np.int64))},
            {"q": target.astype(kind)},
            *(columns[name] for name in ("obs", "actions", "rewards", "next_obs", "discounts")),
            errors,
            weights=columns.get("weights"),
            learning_rate=RATE,
            double=self.double,
            loss=self.loss,
            max_grad_norm=self.norm,
            adam_eps=1e-4,  # so that a step does not depend on the sign of a gradient near 0
        )
        return told, {**state, "errors": errors}

    def by_torch(self, kind: torch.dtype, batches: int = 1) -> tuple[dict[str, float], Columns]:
        """Do the same with autograd, torch's clipping and torch's Adam."""
        online, target = (copy.deepcopy(net).to(kind) for net in (self.online, self.target))
        adam = torch.optim.Adam(online.parameters(), RATE, betas=DECAY, eps=1e-4)
        errors, told = [], []
        for i in range(batches):
            batch = {name: torch.from_numpy(c[i]) for name, c in self.columns.items()}
            batch = {n: c.to(kind) if c.is_floating_point() else c for n, c in batch.items()}
            said = q_of(online, batch["obs"]).gather(1, batch["actions"][:, None]).squeeze(1)
            with torch.no_grad():
                after = q_of(target, batch["next_obs"])
                judge = q_of(online, batch["next_obs"]) if self.double else after
                best = after.gather(1, judge.argmax(1, keepdim=True)).squeeze(1)
                goal = batch["rewards"] + batch["discounts"] * best
            loss = td_loss(said, goal, self.loss, batch.get("weights"))
            adam.zero_grad()
            loss.backward()
            most = float("inf") if self.norm is None else self.norm
            norm = nn.utils.clip_grad_norm_(online.parameters(), most)
            adam.step()
            errors.append((said - goal).detach())
            told.append([float(loss.detach()), float(said.detach().mean()), float(norm)])
        moments = copy.deepcopy(online)
        with torch.no_grad():
            for parameter, own in zip(online.parameters(), moments.parameters(), strict=True):
                own.copy_(adam.state[parameter]["exp_avg"])
        names = ("loss", "q_mean", "grad_norm")
        return dict(zip(names, np.mean(told, 0).tolist(), strict=True)), {
            "parameters": FlatParameters(online).vector.numpy(),
            "exp_avg": FlatParameters(moments).vector.numpy(),
            "errors": torch.stack(errors).numpy(),
        }


def q_of(policy: QPolicy, obs: Tensor) -> Tensor:
    """Compute Q with the modules alone, so that autograd sees every operation."""
    q: Tensor = policy.q(obs)
    return q


def apart(found: NDArray[Any], expected: NDArray[Any]) -> float:
    difference = found.astype(np.float64) - expected.astype(np.float64)
    return float(np.linalg.norm(difference) / max(np.linalg.norm(expected), 1e-30))


@EACH
def test_native_dqn_updates_equal_autograd_in_float64(cases: int) -> None:
    worst, kinds = 0.0, set()
    for number in range(cases):
        case = Case(number)
        told, left = case.native("f64", batches=2)
        expected, after = case.by_torch(torch.float64, batches=2)
        for name, value in expected.items():
            assert told[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (number, name)
        for name, column in after.items():
            distance = apart(left[name], column)
            assert distance <= DOUBLE, (number, name, distance)
            worst = max(worst, distance)
        kinds.add((case.dueling, case.double, case.activation, case.loss, case.weighted))
    assert len(kinds) == 64
    assert worst > 0.0


@EACH
def test_native_dqn_gradients_in_float32_are_as_close_as_torchs(cases: int) -> None:
    far = 0
    for number in range(cases):
        case = Case(number)
        _, left = case.native("f32")
        _, exact = case.by_torch(torch.float64)
        distance = apart(left["exp_avg"], exact["exp_avg"])
        if distance > SINGLE:
            far += 1
            own = apart(case.by_torch(torch.float32)[1]["exp_avg"], exact["exp_avg"])
            assert distance <= max(2 * own, SINGLE), (number, distance, own)
    assert far <= cases // 50, far


def test_the_vector_is_laid_out_as_torch_s() -> None:
    for dueling in (False, True):
        policy = QPolicy(3, 4, (5, 6), dueling=dueling)
        flat = FlatParameters(policy)
        named = [(name, tuple(p.shape)) for name, p in policy.named_parameters()]
        of: dict[str, Any] = {"size": 4, "obs_dim": 3, "hidden": [5, 6], "activation": "relu"}
        engine = OffPolicyEngine("dqn", {"q": named}, dueling=dueling, **of)
        assert engine.vector_lengths == {"q": len(flat.vector)}
        with pytest.raises(ShapeError, match=named[0][0]):
            OffPolicyEngine("dqn", {"q": [(named[0][0], (7, 7)), *named[1:]]}, dueling=dueling, **of)
        with pytest.raises(ConfigError, match="is q"):
            OffPolicyEngine("dqn", {"q": named}, dueling=not dueling, **of)
        assert isinstance(policy.q, DuelingMLP) == dueling


def test_native_dqn_updates_refuse_invalid_columns_and_stop_at_nan() -> None:
    case = Case(33)
    case.columns["actions"] = case.columns["actions"] + case.size
    with pytest.raises(ConfigError, match=rf"action of row 0 is \d, expected .* 0 to {case.size - 1}"):
        case.native("f32")
    case = Case(32)
    case.columns["discounts"] = case.columns["discounts"][:, :0]
    with pytest.raises(ShapeError, match="discounts has shape"):
        case.native("f32")
    case = Case(34)
    case.columns["rewards"][0, 0] = np.nan
    with pytest.raises(NonFiniteError, match="loss by minibatch"):
        case.native("f32")
