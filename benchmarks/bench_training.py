"""Training beside Stable-Baselines3: PPO (P13), A2C (P14) and DQN (P16) on CartPole-v1, SAC and TD3 (P15)
on Pendulum-v1.

The whole of a run, its collection and its updates are measured in the same runs, in CPU seconds of one
thread. The hyperparameters are those of rl-zoo3, and also other networks, batches and numbers of
environments. rlox learns with torch and with its native engine. It steps its native environments and, for
comparison, those of Gymnasium, as Stable-Baselines3 does.

    pip install -c constraints.txt -e '.[peers]' && python benchmarks/bench_training.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.case import Case, Goal, System, Tolerance
from harness.cli import Context, run
from harness.training import PartRunner, RunCache, RunTimes, Stopwatch
from omegaconf import OmegaConf

PRESETS = Path(__file__).resolve().parents[1] / "conf" / "tuned"
PART_TITLES = {"total": "training", "collect": "collection", "update": "updates"}


@dataclass(frozen=True)
class TrainingWorkload:
    """A run with its preset and the given settings.

    `ratio_goals` are those of torch with native environments, of torch with Gymnasium's, and of the native
    engine with native environments.
    """

    row: str
    algo: str
    env: str
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    n_envs: int | None = None
    ratio_goals: tuple[float, float, float] | None = None

    @property
    def preset(self) -> dict[str, Any]:
        """The tuned preset with the settings applied."""
        path = PRESETS / self.algo / f"{self.env}.yaml"
        preset: Any = OmegaConf.to_container(OmegaConf.load(path))
        preset["algo"] |= self.settings
        if self.n_envs:
            preset["env"]["n_envs"] = self.n_envs
        return {k: preset[k] for k in ("algo", "env", "buffer") if k in preset}

    @property
    def size(self) -> str:
        """The number of steps, and the settings that differ from the preset."""
        names = {"net_arch": "net ", "batch_size": "batch ", "n_steps": "rollout "}
        parts = [f"{self.steps:,} steps"]
        for key, name in names.items():
            if key in self.settings:
                value = self.settings[key]
                parts.append(name + ("x".join(map(str, value)) if key == "net_arch" else str(value)))
        return ", ".join([*parts, *([f"{self.n_envs} envs"] if self.n_envs else [])])


def p13(context: Context) -> Iterator[Case]:
    """Yield PPO: minibatches of 256 transitions, 20 epochs, 8 environments."""
    cartpole = ("P13", "ppo", "CartPole-v1")
    yield from make_cases(TrainingWorkload(*cartpole, 4_096, ratio_goals=(1.8, 1.8, 10.0)))
    yield from make_cases(TrainingWorkload(*cartpole, 2_048, {"net_arch": [256, 256]}))
    yield from make_cases(TrainingWorkload(*cartpole, 2_048, {"batch_size": 64}))
    yield from make_cases(TrainingWorkload(*cartpole, 2_048, {"n_steps": 256}, n_envs=1))


def p14(context: Context) -> Iterator[Case]:
    """Yield A2C: an update for every 40 transitions."""
    cartpole = ("P14", "a2c", "CartPole-v1")
    yield from make_cases(TrainingWorkload(*cartpole, 10_000, ratio_goals=(1.8, 1.8, 35.0)))
    yield from make_cases(TrainingWorkload(*cartpole, 10_000, {"net_arch": [256, 256]}))
    yield from make_cases(TrainingWorkload(*cartpole, 10_000, {"n_steps": 40}, n_envs=1))


def p15(context: Context) -> Iterator[Case]:
    """Yield SAC and TD3: an update for every transition."""
    goals = {
        ("sac", 256): (1.3, 3.0), ("td3", 256): (1.3, 2.6), ("sac", 64): (1.3, 7.0), ("td3", 64): (1.3, 7.0),
    }  # fmt: skip
    for (algo, width), (goal, native_goal) in goals.items():
        for batch, n_envs in ((256, 1), (64, 1), (256, 8)):
            update_settings = {
                "train_freq": n_envs,
                "gradient_steps": n_envs,
                "learning_starts": 96,
            }
            settings = {**update_settings, "net_arch": [width, width], "batch_size": batch}
            workload_goals = (goal, goal, native_goal) if (batch, n_envs) == (256, 1) else None
            steps = 96 + 160 * (512 // width)
            yield from make_cases(
                TrainingWorkload("P15", algo, "Pendulum-v1", steps, settings, n_envs, workload_goals)
            )


def p16(context: Context) -> Iterator[Case]:
    """Yield DQN: two hidden layers of 256; a warm-up of 1,000 steps, then 128 batches at a time."""
    cartpole = ("P16", "dqn", "CartPole-v1")
    yield from make_cases(TrainingWorkload(*cartpole, 4_096, ratio_goals=(1.3, 1.3, 4.2)))
    yield from make_cases(
        TrainingWorkload(*cartpole, 2_048, {"batch_size": 256}, ratio_goals=(1.3, 1.3, 2.7))
    )
    yield from make_cases(TrainingWorkload(*cartpole, 4_096, {"net_arch": [64, 64]}))
    yield from make_cases(TrainingWorkload(*cartpole, 4_096, n_envs=8))


# by name: the engine that learns, the backend of the environments
RLOX_SYSTEMS = {
    "rlox": ("torch", "native"),
    "rlox, Gymnasium": ("torch", "gymnasium"),
    "native": ("native", "native"),
    "native, Gymnasium": ("native", "gymnasium"),
}


def make_cases(workload: TrainingWorkload) -> Iterator[Case]:
    """Yield a case for the whole runs, with its goals, then a case for each part."""
    goals = dict(zip(RLOX_SYSTEMS, workload.ratio_goals or (), strict=False))
    run_caches = {
        name: RunCache(
            lambda seed, engine_and_envs=engine_and_envs: train_rlox(workload, *engine_and_envs, seed)
        )
        for name, engine_and_envs in RLOX_SYSTEMS.items()
    }
    peer = RunCache(lambda seed: train_sb3(workload, seed))
    for part, title in PART_TITLES.items():
        part_goals = goals if part == "total" else {}
        systems = (
            system(name, "rlox", runs, part, *([Goal(part_goals[name])] if name in part_goals else []))
            for name, runs in run_caches.items()
        )
        yield Case(
            row=workload.row,
            work=f"{workload.algo.upper()} on {workload.env}: {title}",
            size=workload.size,
            ours=tuple(systems),
            peers=(system("SB3", "sb3", peer, part),),
            tolerance=Tolerance(0.0),  # the counts of steps and updates are equal
            elements=workload.steps,
        )


def system(name: str, package: str, runs: RunCache, part: str, *goals: Goal) -> System:
    """Return one part of one system's runs."""
    return System(name, package, lambda: PartRunner(runs, part), goals)


def train_rlox(workload: TrainingWorkload, engine: str, steps: str, seed: int) -> RunTimes:
    """Train rlox once with this engine and this backend of the environments."""
    from rlox.build import build
    from rlox.configs import make_run
    from rlox.types import FusedUpdate

    preset = workload.preset
    tree = {
        "algo": {"name": workload.algo, **preset["algo"], "backend": engine},
        "env": {"id": workload.env, **preset["env"], "backend": steps},
        "seed": seed,
        "total_steps": workload.steps,
    }
    if "buffer" in preset:
        tree["buffer"] = {"name": "uniform", **preset["buffer"]}
    algorithm = build(make_run(tree))
    watch = Stopwatch()

    def update_seconds(source_result: tuple[Any, Any]) -> float:
        return source_result[0].seconds if isinstance(source_result[0], FusedUpdate) else 0.0

    algorithm.source.next = watch.time_split_call("collect", algorithm.source.next, "update", update_seconds)
    algorithm.learner.update = watch.time_call("update", algorithm.learner.update)
    clock = watch.time_call("total", algorithm.fit)()
    algorithm.close()
    return RunTimes(watch.seconds, {"env_steps": clock.env_steps, "updates": clock.updates})


def train_sb3(workload: TrainingWorkload, seed: int) -> RunTimes:
    """Train Stable-Baselines3 once; it counts `train_freq` in steps of all its environments at once."""
    from learning import sb3

    preset = workload.preset
    if "train_freq" in preset["algo"] and workload.n_envs:
        preset["algo"]["train_freq"] = max(1, preset["algo"]["train_freq"] // workload.n_envs)
    model, watch = sb3.make(workload.algo, workload.env, preset, seed), Stopwatch()
    model.collect_rollouts = watch.time_call("collect", model.collect_rollouts)
    model.train = watch.time_call("update", model.train)
    watch.time_call("total", model.learn)(workload.steps)
    n_epochs = getattr(model, "n_epochs", 1)  # SB3 counts each epoch as an update
    counts = {"env_steps": model.num_timesteps, "updates": model._n_updates // n_epochs}
    return RunTimes(watch.seconds, counts)


ROWS = {"P13": p13, "P14": p14, "P15": p15, "P16": p16}

if __name__ == "__main__":
    sys.exit(run(ROWS, "training", __doc__))
