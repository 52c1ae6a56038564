"""An update of PPO with its fused objective and with the one composed of the pure losses (P22).

One epoch over the same rollout of CartPole-v1 from the same weights, in one process, by turns; seconds are
those of the processor, which other programs on the machine change less.

    python benchmarks/ppo_losses.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context, run
from harness.timing import LocalRunner

N_ENVS, N_STEPS = 8, 256
BATCHES = (64, 256)
WORTH = 1.05  # what a second way to write the objective has to bring


def p22(context: Context) -> Iterator[Case]:
    """Minibatches of the default size and of the tuned preset's."""
    for batch in BATCHES:
        yield Case(
            row="P22",
            work="epoch of PPO on CartPole-v1",
            size=f"{N_ENVS * N_STEPS:,} rows by {batch}",
            ours=(system("fused", batch, "FusedPPOLoss", Goal(WORTH)),),
            peers=(system("composed", batch, "PPOLoss"),),
            tolerance=Tolerance(1e-3, 1e-5),
            elements=N_ENVS * N_STEPS,
        )


def system(name: str, batch_size: int, objective: str, *goals: Goal) -> System:
    """An epoch with one of the two objectives."""
    return System(
        name=name,
        package="rlox",
        prepare=lambda: LocalRunner(*epoch(batch_size, objective), clock=time.process_time),
        goals=goals,
    )


def epoch(batch_size: int, objective: str) -> Any:
    """One pass over a rollout that the policy itself collected; it answers with the weights after it."""
    from rlox.algorithms import PPO
    from rlox.losses import fused
    from rlox.types import Clock

    ppo = PPO(
        "CartPole-v1", n_envs=N_ENVS, seed=0, n_steps=N_STEPS, batch_size=batch_size, n_epochs=1
    )
    rollout = ppo.collector.collect(ppo.policy, N_STEPS)
    learner = ppo.learner
    learner.loss = getattr(fused, objective)(ent_coef=0.01)
    before = deepcopy(learner.state())

    def operation() -> None:
        learner.restore(before)
        learner.update(rollout, Clock())

    def answer() -> Results:
        operation()
        return {name: weight.numpy() for name, weight in learner.state()["weights"].items()}

    return operation, answer


ROWS = {"P22": p22}

if __name__ == "__main__":
    sys.exit(run(ROWS, "ppo_losses", __doc__ or ""))
