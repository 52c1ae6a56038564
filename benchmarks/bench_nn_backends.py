"""Gradient steps and acting: the native engine beside torch, torch.compile, Candle, Burn and a limit.

N0 measures the matrix products of a hidden layer alone. N1 has the four rows of the original's page of
results; each engine runs behind the same traits on the same numbers. N2 measures a gradient step of every
algorithm that the native engine has, through rlox's learners, with the batches of the presets. The times are
CPU seconds of one thread.

The limits are no peers. A limit is the time of the step's multiplications and additions, which are counted
from the shapes, at the rate of products of 256 x 256 by 256 x 256. That rate is measured in the same rounds,
in the native engine and in torch's BLAS.

    cargo build --release -p rlox-nn --example steps_cpu
    (cd rust/rlox-candle && cargo build --release --example steps_candle)
    (cd rust/rlox-burn && cargo build --release --example steps_burn)
    python benchmarks/bench_nn_backends.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import astuple
from functools import lru_cache
from typing import Any

import numpy as np
from harness.case import Case, Goal, Results, Runner, System, Tolerance
from harness.cli import Context, run
from harness.network_work import Sizes, arrays, product_flops
from harness.programs import ProgramRunner, example_path, math_library
from harness.timing import LocalRunner
from harness.updates import make_run_with_batches, second_update, steps_per_update

WIDTH = 256
LIMIT, BLAS_LIMIT = "limit", "limit of torch's BLAS"
LIMIT_SHARE = 0.75  # share of the limit to reach, in steps that matrix products dominate
# rows of a batch, width of a hidden layer
LAYERS = ((256, 256), (64, 256), (40, 256), (256, 64), (64, 64), (40, 64))
# The rows of the original's page of results, which names only the batch sizes.
ORIGINAL_ROWS = (
    ("DQN TD step", "dqn", Sizes(4, 2, 64, 64)),
    ("PPO step", "ppo", Sizes(4, 2, 64, 64)),
    ("sample of a squashed Gaussian", "act", Sizes(17, 6, 256, 1)),
    ("critic step", "critic", Sizes(23, 1, 256, 256)),
)
# algorithm, environment, size of an observation, outputs, rows of a batch in the presets
ALGORITHMS = (
    ("ppo", "CartPole-v1", 4, 2, 256),
    ("a2c", "CartPole-v1", 4, 2, 40),
    ("dqn", "CartPole-v1", 4, 2, 64),
    ("sac", "Pendulum-v1", 3, 1, 256),
    ("td3", "Pendulum-v1", 3, 1, 256),
)
TRAIT_ALGOS = ("ppo", "dqn")  # algorithms that have a step behind the traits
OTHER_BATCH_NOTE = "a batch of drawn numbers"


def n0(context: Context) -> Iterator[Case]:
    """Yield the speed of matrix products on this machine."""
    for rows, width in LAYERS:
        sizes = Sizes(1, 1, width, rows)
        yield Case(
            row="N0",
            work="products of a hidden layer: forward, back to its inputs, to its weights",
            size=f"{rows} x {width} x {width}, {flop_text(6 * rows * width**2)}",
            ours=(program_system("native", "cpu", "products", sizes, is_gated=False),),
            peers=(System("torch's BLAS", "torch", lambda s=sizes: blas_runner(s)),),
            tolerance=Tolerance(1e-5),
        )


def n1(context: Context) -> Iterator[Case]:
    """Yield the four rows of the original's page, for engines behind the same traits."""
    for name, work, sizes in ORIGINAL_ROWS:
        flops = product_flops(work, sizes)
        goals = limit_goals(flops)
        yield Case(
            row="N1",
            work="a step behind the traits",
            size=f"{name}, {sizes_text(sizes)}, {flop_text(flops)}",
            ours=(program_system("native", "cpu", work, sizes, goals, note=f"over {math_library('cpu')}"),),
            peers=(
                *torch_systems(work, sizes),
                *library_systems(work, sizes),
                *limit_systems(flops),
            ),
            tolerance=Tolerance(1e-4, 2e-6),
        )


def n2(context: Context) -> Iterator[Case]:
    """Yield a gradient step of each algorithm, with networks 64 and 256 wide."""
    for algo, env, obs, outputs, rows in ALGORITHMS:
        for width in (64, WIDTH):
            sizes = Sizes(obs, outputs, width, rows)
            flops, case = product_flops(algo, sizes), (algo, env, width, rows)
            scale = 1 / steps_per_update(algo)
            peers = [System("torch", "torch", lambda c=case: learner_runner(*c, "torch"), scale=scale)]
            peers += torch_systems(algo, sizes, compared=False)
            if algo in TRAIT_ALGOS:
                peers += library_systems(algo, sizes, compared=False)
            yield Case(
                row="N2",
                work="a gradient step",
                size=f"{algo.upper()}, {sizes_text(sizes)}, {flop_text(flops)}",
                ours=(
                    System(
                        "native",
                        "rlox",
                        lambda c=case: learner_runner(*c, "native"),
                        goals=limit_goals(flops),
                        scale=scale,
                    ),
                ),
                peers=(*peers, *limit_systems(flops)),
                tolerance=Tolerance(1e-3, 1e-4),
            )


def limit_goals(flops: float) -> tuple[Goal, ...]:
    """Return a share of the limit as the goal of steps that matrix products dominate."""
    return (Goal(LIMIT_SHARE, LIMIT),) if flops > 5e7 else ()


def sizes_text(sizes: Sizes) -> str:
    """Return the widths and the batch size as text."""
    return f"{sizes.width}x{sizes.width}, batch {sizes.rows}"


def flop_text(flops: float) -> str:
    """Return the number of multiplications and additions as text."""
    return f"{flops / 1e6:.3g} MFLOP"


def program_system(
    name: str, engine: str, work: str, sizes: Sizes, goals: tuple[Goal, ...] = (), **options: Any
) -> System:
    """Return a system that runs one of the Rust examples in a process."""
    package = f"engine {engine}" if engine == "cpu" else engine

    def prepare() -> Runner:
        input_arrays = arrays(work, sizes) if work != "products" else {}
        return ProgramRunner(example_path(engine), (work, *astuple(sizes)), input_arrays)

    return System(name, package, prepare, goals, **options)


def library_systems(work: str, sizes: Sizes, compared: bool = True) -> list[System]:
    """Return the tensor libraries in Rust."""
    return [
        program_system(
            name,
            engine,
            work,
            sizes,
            is_compared=compared,
            note=note_text(math_library(engine), compared),
        )
        for name, engine in (("Candle", "candle"), ("Burn", "burn"))
    ]


def torch_systems(work: str, sizes: Sizes, compared: bool = True) -> list[System]:
    """Return plain torch, and torch with torch.compile."""

    def prepare(compiled: bool) -> Runner:
        from harness.torch_steps import runner

        return runner(work, sizes, arrays(work, sizes), compiled)

    return [
        System(
            "torch eager",
            "torch",
            lambda: prepare(False),
            is_compared=compared,
            note=note_text("autograd, fused Adam", compared),
        ),
        System(
            "torch compiled",
            "inductor",
            lambda: prepare(True),
            is_compared=compared,
            note=note_text("losses through torch.compile, fused Adam", compared),
        ),
    ]


def note_text(text: str, compared: bool) -> str:
    """Return the note; it mentions the other batch if results are not compared."""
    return text if compared else f"{text}; {OTHER_BATCH_NOTE}"


def limit_systems(flops: float) -> list[System]:
    """Return systems that do `flops` operations at the rate of products of 256 x 256 by 256 x 256."""
    square = Sizes(1, 1, WIDTH, WIDTH)
    scale = flops / (6 * WIDTH**3)
    limit_options: dict[str, Any] = {"is_bound": True, "is_compared": False, "scale": scale}
    return [
        program_system(LIMIT, "cpu", "products", square, note="through the native engine", **limit_options),
        System(BLAS_LIMIT, "torch", lambda: blas_runner(square), **limit_options),
    ]


def blas_runner(sizes: Sizes) -> Runner:
    """Return a runner of torch's matrix products."""
    from harness.torch_steps import products_runner

    return products_runner(sizes.rows, sizes.width)


class UpdateRunner(LocalRunner):
    """Repeat a learner's update; every sample starts from the same weights.

    A learner that has memorised the batch has numbers that are too small to be normal (denormal floats).
    """

    def __init__(self, run: Any, learner: Any, batch: Any, clock: Any) -> None:
        self.learner, self.state = learner, deepcopy(learner.state())
        super().__init__(lambda: learner.update(batch, clock), self.weights, time.process_time, run.close)

    def sample(self, loops: int) -> float:
        """Restore the initial state, then take a sample."""
        self.learner.restore(self.state)
        return super().sample(loops)

    def weights(self) -> Results:
        """Return all parameters after one update."""
        self.learner.restore(self.state)
        self.operation()
        state = self.learner.policy.state_dict()
        return {"weights": np.concatenate([w.numpy().ravel() for w in state.values()])}


@lru_cache(1)
def torch_run(algo: str, env: str, width: int, rows: int) -> tuple[Any, Any, Any]:
    """Return the run whose second batch both engines of rlox learn from, with the batch and the clock."""
    run, batch, clock = second_update(algo, env, width, rows)
    return run, batch, clock


def learner_runner(algo: str, env: str, width: int, rows: int, backend: str) -> Runner:
    """Return a runner of that engine's learner on the same batch, with the state of torch's learner."""
    source_run, batch, clock = torch_run(algo, env, width, rows)
    learner_run = source_run
    if backend != "torch":
        learner_run = make_run_with_batches(algo, env, width, rows, backend)
        learner_run.learner.restore(deepcopy(source_run.learner.state()))
    return UpdateRunner(learner_run, learner_run.learner, batch, clock)


ROWS = {"N0": n0, "N1": n1, "N2": n2}

if __name__ == "__main__":
    sys.exit(run(ROWS, "nn_backends", __doc__ or ""))
