"""Warnings about settings that are valid but probably not intended: the effect of each and the remedy."""

from __future__ import annotations

from collections.abc import Mapping

from rlox.configs.check import dotted_items
from rlox.configs.code import arguments_of
from rlox.configs.env import EnvConfig
from rlox.configs.run import RunConfig
from rlox.configs.secrets import EnvVarRef, is_secret

__all__ = ["advice", "idle_workers", "rounding_advice"]

ROUNDING_FACTOR = 2  # warn if the rounded total is more than this many times the requested one


def advice(run: RunConfig) -> list[str]:
    """Return the warnings to print before the run starts."""
    notes = [
        rounding_advice(run),
        _useless_stop_score(run),
        idle_workers(run.env),
        *run.algo.advice(run.env),
        *_plaintext_secrets(run),
    ]
    return [line for line in notes if line]


def rounding_advice(run: RunConfig) -> str | None:
    """Warn if rounding up to whole batches makes the run much longer than requested."""
    if run.rounded_steps <= ROUNDING_FACTOR * run.total_steps:
        return None
    return (
        f"total_steps={run.total_steps:,} is rounded up to {run.rounded_steps:,}, as "
        f"{run.algo.batch_name} of {run.batch_steps:,} are never cut; {run.algo.shrink_hint}"
    )


def idle_workers(env: EnvConfig) -> str | None:
    """Warn about settings of subprocesses if there are none."""
    default = EnvConfig()
    idle = [
        f"env.{name}={getattr(env, name)}"
        for name in ("step_timeout", "max_restarts", "worker_envs")
        if env.workers != "subprocess" and getattr(env, name) != getattr(default, name)
    ]
    if not idle:
        return None
    return f"{', '.join(idle)}: no effect without subprocesses; set env.workers=subprocess"


def _plaintext_secrets(run: RunConfig) -> list[str]:
    """Warn about secrets that are given as plain text."""
    spec_groups = [
        run.env.wrappers,
        run.env.reward_wrappers,
        run.callbacks,
        [getattr(run.algo, "policy", None)],
    ]
    argument_groups = [("env.kwargs.", run.env.kwargs)]
    argument_groups += [
        ("", arguments_of(spec)) for specs in spec_groups for spec in specs if isinstance(spec, Mapping)
    ]
    return [
        f"{prefix}{key} is written to the run's files as it was typed; to keep it out of them, give "
        f"'{prefix}{key}=${{oc.env:{key.rpartition('.')[2].upper()}}}'"
        for prefix, arguments in argument_groups
        for key, value in dotted_items(arguments)
        if is_secret(key) and not isinstance(value, EnvVarRef)
    ]


def _useless_stop_score(run: RunConfig) -> str | None:
    total, every = run.rounded_steps, run.eval.every
    if run.stop.score is None or 0 < every < total:
        return None
    within = f"eval.every={every} is not below total_steps" if every else "eval.every=0"
    return (
        f"stop.score={run.stop.score:g} has no effect: no evaluation runs before the end ({within}); "
        f"e.g. eval.every={max(run.total_steps // 10, 1)}"
    )
