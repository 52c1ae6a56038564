"""Work that never changes, of the kind that a case does, so that the machine's speed cancels out.

A peer gets faster and slower with its versions. A yardstick is a handful of lines over NumPy or torch,
which every installation has: what a case takes beside it is held against what it took in an earlier run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import Runner
from harness.timing import LocalRunner

# Small enough for the second-level cache: what lies beyond is shared with everybody else's work, and then
# the yardstick would be what is noisy.
VECTOR_SIZE, COPY_SIZE = 4_096, 1 << 15  # numbers
TABLE_ROWS, GATHER_SIZE = 10_000, 256  # rows, and rows at a time
WIDTH, BATCH = 64, 64
Operation = Callable[[], object]


def arithmetic() -> Operation:
    """Multiplications, additions and an exponential of numbers in the nearest cache."""
    numbers = np.random.default_rng(0).normal(size=VECTOR_SIZE)
    out = np.empty_like(numbers)

    def work() -> None:
        np.multiply(numbers, 0.99, out)
        np.add(out, numbers, out)
        np.exp(out, out)

    return work


def calls() -> Operation:
    """Short calls from Python into C, each with little to do."""
    numbers, out = np.arange(8.0), np.empty(8)
    add = np.add

    def work() -> None:
        for _ in range(16):
            add(numbers, numbers, out)

    return work


def memory() -> Operation:
    """A copy of a quarter of a megabyte."""
    source, target = np.ones(COPY_SIZE), np.zeros(COPY_SIZE)
    return lambda: np.copyto(target, source)


def gather() -> Operation:
    """Rows from all over a table, others each time."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(TABLE_ROWS, 8)).astype(np.float32)
    turns = itertools.cycle(list(rng.integers(0, TABLE_ROWS, (GATHER_SIZE, GATHER_SIZE))))
    out = np.empty((GATHER_SIZE, 8), np.float32)
    return lambda: table.take(next(turns), axis=0, out=out, mode="clip")


def network() -> Operation:
    """A small network forward and back, and a step of its weights, with torch."""
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
    """The work of one of `KINDS`, ready to be sampled."""
    return LocalRunner(KINDS[kind](), dict)
