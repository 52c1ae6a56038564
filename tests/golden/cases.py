"""Lists every golden case by name: the function that makes its arrays and saved folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from helpers.tagged_buffers import RINGS, TIERED

from golden import formats, training
from golden.files import Arrays, UnknownCase

Make = Callable[[Path], dict[str, Arrays]]
"""Makes a case: returns arrays by the name of their npz file, and writes folders below the given path."""

PINNED = ("annealed", "sac", "recurrent", "iql", "grpo", "native_ppo")
"""Runs that CI compares bit for bit: rollouts and replay in torch, memory, a dataset, text, native."""


def _without_place(make: Callable[..., dict[str, Arrays]], *args: str) -> Make:
    return lambda _: make(*args)


CASES: Mapping[str, Make] = {
    **{f"buffers/{name}": partial(formats.make_ring, name) for name in RINGS},
    **{f"buffers/{name}": partial(formats.make_tiered, name) for name in TIERED},
    **{f"buffers/{n}": partial(formats.make_data, n) for n in ("dataset", "dataset_normalized")},
    **{f"environments/{e}.single": _without_place(formats.make_single, e) for e in formats.ENVS},
    **{
        f"environments/{env}.{precision}": _without_place(formats.make_batch, env, precision)
        for env in formats.ENVS
        for precision in ("f64", "f32")
    },
    **{f"datasets/{env}": partial(training.make_dataset, env) for env in training.EPISODES},
    "runs/llama": training.make_llama,
    **{f"runs/{name}": partial(training.make_trace, name) for name in training.RUNS},
    **{f"runs/{name}.after": partial(training.make_continuation, name) for name in training.RUNS},
}


def matches(name: str, asked: str) -> bool:
    """Return whether `asked` is the case's name, its last part without its ending, or a matching pattern."""
    return fnmatchcase(name, asked) or name.partition("/")[2].partition(".")[0] == asked


def select(asked: Sequence[str]) -> list[str]:
    """Return the cases of those names or patterns in their order, or all cases without any names.

    Raises `UnknownCase` if a name matches no case.
    """
    for one in asked:
        if not any(matches(name, one) for name in CASES):
            raise UnknownCase(f"no golden case is {one!r}; `python tests/golden list` shows them")
    return [name for name in CASES if not asked or any(matches(name, one) for one in asked)]
