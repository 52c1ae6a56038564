"""Settings that are valid and probably not meant: what each does, and the remedy."""

from __future__ import annotations

from rlox.configs.run import RunConfig

__all__ = ["advice", "rounding"]

FAR = 2  # times the total that was asked for, from which on rounding up is worth a warning


def advice(run: RunConfig) -> list[str]:
    """What to tell before the run starts."""
    found = [rounding(run), _stop(run), *run.algo.advice(run.env)]
    return [line for line in found if line]


def rounding(run: RunConfig) -> str | None:
    """Where rounding up to whole batches takes a run much further than it was asked to go."""
    if run.rounded_steps <= FAR * run.total_steps:
        return None
    return (
        f"total_steps={run.total_steps:,} is rounded up to {run.rounded_steps:,}, as "
        f"{run.algo.batches} of {run.quantum:,} are never cut; {run.algo.shorter}"
    )


def _stop(run: RunConfig) -> str | None:
    total, every = run.rounded_steps, run.eval.every
    if run.stop.score is None or 0 < every < total:
        return None
    within = f"eval.every={every} is not below total_steps" if every else "eval.every=0"
    return (
        f"stop.score={run.stop.score:g} has no effect: no evaluation is made on the way ({within}); "
        f"e.g. eval.every={max(run.total_steps // 10, 1)}"
    )
