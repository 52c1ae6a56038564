"""Replay buffers: pushing (P4, P5), sampling (P6, P7) and prioritized sampling (P8).

Every system holds the same trajectory in a full buffer and samples different rows each time. `NumPy copy` and
`NumPy gather` only move the same bytes: they are bounds, not peers.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/bench_buffer_ops.py --install-original
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import replay_systems as systems
from harness.case import Case, Goal, System, Tolerance
from harness.cli import Context, run
from harness.replay import Array, ReplaySystem, Trajectory, fill, sample_check, single_transition
from harness.systems import ORIGINAL, RunnerFactory, local_system

VECTORS, BATCH, IMAGES, POOL = 100_000, 10_000, 1_024, 64
OBS_DIMS = {4: 1, 17: 6}  # size of an observation: size of an action
SAMPLE_SIZES, IMAGE_SIZES, PRIORITIZED = (32, 256, 1_024), (32, 256), 256
COPY, GATHER = "NumPy copy", "NumPy gather"
# Every sampled row was pushed; the mean of 4,096 uniform positions lies within six standard errors.
UNIFORM = Tolerance(0.0, 0.03)
SINGLY_NOTE = "a loop over single rows: it has no other way"


def make_operation(
    make: Callable[[systems.BufferShape], ReplaySystem],
    trajectory: Trajectory,
    capacity: int,
    task: str,
    size: int,
) -> RunnerFactory:
    """Return a factory of a full buffer and one operation on it."""

    def prepare() -> Any:
        replay = make(systems.BufferShape.of(trajectory, capacity))
        fill(replay, trajectory, capacity, one_by_one=task.startswith("push one"))
        check_answer = sample_check(replay, trajectory, capacity)
        return make_timed_call(replay, trajectory, task, size), check_answer

    return prepare


def make_timed_call(
    replay: ReplaySystem, trajectory: Trajectory, task: str, size: int
) -> Callable[[], object]:
    """Return the call that is timed."""
    if task == "sample":
        return replay.sample(size)
    if task == "push_batch":
        return replay.push_batch(trajectory.rows(0, size))
    if task == "push one of a chain":
        turns = itertools.cycle(
            [replay.push(single_transition(trajectory, i)) for i in range(len(trajectory.pool))]
        )
        return lambda: next(turns)()
    return replay.push(single_transition(trajectory, 0))


def original_system(
    context: Context,
    trajectory: Trajectory,
    capacity: int,
    task: str,
    size: int,
    *extra_arrays: Array,
) -> System:
    """Return the original's buffer; its observations are flat float32."""
    arrays = [trajectory.pool.reshape(len(trajectory.pool), -1), trajectory.actions, *extra_arrays]
    return System(
        name=ORIGINAL,
        package="original",
        prepare=lambda: context.original.runner("replay", arrays, task=task, capacity=capacity, size=size),
    )


def make_case(
    context: Context,
    row: str,
    work: str,
    label: str,
    trajectory: Trajectory,
    capacity: int,
    task: str,
    size: int = 1,
    goals: tuple[Goal, ...] = (),
    reuse_goals: tuple[Goal, ...] | None = None,
    bounds: tuple[System, ...] = (),
) -> Case:
    """Make one size of one task, for every buffer that supports it.

    `reuse_goals`: rlox also samples into arrays of the caller, with these goals.
    """
    prepare_with = partial(make_operation, trajectory=trajectory, capacity=capacity, task=task, size=size)
    ours = [local_system("rlox", "rlox", prepare_with(systems.RloxBuffer), *goals)]
    if reuse_goals is not None:
        make_into = prepare_with(partial(systems.RloxBuffer, reuse_arrays=True))
        ours.insert(
            0,
            local_system("rlox into", "rlox", make_into, *reuse_goals, note="`out=` arrays of the caller"),
        )
    image, dtype = len(trajectory.pool.shape) > 2, trajectory.pool.dtype
    if image and task != "push one":
        make_stacked = prepare_with(
            partial(systems.RloxBuffer, frame_stack=True, reuse_arrays=reuse_goals is not None)
        )
        note = "frame_stack=(4, 'first'): each frame is stored once"
        ours.append(local_system("rlox frame stack", "rlox", make_stacked, is_gated=False, note=note))
    peers = [
        local_system(
            "SB3",
            "sb3",
            prepare_with(systems.SB3Buffer),
            note=SINGLY_NOTE if task == "push_batch" else "",
        )
    ]
    peers.append(local_system("TorchRL", "torchrl", prepare_with(systems.TorchRLBuffer)))
    if dtype == np.float32:
        peers.insert(0, original_system(context, trajectory, capacity, task, size))
    return Case(row, work, label, tuple(ours), (*peers, *bounds), UNIFORM, size)


def p4(context: Context) -> Iterator[Case]:
    """Yield a push of one transition, and of ten thousand."""
    data = Trajectory.vectors(BATCH, 4, OBS_DIMS[4])
    make_p4_case = partial(make_case, context, "P4")
    goal = (Goal(1.2),)
    yield make_p4_case("push of one transition, obs 4", "1", data, BATCH, "push one", goals=goal)
    yield make_p4_case("push of many, obs 4", f"{BATCH:,}", data, VECTORS, "push_batch", BATCH)


def p5(context: Context) -> Iterator[Case]:
    """Yield a push of one transition with two 4 x 84 x 84 images."""
    for dtype in ("float32", "uint8"):
        data = Trajectory.images(POOL, dtype)
        goals = (Goal(4.0, "TorchRL"), Goal(0.5, COPY))
        for label, task in (("unrelated", "push one"), ("chain", "push one of a chain")):
            yield make_case(
                context,
                "P5",
                f"push of one transition, 2 x 28,224 {dtype}",
                label,
                data,
                IMAGES,
                task,
                goals=goals,
                bounds=(local_system(COPY, "numpy", numpy_copy(data), is_bound=True, is_compared=False),),
            )


def numpy_copy(trajectory: Trajectory) -> RunnerFactory:
    """Copy the two observations of a transition into the next rows of two arrays."""

    def make() -> Any:
        row = single_transition(trajectory, 0)
        # Write to the arrays first, so that the timed copies cause no page faults.
        ring = np.ones((2, IMAGES, *row.obs.shape), row.obs.dtype)
        rows = itertools.cycle(list(zip(*ring, strict=True)))

        def copy() -> None:
            now, after = next(rows)
            np.copyto(now, row.obs)
            np.copyto(after, row.next_obs)

        return copy, dict

    return make


def p6(context: Context) -> Iterator[Case]:
    """Yield batches of short observations."""
    for obs_dim, act_dim in OBS_DIMS.items():
        data = Trajectory.vectors(BATCH, obs_dim, act_dim)
        for size in SAMPLE_SIZES:
            work, goals = f"sample, obs {obs_dim}", (Goal(1.3),)
            yield make_case(
                context,
                "P6",
                work,
                f"{size:,}",
                data,
                VECTORS,
                "sample",
                size,
                goals,
                reuse_goals=(),
            )


def p7(context: Context) -> Iterator[Case]:
    """Yield batches of images."""
    for dtype in ("float32", "uint8"):
        data = Trajectory.images(POOL, dtype)
        for size in IMAGE_SIZES:
            goals = (Goal(1 / 1.2, GATHER),)
            if size > IMAGE_SIZES[0]:
                goals = (Goal(3.0),) if dtype == "float32" else ()
            gather = local_system(GATHER, "numpy", numpy_gather(data, size), is_bound=True, is_compared=False)
            yield make_case(
                context,
                "P7",
                f"sample of 28,224 {dtype}",
                f"{size:,}",
                data,
                IMAGES,
                "sample",
                size,
                reuse_goals=goals,
                bounds=(gather,),
            )


def numpy_gather(trajectory: Trajectory, size: int) -> RunnerFactory:
    """Gather observations and their successors into two arrays, with indices that are drawn beforehand."""

    def make() -> Any:
        images = np.concatenate([rows.obs for rows in trajectory.blocks(IMAGES)])
        now = np.random.default_rng(size).integers(0, IMAGES - 1, (POOL, size))
        turns = itertools.cycle(list(zip(now, now + 1, strict=True)))
        out = np.zeros((2, size, *images.shape[1:]), images.dtype)

        def gather() -> None:
            for indices, part in zip(next(turns), out, strict=True):
                # other modes than "clip" make a temporary copy
                images.take(indices, axis=0, out=part, mode="clip")

        return gather, dict

    return make


def p8(context: Context) -> Iterator[Case]:
    """Yield prioritized sampling with an update of the sampled priorities."""
    data = Trajectory.vectors(BATCH, 4, OBS_DIMS[4])
    priorities = np.random.default_rng(8).uniform(0.1, 1.1, PRIORITIZED)

    def make(kind: Callable[[systems.BufferShape], Any]) -> RunnerFactory:
        def prepare() -> Any:
            replay = kind(systems.BufferShape.of(data, VECTORS))
            fill(replay, data, VECTORS, one_by_one=False)
            return replay.sample_and_update(priorities), sample_check(replay, data, VECTORS)

        return prepare

    yield Case(
        row="P8",
        work="prioritized sample and update, capacity 100,000",
        size=str(PRIORITIZED),
        ours=(local_system("rlox", "rlox", make(systems.RloxPrioritizedBuffer), Goal(2.5)),),
        peers=(
            original_system(context, data, VECTORS, "prioritized", PRIORITIZED, priorities),
            local_system("TorchRL", "torchrl", make(systems.TorchRLPrioritizedBuffer)),
        ),
        tolerance=UNIFORM,
        elements=PRIORITIZED,
    )


ROWS = {"P4": p4, "P5": p5, "P6": p6, "P7": p7, "P8": p8}

if __name__ == "__main__":
    sys.exit(run(ROWS, "buffer_ops", __doc__))
