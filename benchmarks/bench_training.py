"""Training beside Stable-Baselines3, rl-zoo3's hyperparameters: A2C (P14) and DQN (P16) on CartPole-v1.

The whole of a run, and its collection and updates apart, of the same runs, in CPU seconds of their one
thread. rlox steps its native environments or, beside them, Gymnasium's as Stable-Baselines3 does.

    pip install -c constraints.txt -e '.[peers]' && python benchmarks/bench_training.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.case import Case, Goal, System, Tolerance
from harness.cli import Context, run
from harness.training import PartRunner, Recorded, Stopwatch, Trained
from omegaconf import OmegaConf

ENV = "CartPole-v1"
PRESETS = Path(__file__).resolve().parents[1] / "conf" / "tuned"
PARTS = {"total": "training", "collect": "collection", "update": "updates"}
A2C_STEPS = 10_000  # 250 rollouts of 40
DQN_STEPS = 4_096  # the warm-up of 1,000, then 13 trainings of 128 batches


def p14(context: Context) -> Iterator[Case]:
    """A2C: 250 updates of 40 transitions."""
    return cases("P14", "a2c", A2C_STEPS, native=4.5, gymnasium=3.0)


def p16(context: Context) -> Iterator[Case]:
    """DQN: 1,664 updates of 64 transitions, two hidden layers of 256."""
    return cases("P16", "dqn", DQN_STEPS, native=2.0, gymnasium=2.0)


def cases(row: str, algo: str, steps: int, native: float, gymnasium: float) -> Iterator[Case]:
    """The whole of the runs with its goals, then their parts."""
    preset: Any = OmegaConf.to_container(OmegaConf.load(PRESETS / algo / f"{ENV}.yaml"))
    ours = {
        "rlox": (Recorded(lambda seed: train_rlox(algo, preset, "native", steps, seed)), native),
        "rlox, Gymnasium": (
            Recorded(lambda seed: train_rlox(algo, preset, "gymnasium", steps, seed)),
            gymnasium,
        ),
    }
    peer = Recorded(lambda seed: train_sb3(algo, preset, steps, seed))
    for part, work in PARTS.items():
        yield Case(
            row=row,
            work=f"{algo.upper()} on {ENV}: {work}",
            size=f"{steps:,} steps",
            ours=tuple(
                system(name, "rlox", runs, part, *([Goal(goal)] if part == "total" else []))
                for name, (runs, goal) in ours.items()
            ),
            peers=(system("SB3", "sb3", peer, part),),
            tolerance=Tolerance(0.0),  # as many steps and updates
            elements=steps,
        )


def system(name: str, package: str, runs: Recorded, part: str, *goals: Goal) -> System:
    """One part of one system's runs."""
    return System(name, package, lambda: PartRunner(runs, part), goals)


def train_rlox(algo: str, preset: dict[str, Any], backend: str, steps: int, seed: int) -> Trained:
    """One run of rlox."""
    from rlox.build import build
    from rlox.configs import make_run

    tree = {
        "algo": {"name": algo, **preset["algo"]},
        "env": {"id": ENV, **preset["env"], "backend": backend},
        "seed": seed,
        "total_steps": steps,
    }
    if "buffer" in preset:
        tree["buffer"] = {"name": "uniform", **preset["buffer"]}
    algorithm = build(make_run(tree))
    watch = Stopwatch()
    algorithm.source.next = watch.timed("collect", algorithm.source.next)
    algorithm.learner.update = watch.timed("update", algorithm.learner.update)
    clock = watch.timed("total", algorithm.fit)()
    algorithm.close()
    return Trained(watch.seconds, {"env_steps": clock.env_steps, "updates": clock.updates})


def train_sb3(algo: str, preset: dict[str, Any], steps: int, seed: int) -> Trained:
    """The same in Stable-Baselines3."""
    from learning import sb3

    model, watch = sb3.make(algo, ENV, preset, seed), Stopwatch()
    model.collect_rollouts = watch.timed("collect", model.collect_rollouts)
    model.train = watch.timed("update", model.train)
    watch.timed("total", model.learn)(steps)
    counts = {"env_steps": model.num_timesteps, "updates": model._n_updates}
    return Trained(watch.seconds, counts)


ROWS = {"P14": p14, "P16": p16}

if __name__ == "__main__":
    sys.exit(run(ROWS, "training", __doc__))
