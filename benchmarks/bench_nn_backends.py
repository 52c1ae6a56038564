"""Steps of learning and acting: the native engine beside torch, torch.compile, Candle and Burn, and beside
what the machine's products of matrices allow.

N0: the products of a hidden layer by themselves. N1: the four rows of the original's page of results, each
engine behind the same traits on the same numbers. N2: a gradient step of every algorithm that the native
engine has, through rlox's learners, with the batches of the presets. CPU seconds of one thread.

The limits are no peers: the step's multiplications and additions, counted from the shapes, at the rate that
products of 256 x 256 by 256 x 256 have in the same rounds, in the native engine and in torch's BLAS.

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
from harness.network_work import Sizes, arrays, products
from harness.programs import ProgramRunner, example, over
from harness.timing import LocalRunner
from harness.updates import made, prepared, steps_of_an_update

WIDE = 256
LIMIT, BLAS_LIMIT = "limit", "limit of torch's BLAS"
SHARE = 0.75  # of the limit, where a step is bound by its products
# rows and widths of a hidden layer
LAYERS = ((256, 256), (64, 256), (40, 256), (256, 64), (64, 64), (40, 64))
# those of the original's page of results, which leaves sizes open but for the batches
ROWS_OF_SEED = (
    ("DQN TD step", "dqn", Sizes(4, 2, 64, 64)),
    ("PPO step", "ppo", Sizes(4, 2, 64, 64)),
    ("sample of a squashed Gaussian", "act", Sizes(17, 6, 256, 1)),
    ("critic step", "critic", Sizes(23, 1, 256, 256)),
)
# algorithm, environment, its sizes, rows of a batch in the presets
ALGORITHMS = (
    ("ppo", "CartPole-v1", 4, 2, 256),
    ("a2c", "CartPole-v1", 4, 2, 40),
    ("dqn", "CartPole-v1", 4, 2, 64),
    ("sac", "Pendulum-v1", 3, 1, 256),
    ("td3", "Pendulum-v1", 3, 1, 256),
)
BEHIND_TRAITS = ("ppo", "dqn")  # steps of algorithms that the traits have
OTHER_NUMBERS = "a batch of drawn numbers"


def n0(context: Context) -> Iterator[Case]:
    """How fast the machine multiplies."""
    for rows, width in LAYERS:
        sizes = Sizes(1, 1, width, rows)
        yield Case(
            row="N0",
            work="products of a hidden layer: forward, back to its inputs, to its weights",
            size=f"{rows} x {width} x {width}, {work_of(6 * rows * width**2)}",
            ours=(program("native", "cpu", "products", sizes, gated=False),),
            peers=(System("torch's BLAS", "torch", lambda s=sizes: blas(s)),),
            tolerance=Tolerance(1e-5),
        )


def n1(context: Context) -> Iterator[Case]:
    """The four rows of the original's page, by engines behind the same traits."""
    for name, work, sizes in ROWS_OF_SEED:
        flops = products(work, sizes)
        goals = goals_of(flops)
        yield Case(
            row="N1",
            work="a step behind the traits",
            size=f"{name}, {described(sizes)}, {work_of(flops)}",
            ours=(program("native", "cpu", work, sizes, goals, note=f"over {over('cpu')}"),),
            peers=(*torch_systems(work, sizes), *libraries(work, sizes), *limits(flops)),
            tolerance=Tolerance(1e-4, 2e-6),
        )


def n2(context: Context) -> Iterator[Case]:
    """A gradient step of each algorithm, 64 and 256 wide."""
    for algo, env, obs, outputs, rows in ALGORITHMS:
        for width in (64, WIDE):
            sizes = Sizes(obs, outputs, width, rows)
            flops, case = products(algo, sizes), (algo, env, width, rows)
            scale = 1 / steps_of_an_update(algo)
            peers = [System("torch", "torch", lambda c=case: learner(*c, "torch"), scale=scale)]
            peers += torch_systems(algo, sizes, compared=False)
            if algo in BEHIND_TRAITS:
                peers += libraries(algo, sizes, compared=False)
            yield Case(
                row="N2",
                work="a gradient step",
                size=f"{algo.upper()}, {described(sizes)}, {work_of(flops)}",
                ours=(
                    System(
                        "native",
                        "rlox",
                        lambda c=case: learner(*c, "native"),
                        goals=goals_of(flops),
                        scale=scale,
                    ),
                ),
                peers=(*peers, *limits(flops)),
                tolerance=Tolerance(1e-3, 1e-4),
            )


def goals_of(flops: float) -> tuple[Goal, ...]:
    """What products take most of has a share of the limit to reach."""
    return (Goal(SHARE, LIMIT),) if flops > 5e7 else ()


def described(sizes: Sizes) -> str:
    """Widths and rows."""
    return f"{sizes.width}x{sizes.width}, batch {sizes.rows}"


def work_of(flops: float) -> str:
    """Multiplications and additions."""
    return f"{flops / 1e6:.3g} MFLOP"


def program(
    name: str, engine: str, work: str, sizes: Sizes, goals: tuple[Goal, ...] = (), **options: Any
) -> System:
    """A process of one of the examples in Rust."""
    package = f"engine {engine}" if engine == "cpu" else engine

    def prepare() -> Runner:
        given = arrays(work, sizes) if work != "products" else {}
        return ProgramRunner(example(engine), (work, *astuple(sizes)), given)

    return System(name, package, prepare, goals, **options)


def libraries(work: str, sizes: Sizes, compared: bool = True) -> list[System]:
    """The tensor libraries in Rust."""
    return [
        program(name, engine, work, sizes, compared=compared, note=noted(over(engine), compared))
        for name, engine in (("Candle", "candle"), ("Burn", "burn"))
    ]


def torch_systems(work: str, sizes: Sizes, compared: bool = True) -> list[System]:
    """Plain torch, and the same through torch.compile."""

    def prepare(compiled: bool) -> Runner:
        from harness.torch_steps import runner

        return runner(work, sizes, arrays(work, sizes), compiled)

    return [
        System(
            "torch eager",
            "torch",
            lambda: prepare(False),
            compared=compared,
            note=noted("autograd, fused Adam", compared),
        ),
        System(
            "torch compiled",
            "inductor",
            lambda: prepare(True),
            compared=compared,
            note=noted("losses through torch.compile, fused Adam", compared),
        ),
    ]


def noted(text: str, compared: bool) -> str:
    """With what differs, where it does."""
    return text if compared else f"{text}; {OTHER_NUMBERS}"


def limits(flops: float) -> list[System]:
    """So many operations at the rates of products of 256 x 256 by 256 x 256."""
    square = Sizes(1, 1, WIDE, WIDE)
    scale = flops / (6 * WIDE**3)
    both: dict[str, Any] = {"bound": True, "compared": False, "scale": scale}
    return [
        program(LIMIT, "cpu", "products", square, note="through the native engine", **both),
        System(BLAS_LIMIT, "torch", lambda: blas(square), **both),
    ]


def blas(sizes: Sizes) -> Runner:
    """Torch's products."""
    from harness.torch_steps import plain_products

    return plain_products(sizes.rows, sizes.width)


class Updates(LocalRunner):
    """Updates of a learner, each sample from the same weights: what has learned a batch by heart has numbers
    too small to be normal.
    """

    def __init__(self, run: Any, learner: Any, batch: Any, clock: Any) -> None:
        self.learner, self.state = learner, deepcopy(learner.state())
        super().__init__(
            lambda: learner.update(batch, clock), self.weights, time.process_time, run.close
        )

    def sample(self, loops: int) -> float:
        """As any, from the state that it was made with."""
        self.learner.restore(self.state)
        return super().sample(loops)

    def weights(self) -> Results:
        """All parameters after one update."""
        self.learner.restore(self.state)
        self.operation()
        state = self.learner.policy.state_dict()
        return {"weights": np.concatenate([w.numpy().ravel() for w in state.values()])}


@lru_cache(1)
def torch_run(algo: str, env: str, width: int, rows: int) -> tuple[Any, Any, Any]:
    """The run whose second batch both of rlox's engines learn from, and its learner's state."""
    run, batch, clock = prepared(algo, env, width, rows)
    return run, batch, clock


def learner(algo: str, env: str, width: int, rows: int, backend: str) -> Runner:
    """The learner of that engine on that batch, from the state of torch's."""
    run, batch, clock = torch_run(algo, env, width, rows)
    own = run
    if backend != "torch":
        own = made(algo, env, width, rows, backend)
        own.learner.restore(deepcopy(run.learner.state()))
    return Updates(own, own.learner, batch, clock)


ROWS = {"N0": n0, "N1": n1, "N2": n2}

if __name__ == "__main__":
    sys.exit(run(ROWS, "nn_backends", __doc__ or ""))
