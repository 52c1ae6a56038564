"""Compare an update of PPO with hand-derived gradients and one with torch's autograd (P22).

Both learn one epoch from the same rollout of CartPole-v1 and the same weights, in one process, in turn. The
times are CPU seconds, which depend less on other programs.

    python benchmarks/ppo_gradients.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context, run
from harness.timing import LocalRunner

N_ENVS, N_STEPS = 8, 256
BATCHES = (64, 256)
MIN_SPEEDUP = 1.25  # the gain that justifies a second implementation of a gradient


def p22(context: Context) -> Iterator[Case]:
    """Yield minibatches of the default size and of the tuned preset's size."""
    for batch in BATCHES:
        yield Case(
            row="P22",
            work="epoch of PPO on CartPole-v1",
            size=f"{N_ENVS * N_STEPS:,} rows by {batch}",
            ours=(system("written out", batch, False, Goal(MIN_SPEEDUP)),),
            peers=(system("autograd", batch, True),),
            tolerance=Tolerance(1e-3, 1e-5),
            elements=N_ENVS * N_STEPS,
        )


def system(name: str, batch_size: int, autograd: bool, *goals: Goal) -> System:
    """Return an epoch with one of the two gradients."""
    return System(
        name=name,
        package="rlox",
        prepare=lambda: LocalRunner(*epoch(batch_size, autograd), clock=time.process_time),
        goals=goals,
    )


def epoch(batch_size: int, autograd: bool) -> Any:
    """Return an epoch over a rollout of the policy itself, and a function for the weights after it."""
    from rlox.algorithms import PPO
    from rlox.types import Clock

    ppo = PPO(
        "CartPole-v1",
        n_envs=N_ENVS,
        seed=0,
        n_steps=N_STEPS,
        batch_size=batch_size,
        n_epochs=1,
        backend="torch",
    )
    rollout = ppo.collector.collect(ppo.policy, N_STEPS)
    learner = ppo.learner
    if autograd:
        use_autograd(learner)
    initial_state = deepcopy(learner.state())

    def operation() -> None:
        learner.restore(initial_state)
        learner.update(rollout, Clock())

    def answer() -> Results:
        operation()
        return {name: weight.numpy() for name, weight in learner.state()["weights"].items()}

    return operation, answer


def use_autograd(learner: Any) -> None:
    """Let torch compute the gradients of the policy and of the composed loss."""
    from rlox.losses import Slopes
    from rlox.policies import ActorCritic

    policy, loss = learner.policy, learner.loss
    policy.scored = lambda obs, actions: ActorCritic.scored(policy, obs, actions)

    def gradient(*row: torch.Tensor) -> Any:
        with torch.enable_grad():
            outputs = [column.detach().requires_grad_() for column in row[:3]]
            terms = loss.terms(*outputs, *row[3:])
        gradients = torch.autograd.grad(terms.total, outputs, allow_unused=True)
        return terms._replace(total=terms.total.detach()), Slopes(*gradients)

    loss.gradient = gradient


ROWS = {"P22": p22}

if __name__ == "__main__":
    sys.exit(run(ROWS, "ppo_gradients", __doc__ or ""))
