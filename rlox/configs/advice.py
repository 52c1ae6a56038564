"""Settings that are valid and probably not meant: what each does, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping

from rlox.configs.check import leaves
from rlox.configs.code import arguments_of
from rlox.configs.env import EnvConfig
from rlox.configs.run import RunConfig
from rlox.configs.secrets import FromProcess, is_secret

__all__ = ["advice", "idle_workers", "rounding"]

FAR = 2  # times the total that was asked for, from which on rounding up is worth a warning


def advice(run: RunConfig) -> list[str]:
    """What to tell before the run starts."""
    found = [
        rounding(run),
        _stop(run),
        idle_workers(run.env),
        *run.algo.advice(run.env),
        *_written(run),
    ]
    return [line for line in found if line]


def rounding(run: RunConfig) -> str | None:
    """Where rounding up to whole batches takes a run much further than it was asked to go."""
    if run.rounded_steps <= FAR * run.total_steps:
        return None
    return (
        f"total_steps={run.total_steps:,} is rounded up to {run.rounded_steps:,}, as "
        f"{run.algo.batches} of {run.quantum:,} are never cut; {run.algo.shorter}"
    )


def idle_workers(env: EnvConfig) -> str | None:
    """Settings of subprocesses where there are none."""
    default = EnvConfig()
    idle = [
        f"env.{name}={getattr(env, name)}"
        for name in ("step_timeout", "max_restarts", "worker_envs")
        if env.workers != "subprocess" and getattr(env, name) != getattr(default, name)
    ]
    if not idle:
        return None
    return f"{', '.join(idle)}: no effect without subprocesses; env.workers=subprocess has them"


def _written(run: RunConfig) -> list[str]:
    """Secrets that were typed as they stand."""
    code = [
        run.env.wrappers,
        run.env.reward_wrappers,
        run.callbacks,
        [getattr(run.algo, "policy", None)],
    ]
    given = [("env.kwargs.", run.env.kwargs)]
    given += [
        ("", arguments_of(spec)) for specs in code for spec in specs if isinstance(spec, Mapping)
    ]
    return [
        f"{prefix}{key} is written to the run's files as it was typed; to keep it out of them: "
        f"'{prefix}{key}=${{oc.env:{key.rpartition('.')[2].upper()}}}'"
        for prefix, arguments in given
        for key, value in leaves(arguments)
        if is_secret(key) and not isinstance(value, FromProcess)
    ]


def _stop(run: RunConfig) -> str | None:
    total, every = run.rounded_steps, run.eval.every
    if run.stop.score is None or 0 < every < total:
        return None
    within = f"eval.every={every} is not below total_steps" if every else "eval.every=0"
    return (
        f"stop.score={run.stop.score:g} has no effect: no evaluation is made on the way ({within}); "
        f"e.g. eval.every={max(run.total_steps // 10, 1)}"
    )
