"""A self-test of the native engine: its results for fixed networks are compared with torch's in float64.

The kernels are selected at run time for the type of the CPU, so an untested type could give wrong results.
Two small networks are trained once per process, before any of the user's; this takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rlox._core import OffPolicyEngine, OnPolicyEngine

__all__ = ["EXPECTED", "OBS_DIM", "ROWS", "SIZES", "compute_results", "self_test_mismatch", "sine_values"]

OBS_DIM, ROWS = 3, 24
SIZES = (20, 16)  # hidden widths; only the second is a multiple of the CPU's vector length
RELATIVE_TOLERANCE = 1e-4  # of an expected number; typical errors are 1e-7

# Three numbers after two steps of Adam, for PPO with tanh and DQN with relu: the dot products of the
# parameters and of Adam's first moments with fixed cosines, and the norm of the gradient.
# tests/unit/policies/test_golden.py computes the numbers by autograd.
EXPECTED: dict[str, tuple[float, float, float]] = {
    "ppo": (0.39883973506, -0.0402111014075, 1.79044541582),
    "dqn": (0.215051717434, -0.0119898762231, 0.213148273392),
}


def sine_values(frequency: float, *shape: int) -> NDArray[np.float32]:
    """Return deterministic numbers in [-1, 1]."""
    values: NDArray[np.float32] = np.sin(frequency * np.arange(1, 1 + np.prod(shape))).astype(np.float32)
    return values.reshape(shape)


@cache
def self_test_mismatch() -> str | None:
    """Return the difference from torch's results; None if there is none."""
    for name, expected in EXPECTED.items():
        result = compute_results(name)
        if not np.allclose(result, expected, rtol=RELATIVE_TOLERANCE, atol=0.0):
            return f"{name} gives {_format_numbers(result)}, expected {_format_numbers(expected)}"
    return None


def compute_results(name: str) -> tuple[float, float, float]:
    """Return the engine's three numbers for a key of `EXPECTED`."""
    return {"ppo": _ppo, "dqn": _dqn}[name]()


def _ppo() -> tuple[float, float, float]:
    layers = [*_parameter_shapes("actor", 2), *_parameter_shapes("critic", 1)]
    engine = OnPolicyEngine(
        layers, kind="choices", size=2, obs_dim=OBS_DIM, actor=SIZES, critic=SIZES, activation="tanh"
    )
    vector, moments, steps = _initial_state(len(engine))
    obs, choices = sine_values(0.7, ROWS, OBS_DIM), np.arange(ROWS) % 2
    columns = [sine_values(rate, ROWS) for rate in (0.9, 1.1, 1.3, 1.7)]
    order = np.stack([np.arange(ROWS)] * 2)
    metrics = engine.ppo(
        vector, moments[0], moments[1], steps, obs, choices, columns[0] * 0.1 - 0.7,
        columns[1], columns[2], columns[3], order,
        batch_size=ROWS, learning_rate=0.01, clip_eps=0.2, vf_coef=0.5, ent_coef=0.01, adam_eps=1e-3,
    )  # fmt: skip
    return _summarize(vector, moments[0], metrics["grad_norm"])


def _dqn() -> tuple[float, float, float]:
    engine = OffPolicyEngine(
        "dqn", {"q": _parameter_shapes("q", 4)}, size=4, obs_dim=OBS_DIM, hidden=SIZES, activation="relu",
        dueling=False,
    )  # fmt: skip
    length = engine.vector_lengths["q"]
    vector, moments, steps = _initial_state(length)
    target, shape = 0.3 * sine_values(0.5, length), (2, ROWS)
    metrics = engine.learn(
        {"q": (vector, moments[0], moments[1], steps)}, {"q": target}, sine_values(0.7, *shape, OBS_DIM),
        np.arange(2 * ROWS).reshape(shape) % 4, 2.0 * sine_values(0.9, *shape),
        sine_values(1.1, *shape, OBS_DIM), np.full(shape, 0.9, np.float32), np.empty(shape, np.float32),
        learning_rate=0.01, max_grad_norm=None, double=True, loss="huber",
        adam_eps=1e-3,
    )  # fmt: skip
    return _summarize(vector, moments[0], metrics["grad_norm"])


def _parameter_shapes(prefix: str, outputs: int) -> list[tuple[str, Sequence[int]]]:
    """Return names and shapes of a network's parameters, as torch has them."""
    widths, shapes = (OBS_DIM, *SIZES, outputs), list[tuple[str, Sequence[int]]]()
    for i, (inputs, width) in enumerate(pairwise(widths)):
        shapes += [
            (f"{prefix}.{2 * i}.weight", (width, inputs)),
            (f"{prefix}.{2 * i}.bias", (width,)),
        ]
    return shapes


def _initial_state(
    length: int,
) -> tuple[NDArray[np.float32], list[NDArray[np.float32]], NDArray[np.int64]]:
    """Return the initial parameters, moments and step count."""
    moments = [np.zeros(length, np.float32) for _ in range(2)]
    return 0.3 * sine_values(0.8, length), moments, np.zeros(1, np.int64)


def _summarize(
    vector: NDArray[np.float32], moments: NDArray[np.float32], norm: float
) -> tuple[float, float, float]:
    direction = np.cos(np.arange(len(vector)))
    return float(direction @ vector), float(direction @ moments), norm


def _format_numbers(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)
