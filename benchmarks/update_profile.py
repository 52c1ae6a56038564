"""Where the time of a gradient step goes: matrix products, and everything else, by networks and batches.

The processor's time of the same updates again and again; how many operations of torch a step is made of;
and the products among them by themselves, the same shapes in a loop with nothing between: whatever learns
with these products cannot be faster than that. And how fast torch multiplies with oneDNN instead of its
BLAS: forward, and back to inputs and weights.

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
from harness.machine import describe_commit, describe_machine, now
from harness.threads import ensure_single_threaded
from harness.updates import prepared
from torch.utils._python_dispatch import TorchDispatchMode

OUT = Path(__file__).parent / "results"
ROUNDS = 9
SECONDS = 0.05  # of a sample
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
# algorithm, environment, widths, rows of a batch
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
# rows of a batch, widths
SIZES = ((256, 64), (64, 256), (256, 256), (256, 512))
Shapes = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # of the operands: sizes, strides


class Noted(TorchDispatchMode):
    """Counts operations, and keeps what is multiplied with what."""

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


def timed(call: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    """Seconds of the processor for one call, the median of samples; `before` each of them, untimed."""
    call()
    loops, samples = 1, list[float]()
    while len(samples) < ROUNDS:
        before()
        begun = time.process_time()
        for _ in range(loops):
            call()
        spent = time.process_time() - begun
        if spent < SECONDS:
            loops *= 2
        else:
            samples.append(spent / loops)
    return float(np.median(samples))


def filled(size: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """Numbers that lie in memory as an operand's did, one behind several places too."""
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return torch.rand(reach).sub_(0.5).as_strided(size, stride)


def alone(products: Counter[tuple[str, Shapes]]) -> tuple[float, float]:
    """Seconds of these products by themselves, and the millions of multiplications and additions."""
    seconds = work = 0.0
    for (name, shapes), times in products.items():
        operands = [filled(*shape) for shape in shapes]
        seconds += times * timed(lambda: getattr(torch, name)(*operands))  # noqa: B023
        (*rest, n, k), m = operands[-2].shape, operands[-1].shape[-1]
        work += times * 2e-6 * n * k * m * (rest[0] if rest else 1)
    return seconds, work


def measure(algo: str, env: str, width: int, batch_size: int) -> dict[str, Any]:
    """One case, of each gradient step."""
    run, batch, clock = prepared(algo, env, width, batch_size)
    learner = run.learner
    counted = learner.critic if algo in ("sac", "td3") else learner.optimizer
    before = counted.steps
    with Noted() as noted:
        learner.update(batch, clock)
    steps = counted.steps - before
    # from the same weights each time: what has learned a batch by heart has numbers too small to be normal
    state = deepcopy(learner.state())
    seconds = timed(lambda: learner.update(batch, clock), lambda: learner.restore(state)) / steps
    bare, work = (total / steps for total in alone(noted.products))
    run.close()
    return {
        "algo": algo, "width": width, "batch_size": batch_size, "steps": steps, "seconds": seconds,
        "operations": noted.operations / steps, "products": noted.products.total() / steps,
        "megaflop": work, "products_seconds": bare,
    }  # fmt: skip


def libraries(rows: int, width: int) -> dict[str, Any]:
    """Thousand millions of multiplications and additions a second, by library and product of a layer."""
    sizes = (rows, width), (width, width), (width,), (rows, width)
    x, w, b, g = (torch.rand(*size) - 0.5 for size in sizes)
    linear = torch.nn.functional.linear

    def onednn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], "")
        return found

    calls: dict[str, dict[str, Callable[[], Any]]] = {
        "blas": {
            "forward": lambda: linear(x, w, b), "inputs": lambda: g @ w, "weights": lambda: g.T @ x,
        },
        "oneDNN": {
            "forward": lambda: onednn(x, w, b), "inputs": lambda: onednn(g, w.T),
            "weights": lambda: onednn(g.T, x.T),
        },
    }  # fmt: skip
    for way, call in calls["oneDNN"].items():
        torch.testing.assert_close(call(), calls["blas"][way](), rtol=1e-4, atol=1e-4)
    work = 2e-9 * rows * width * width
    rates = {of: {w: work / timed(call) for w, call in ways.items()} for of, ways in calls.items()}
    return {"rows": rows, "width": width, "gflops": rates}


def render(report: dict[str, Any]) -> str:
    """A line for each case."""
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
        ms, bare = 1e3 * case["seconds"], 1e3 * case["products_seconds"]
        cells = [
            case["algo"].upper(), f"{case['width']}x{case['width']}", str(case["batch_size"]),
            f"{ms:.2f} ms", f"{case['operations']:.0f}", f"{case['products']:.0f}",
            f"{case['megaflop']:.1f}", f"{bare:.2f} ms", f"{case['megaflop'] / bare:.0f}",
            f"{100 * bare / ms:.0f}%",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    ways = ("forward", "inputs", "weights")
    lines += [
        "",
        "GFLOPS of a layer's products, torch's BLAS / oneDNN:",
        "",
        f"| batch | layer | {' | '.join(ways)} |",
        "|---|---|---|---|---|",
    ]
    for size in report["layers"]:
        of = size["gflops"]
        rates = (f"{of['blas'][way]:.0f} / {of['oneDNN'][way]:.0f}" for way in ways)
        cells = [str(size["rows"]), f"{size['width']}x{size['width']}", *rates]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure every case and write benchmarks/results/update_profile.json and .md."""
    ensure_single_threaded()
    torch.set_num_threads(1)
    machine, date, commit = describe_machine(), now(), describe_commit()
    cases = [measure(*case) for case in CASES]
    with torch.no_grad():
        layers = [libraries(*size) for size in SIZES]
    about = {"schema_version": 1, "date": date, "commit": commit, "machine": machine}
    report = {**about, "cases": cases, "layers": layers}
    (OUT / "update_profile.json").write_text(json.dumps(report, indent=1) + "\n")
    (OUT / "update_profile.md").write_text(render(report))
    print(render(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
