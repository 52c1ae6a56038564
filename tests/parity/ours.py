"""Runs rlox's learners on the same batches: a driver for each algorithm, in `DRIVERS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from parity.batches import each
from parity.cases import ACT, CHOICES, HIDDEN, OBS, Arrays, Case
from parity.ours_replayed import sac, td3
from parity.taps import Naming, Tap, copies, neutral, tensor_of, transitions, with_norms
from parity.traces import trace
from rlox.algorithms.a2c.learner import A2CLearner
from rlox.algorithms.dqn.learner import DQNLearner
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.algorithms.pqn.learner import PQNLearner
from rlox.configs import A2CConfig, DQNConfig, PPOConfig, PQNConfig
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.policies.q_policy import QPolicy
from rlox.rng import Streams
from rlox.types import Clock, Rollout


def driven(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    """Return the trace of rlox's learner on these batches, computed in `dtype`."""
    return DRIVERS[case.algo](case, init, batches, dtype)


def with_weights(module: nn.Module, init: Arrays, dtype: torch.dtype, naming: Naming = neutral) -> Any:
    given = {name: torch.from_numpy(init[naming(name)]) for name in module.state_dict()}
    module.load_state_dict(given)
    return module.to(dtype)


@dataclass(frozen=True, slots=True)
class InOrder(Rollout):
    """A rollout whose minibatches are those of the other implementations."""

    orders: Iterator[Tensor] = field(default_factory=lambda: iter(()))

    def ordered_indices(self, order: Callable[[int], Tensor]) -> Tensor:
        return next(self.orders)


def rollout(batch: Arrays, dtype: torch.dtype) -> Rollout:
    zeros = torch.zeros(len(batch["obs"]), dtype=dtype)
    given = {
        name: tensor_of(batch[name], dtype) if name in batch else zeros
        for name in ("obs", "actions", "log_probs", "values", "advantages", "returns")
    }
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
    tap, rows = Tap(learner.optimizer), []
    totals: list[Tensor] = []
    if isinstance(learner, PPOLearner):
        learner._terms = noting(learner._terms, totals)  # type: ignore[method-assign]
    for batch in each(batches):
        totals.clear()
        metrics = learner.update(rollout(batch, dtype), Clock()).metrics
        taken = tap.taken(metrics)
        for row, total in zip(taken, totals or [metrics["loss/total"]], strict=True):
            row.losses = {**row.losses, "total": total}
        rows += taken
    return trace(case, rows, {})


def noting(terms: Callable[..., Any], totals: list[Tensor]) -> Callable[..., Any]:
    """Compute the loss of a minibatch and record its total."""

    def noted(*arguments: Any) -> Any:
        found = terms(*arguments)
        totals.append(found.total.detach())
        return found

    return noted


def pqn(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    policy = with_weights(QPolicy(OBS, CHOICES, HIDDEN, layer_norm=True), init, dtype, with_norms)
    learner = PQNLearner(policy, PQNConfig(**case.settings, anneal_lr=False), Streams(0))
    tap, rows = Tap(learner.optimizer, naming=with_norms), []
    for batch in each(batches):
        rows += tap.taken(learner.update(rollout(batch, dtype), Clock()).metrics)
    return trace(case, rows, {})


def dqn(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    dueling = case.settings["dueling"]
    online, target = (
        with_weights(QPolicy(OBS, CHOICES, HIDDEN, dueling=dueling), init, dtype) for _ in range(2)
    )
    learner = DQNLearner(online, target, DQNConfig(**case.settings))
    tap, rows = Tap(learner.optimizer), []
    for batch in each(batches):
        update = learner.update(transitions(case, batch, dtype), Clock())
        rows += tap.taken(update.metrics)
    return trace(case, rows, {f"target.{n}": v for n, v in copies(target.state_dict()).items()})


DRIVERS: dict[str, Callable[[Case, Arrays, Arrays, torch.dtype], Arrays]] = {
    "ppo": on_policy,
    "a2c": on_policy,
    "dqn": dqn,
    "pqn": pqn,
    "sac": sac,
    "tqc": sac,
    "td3": td3,
}
