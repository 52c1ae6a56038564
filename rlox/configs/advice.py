"""Warnings about settings that are probably not intended, and settings that only older runs may have."""

from __future__ import annotations

from collections.abc import Mapping

from rlox.configs.buffers import UniformConfig
from rlox.configs.check import dotted_items
from rlox.configs.env import EnvConfig
from rlox.configs.params import spec_arguments
from rlox.configs.run import RunConfig
from rlox.configs.secrets import EnvVarRef, is_secret
from rlox.errors import ConfigError

__all__ = ["advice", "check_new_run", "idle_workers", "rounding_advice"]

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
        ("", spec_arguments(spec)) for specs in spec_groups for spec in specs if isinstance(spec, Mapping)
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


def check_new_run(run: RunConfig) -> None:
    """Raise `ConfigError` for combinations that a new run may not use; do not call it for saved runs."""
    _require_no_repeat_with_masks(run)
    _require_comparable_rewards(run)


def _require_no_repeat_with_masks(run: RunConfig) -> None:
    """Raise `ConfigError` for masks with action repeat: the mask is not checked before a repeated action."""
    env = run.env
    for name in ("action_repeat", "repeat_action_probability"):
        value = getattr(env, name)
        if env.action_mask != "none" and value and value != getattr(EnvConfig, name):
            raise ConfigError(
                f"env.action_mask={env.action_mask} and env.{name}={value:g}: an action would be taken again "
                "in states that may forbid it; leave one of them out"
            )


def _require_comparable_rewards(run: RunConfig) -> None:
    """Raise `ConfigError` for hindsight with rewards that do not compare with those of `compute_reward`."""
    env, buffer = run.env, run.buffer
    if not isinstance(buffer, UniformConfig) or buffer.hindsight is None:
        return
    for name in ("reward_scale", "reward_clip", "action_repeat"):
        value = getattr(env, name)
        if value != getattr(EnvConfig, name):
            raise ConfigError(
                f"buffer.hindsight={buffer.hindsight} and env.{name}={value:g}: rewards for another goal "
                "come from compute_reward, without scale, clipping or repeated steps, so they would not "
                "compare with the stored rewards; leave one of them out"
            )
