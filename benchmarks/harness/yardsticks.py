"""Yardsticks: fixed work of the same kind as a case, so that the machine's speed cancels out.

Peers get faster and slower with their versions. A yardstick is a few lines of NumPy or torch, which every
installation has. The ratio of a case to its yardstick is compared with the ratio in an earlier run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import Runner
from harness.timing import LocalRunner

# Small enough for the second-level cache: larger caches are shared with other programs, which would make the
# yardstick noisy.
VECTOR_SIZE, COPY_SIZE = 4_096, 1 << 15  # numbers
TABLE_ROWS, GATHER_SIZE = 10_000, 256  # rows of the table, rows that are gathered at a time
WIDTH, BATCH = 64, 64
Operation = Callable[[], object]


def arithmetic() -> Operation:
    """Multiply, add and exponentiate numbers in the first-level cache."""
    numbers = np.random.default_rng(0).normal(size=VECTOR_SIZE)
    out = np.empty_like(numbers)

    def work() -> None:
        np.multiply(numbers, 0.99, out)
        np.add(out, numbers, out)
        np.exp(out, out)

    return work


def calls() -> Operation:
    """Make short calls from Python into C that do little work."""
    numbers, out = np.arange(8.0), np.empty(8)
    add = np.add

    def work() -> None:
        for _ in range(16):
            add(numbers, numbers, out)

    return work


def memory() -> Operation:
    """Copy a quarter of a megabyte."""
    source, target = np.ones(COPY_SIZE), np.zeros(COPY_SIZE)
    return lambda: np.copyto(target, source)


def gather() -> Operation:
    """Gather scattered rows of a table, different ones each time."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(TABLE_ROWS, 8)).astype(np.float32)
    turns = itertools.cycle(list(rng.integers(0, TABLE_ROWS, (GATHER_SIZE, GATHER_SIZE))))
    out = np.empty((GATHER_SIZE, 8), np.float32)
    return lambda: table.take(next(turns), axis=0, out=out, mode="clip")


def network() -> Operation:
    """Run a small torch network forward and backward, and update its weights."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shapes = ((4, WIDTH), (WIDTH, WIDTH), (WIDTH, 2))
    weights = [torch.randn(shape, generator=generator).mul_(0.1).requires_grad_() for shape in shapes]
    inputs = torch.randn(BATCH, 4, generator=generator)

    def work() -> None:
        hidden = inputs
        for weight in weights:
            hidden = torch.tanh(hidden @ weight)
        gradients: Any = torch.autograd.grad(hidden.square().mean(), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=1e-6)

    return work


KINDS = {work.__name__: work for work in (arithmetic, calls, memory, gather, network)}


def yardstick(kind: str) -> Runner:
    """Return the work of one of `KINDS`, ready to be sampled."""
    return LocalRunner(KINDS[kind](), dict)
