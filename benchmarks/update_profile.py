"""Profile a gradient step: the time of matrix products and of everything else, by networks and batches.

The script measures the CPU time of the same updates repeatedly, and counts torch's operations in a step. It
also times the matrix products alone, with the same shapes in a loop with nothing between: any learner with
these products takes at least that time. Finally it compares oneDNN with torch's BLAS: forward, and back to
inputs and weights.

    python benchmarks/update_profile.py
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness.machine import describe_commit, describe_machine, utc_now
from harness.threads import ensure_single_threaded
from harness.updates import second_update
from torch.utils._python_dispatch import TorchDispatchMode

OUT = Path(__file__).parent / "results"
ROUNDS = 9
SECONDS = 0.05  # of a sample
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
# algorithm, environment, width, rows of a batch
CASES = (
    ("ppo", "CartPole-v1", 64, 256),
    ("a2c", "CartPole-v1", 64, 40),
    ("dqn", "CartPole-v1", 256, 64),
    ("dqn", "CartPole-v1", 256, 256),
    ("sac", "Pendulum-v1", 64, 256),
    ("sac", "Pendulum-v1", 256, 256),
    ("td3", "Pendulum-v1", 64, 256),
    ("td3", "Pendulum-v1", 256, 256),
)
# rows of a batch, width
SIZES = ((256, 64), (64, 256), (256, 256), (256, 512))
Shapes = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # of the operands: sizes, strides


class OperationCounter(TorchDispatchMode):
    """Count operations, and record the shapes of the operands of products."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.products: Counter[tuple[str, Shapes]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        name = func.overloadpacket.__name__
        if name in PRODUCTS:
            self.products[name, tuple((tuple(a.shape), a.stride()) for a in args)] += 1
        return func(*args, **(kwargs or {}))


def time_call(call: Callable[[], Any], setup: Callable[[], Any] = lambda: None) -> float:
    """Return the CPU seconds of one call, the median of samples; `setup` runs before each, untimed."""
    call()
    loops, samples = 1, list[float]()
    while len(samples) < ROUNDS:
        setup()
        start = time.process_time()
        for _ in range(loops):
            call()
        elapsed = time.process_time() - start
        if elapsed < SECONDS:
            loops *= 2
        else:
            samples.append(elapsed / loops)
    return float(np.median(samples))


def make_operand(size: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """Make numbers with an operand's memory layout, also if one number stands for several elements."""
    n_numbers = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return torch.rand(n_numbers).sub_(0.5).as_strided(size, stride)


def time_products(products: Counter[tuple[str, Shapes]]) -> tuple[float, float]:
    """Return the seconds of these products alone, and their millions of multiplications and additions."""
    seconds = work = 0.0
    for (name, shapes), n_times in products.items():
        operands = [make_operand(*shape) for shape in shapes]
        seconds += n_times * time_call(lambda: getattr(torch, name)(*operands))  # noqa: B023
        (*rest, n, k), m = operands[-2].shape, operands[-1].shape[-1]
        work += n_times * 2e-6 * n * k * m * (rest[0] if rest else 1)
    return seconds, work


def measure(algo: str, env: str, width: int, batch_size: int) -> dict[str, Any]:
    """Measure one case; the figures are per gradient step."""
    run, batch, clock = second_update(algo, env, width, batch_size)
    learner = run.learner
    step_counter = learner.critic_optimizer if algo in ("sac", "td3") else learner.optimizer
    before = step_counter.steps
    with OperationCounter() as counter:
        learner.update(batch, clock)
    steps = step_counter.steps - before
    # Start from the same weights each time: a memorised batch leads to denormal numbers.
    state = deepcopy(learner.state())
    seconds = time_call(lambda: learner.update(batch, clock), lambda: learner.restore(state)) / steps
    products_seconds, work = (total / steps for total in time_products(counter.products))
    run.close()
    return {
        "algo": algo, "width": width, "batch_size": batch_size, "steps": steps, "seconds": seconds,
        "operations": counter.operations / steps, "products": counter.products.total() / steps,
        "megaflop": work, "products_seconds": products_seconds,
    }  # fmt: skip


def library_rates(rows: int, width: int) -> dict[str, Any]:
    """Return billions of multiplications and additions per second, by library and product of a layer."""
    sizes = (rows, width), (width, width), (width,), (rows, width)
    x, w, b, g = (torch.rand(*size) - 0.5 for size in sizes)
    linear = torch.nn.functional.linear

    def onednn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], "")
        return product

    calls: dict[str, dict[str, Callable[[], Any]]] = {
        "blas": {
            "forward": lambda: linear(x, w, b), "inputs": lambda: g @ w, "weights": lambda: g.T @ x,
        },
        "oneDNN": {
            "forward": lambda: onednn(x, w, b), "inputs": lambda: onednn(g, w.T),
            "weights": lambda: onednn(g.T, x.T),
        },
    }  # fmt: skip
    for direction, call in calls["oneDNN"].items():
        torch.testing.assert_close(call(), calls["blas"][direction](), rtol=1e-4, atol=1e-4)
    work = 2e-9 * rows * width * width
    rates = {
        library: {w: work / time_call(call) for w, call in calls_by_direction.items()}
        for library, calls_by_direction in calls.items()
    }
    return {"rows": rows, "width": width, "gflops": rates}


def render(report: dict[str, Any]) -> str:
    """Return a row for each case."""
    machine, commit = report["machine"], report["commit"]
    changed = " with local changes" if commit["changed"] else ""
    lines = [
        f"{report['date']}, commit {commit['id'][:12]}{changed}; {machine['cpu']}, {machine['blas']}, "
        f"{machine['cores']} cores, load {machine['load']} at the start. CPU time of one gradient step, "
        f"one thread, medians of {ROUNDS}; every second one of TD3's has the actor's in it.",
        "",
        "| step of | networks | batch | time | operations | products | MFLOP | alone | GFLOPS | share |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in report["cases"]:
        ms, products_ms = 1e3 * case["seconds"], 1e3 * case["products_seconds"]
        cells = [
            case["algo"].upper(), f"{case['width']}x{case['width']}", str(case["batch_size"]),
            f"{ms:.2f} ms", f"{case['operations']:.0f}", f"{case['products']:.0f}",
            f"{case['megaflop']:.1f}", f"{products_ms:.2f} ms", f"{case['megaflop'] / products_ms:.0f}",
            f"{100 * products_ms / ms:.0f}%",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    directions = ("forward", "inputs", "weights")
    lines += [
        "",
        "GFLOPS of a layer's products, torch's BLAS / oneDNN:",
        "",
        f"| batch | layer | {' | '.join(directions)} |",
        "|---|---|---|---|---|",
    ]
    for size in report["layers"]:
        rates_by_library = size["gflops"]
        rates = (
            f"{rates_by_library['blas'][direction]:.0f} / {rates_by_library['oneDNN'][direction]:.0f}"
            for direction in directions
        )
        cells = [str(size["rows"]), f"{size['width']}x{size['width']}", *rates]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure every case and write benchmarks/results/update_profile.json and .md."""
    ensure_single_threaded()
    torch.set_num_threads(1)
    machine, date, commit = describe_machine(), utc_now(), describe_commit()
    cases = [measure(*case) for case in CASES]
    with torch.no_grad():
        layers = [library_rates(*size) for size in SIZES]
    about = {"schema_version": 1, "date": date, "commit": commit, "machine": machine}
    report = {**about, "cases": cases, "layers": layers}
    (OUT / "update_profile.json").write_text(json.dumps(report, indent=1) + "\n")
    (OUT / "update_profile.md").write_text(render(report))
    print(render(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
