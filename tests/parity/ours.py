"""The same batches through our learners: a driver for each algorithm, in `DRIVERS`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from parity.batches import each
from parity.cases import ACT, CHOICES, HIDDEN, OBS, Arrays, Case
from parity.traces import Row, trace
from rlox.algorithms.a2c import A2CLearner
from rlox.algorithms.dqn import DQNLearner
from rlox.algorithms.ppo import PPOLearner
from rlox.configs import A2CConfig, DQNConfig, PPOConfig
from rlox.optim import Optimizer
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.policies.q import QPolicy
from rlox.rng import Streams
from rlox.types import Clock, Minibatch, Rollout, Transitions

LOSSES = {
    "loss/policy": "policy",
    "loss/value": "value",
    "policy/entropy": "entropy",
    "loss/q": "q",
}


def driven(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    """The trace of our learner on these batches, computed in `dtype`."""
    return DRIVERS[case.algo](case, init, batches, dtype)


def neutral(name: str) -> str:
    """A tensor's name in the golden files: layers count without the activations between them."""
    return re.sub(r"\.(\d+)\.", lambda found: f".{int(found[1]) // 2}.", name)


def with_weights(module: nn.Module, init: Arrays, dtype: torch.dtype) -> Any:
    given = {name: torch.from_numpy(init[neutral(name)]) for name in module.state_dict()}
    module.load_state_dict(given)
    return module.to(dtype)


def copies(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {neutral(name): value.detach().clone() for name, value in values.items()}


class Tap:
    """Takes down what passes through an optimizer; `rows` has one for each of its steps."""

    def __init__(self, optimizer: Optimizer, total: bool) -> None:
        self.optimizer, self.total = optimizer, total
        self.rows: list[Row] = []
        self._backward, self._step = optimizer.backward, optimizer.step
        optimizer.backward, optimizer.step = self.backward, self.step  # type: ignore[method-assign]

    def backward(self, loss: Tensor, max_norm: float) -> Tensor:
        flat = self.optimizer.flat
        found = torch.autograd.grad(loss, flat.parameters, retain_graph=True)
        gradients = dict(zip(flat.views(flat.vector), found, strict=True))
        norm = self._backward(loss, max_norm)
        losses = {"total": loss.detach()} if self.total else {}
        self.rows.append(Row(losses, copies(gradients), copies(flat.views(flat.gradient))))
        return norm

    def step(self) -> None:
        self._step()
        self.rows[-1].weights = copies(self.optimizer.flat.views(self.optimizer.vector))

    def taken(self, metrics: Mapping[str, float]) -> list[Row]:
        """The rows since it was last asked, with the parts of the loss that the learner reported."""
        rows, self.rows = self.rows, []
        parts = {ours: metrics[key] for key, ours in LOSSES.items() if key in metrics}
        for row in rows:
            row.losses = {**row.losses, **parts}
        return rows


@dataclass(frozen=True, slots=True)
class InOrder(Rollout):
    """A rollout whose minibatches are those that the others were given."""

    orders: Iterator[Tensor] = field(default_factory=lambda: iter(()))

    def sample_minibatches(
        self, batch_size: int, shuffle: bool = True, generator: torch.Generator | None = None
    ) -> Iterator[Minibatch]:
        for rows in next(self.orders).split(batch_size):
            yield self._rows(rows)


def rollout(batch: Arrays, dtype: torch.dtype) -> Rollout:
    given = {
        name: _tensor(batch[name], dtype)
        for name in ("obs", "actions", "log_probs", "values", "advantages", "returns")
    }
    zeros = torch.zeros(len(batch["obs"]), dtype=dtype)
    return InOrder(
        **given,
        rewards=zeros,
        terminated=zeros.bool(),
        truncated=zeros.bool(),
        next_values=zeros,
        last_obs=given["obs"][-1:],
        last_values=zeros[-1:],
        n_envs=1,
        orders=iter(torch.from_numpy(batch.get("order", np.zeros((0, 0), int)))),
    )


def _tensor(array: Any, dtype: torch.dtype) -> Tensor:
    found = torch.from_numpy(np.asarray(array))
    return found.to(dtype) if found.is_floating_point() else found


def policy_of(case: Case, init: Arrays, dtype: torch.dtype) -> Any:
    made = (
        ContinuousPolicy(OBS, ACT, net_arch=HIDDEN)
        if case.box
        else DiscretePolicy(OBS, CHOICES, net_arch=HIDDEN)
    )
    return with_weights(made, init, dtype)


def on_policy(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    policy = policy_of(case, init, dtype)
    learner: PPOLearner | A2CLearner
    if case.algo == "ppo":
        learner = PPOLearner(policy, PPOConfig(**case.settings), Streams(0))
    else:
        learner = A2CLearner(policy, A2CConfig(**case.settings))
    tap, rows = Tap(learner.optimizer, total=True), []
    for batch in each(batches):
        rows += tap.taken(learner.update(rollout(batch, dtype), Clock()).metrics)
    return trace(case, rows, {})


def dqn(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    dueling = case.settings["dueling"]
    online, target = (
        with_weights(QPolicy(OBS, CHOICES, HIDDEN, dueling=dueling), init, dtype) for _ in range(2)
    )
    learner = DQNLearner(online, target, DQNConfig(**case.settings))
    tap, rows = Tap(learner.optimizer, total=False), []
    for batch in each(batches):
        update = learner.update(transitions(case, batch, dtype), Clock())
        rows += tap.taken(update.metrics)
    return trace(case, rows, {f"target.{n}": v for n, v in copies(target.state_dict()).items()})


def transitions(case: Case, batch: Arrays, dtype: torch.dtype) -> Transitions:
    """One batch, with the discounts that a source computes: gamma^m, 0 after termination."""
    given = {
        name: _tensor(batch[name], dtype)[None]
        for name in ("obs", "actions", "rewards", "next_obs", "weights")
        if name in batch
    }
    gamma = torch.tensor(case.settings["gamma"], dtype=dtype)
    discounts = gamma ** torch.from_numpy(batch["steps"]) * ~torch.from_numpy(batch["terminated"])
    return Transitions(
        **given,
        discounts=discounts[None],
        indices=np.arange(len(discounts), dtype=np.uint64)[None],
        env_steps=int(batch.get("env_steps", 0)),
    )


DRIVERS: dict[str, Callable[[Case, Arrays, Arrays, torch.dtype], Arrays]] = {
    "ppo": on_policy,
    "a2c": on_policy,
    "dqn": dqn,
}
