"""Single updates, which the suite `ci` measures instead of whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.case import Case, Results, Tolerance
from harness.systems import local_system
from harness.updates import second_update

UPDATES = (
    ("ppo", "CartPole-v1", 64, 64),
    ("dqn", "CartPole-v1", 64, 64),
    ("sac", "Pendulum-v1", 64, 64),
)  # algorithm, environment, width, batch


def steps() -> Iterator[Case]:
    """Yield an update of each of three algorithms."""
    for algo, env, width, batch in UPDATES:
        yield Case(
            row="U1",
            work=f"an update of {algo.upper()} on {env}",
            size=f"net {width}x{width}, batch {batch}",
            ours=(
                local_system("rlox", "rlox", lambda a=(algo, env, width, batch): update(*a), is_gated=False),
            ),
            peers=(),
            tolerance=Tolerance(0.0),
        )


def update(algo: str, env: str, width: int, batch_size: int) -> Any:
    """Repeat the learner's second update."""
    run, batch, clock = second_update(algo, env, width, batch_size)

    def answer() -> Results:
        return {"updates": np.array(1)}

    return lambda: run.learner.update(batch, clock), answer
