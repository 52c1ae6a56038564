"""All checks in sequence, for an environment in any form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rlox.configs import EnvConfig
from rlox.envs.check.choices import check_choices
from rlox.envs.check.closing import check_closing
from rlox.envs.check.declarations import check_declarations
from rlox.envs.check.driver import EnvDriver
from rlox.envs.check.episodes import check_episodes
from rlox.envs.check.findings import Finding, Report, StopCheck
from rlox.envs.check.masks import MaskLocation
from rlox.envs.check.rendering import check_rendering
from rlox.envs.check.saving import check_saving
from rlox.envs.check.seeding import check_seeding
from rlox.envs.check.sharing import check_copies, check_sharing
from rlox.envs.check.side_effects import SideEffectMonitor, restored_globals, seed_global_generators
from rlox.envs.check.subject import Limits, Subject, close_quietly, takes_render_mode
from rlox.envs.check.unmasked import check_unmasked
from rlox.envs.check.values import short_repr
from rlox.envs.engines.factories import engine_factory_for
from rlox.envs.make import EnvLike, source_factory, unwrapped_factory
from rlox.envs.native import native_env_class
from rlox.envs.wrappers import make_wrapper

__all__ = ["CheckResult", "check_config", "check_env"]

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class CheckResult:
    """The findings of a check, and the extent of the check."""

    findings: tuple[Finding, ...]
    observation_space: str
    action_space: str
    steps: int
    episodes: int
    algorithms: Mapping[str, str]  # by algorithm: why it does not fit; empty if it does

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def check_env(
    source: EnvLike,
    *,
    steps: int = 1000,
    seed: int = 0,
    kwargs: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Finding]:
    """Check an environment; returns errors and probable mistakes, an empty list if it is sound.

    Parameters
    ----------
    source : an id, an environment (copies of it are played) or a callable that makes one
    steps : random steps in which every value is checked; other checks take some hundred more
    seed : seed of the actions and of the resets
    kwargs : arguments of the environment; only if `source` is an id
    limits : thresholds above which numbers are reported

    The environment runs in this process, so one that hangs blocks the caller; `rlox check` instead
    runs it in a subprocess with a deadline. Raises `ConfigError` for an unknown id, or for arguments that do
    not fit.
    """
    subject = _make_subject(source, kwargs, Report(), steps, seed, limits)
    with restored_globals():
        _run_checks(subject)
    return subject.report.findings


def check_config(
    config: EnvConfig,
    steps: int,
    seed: int,
    limits: Limits = DEFAULT_LIMITS,
    on_finding: Callable[[Finding], None] = lambda finding: None,
    on_call: Callable[[str], None] = lambda call: None,
) -> CheckResult:
    """Check the environment that a run of this configuration would train on, with its wrappers."""
    # an engine has no wrappers
    wrap = (lambda env: env) if engine_factory_for(config) else make_wrapper(config, training=True)
    subject = Subject(
        lambda mode: wrap(unwrapped_factory(config, render_mode=mode)()),
        Report(on_finding),
        steps,
        seed,
        limits,
        MaskLocation(config.action_mask, config.action_mask_key),
        is_run_config=True,
        ignores_masks=config.action_mask == "none",
        on_call=on_call,
    )
    with restored_globals():
        _run_checks(subject)
    has_spaces = subject.action_space is not None
    return CheckResult(
        tuple(subject.report.findings),
        short_repr(subject.observation_space) if has_spaces else "",
        short_repr(subject.action_space) if has_spaces else "",
        subject.steps_done,
        subject.episodes_done,
        subject.algorithm_obstacles(config.id, _is_native(config)) if has_spaces else {},
    )


def _is_native(config: EnvConfig) -> bool:
    """Tell whether a run of this configuration steps its environments in Rust."""
    is_plain = not config.gymnasium_only and config.backend in ("auto", "native")
    return is_plain and native_env_class(config.id) is not None


def _make_subject(
    source: EnvLike,
    kwargs: Mapping[str, Any] | None,
    report: Report,
    steps: int,
    seed: int,
    limits: Limits,
) -> Subject:
    common = (report, steps, seed, limits)
    if callable(source) and not kwargs:
        accepts_render_mode = takes_render_mode(source)
        make: Callable[..., Any] = source
        return Subject(
            lambda mode: make(render_mode=mode) if mode else make(),
            *common,
            accepts_render_mode=accepts_render_mode,
        )
    if isinstance(source, gym.Env):
        return Subject(
            lambda mode: source_factory(source, kwargs)(), *common, instance=source, accepts_render_mode=False
        )
    return Subject(lambda mode: source_factory(source, kwargs, mode)(), *common)


def _run_checks(subject: Subject) -> None:
    """Run all checks, until one stops the check."""
    monitor = SideEffectMonitor(subject.report)
    with suppress(StopCheck):
        check_copies(subject)
        seed_global_generators()
        with monitor.watch("being made"):
            subject.make()
        check_declarations(subject)
        env = subject.make()
        driver = EnvDriver(subject, env, monitor.watch)
        try:
            check_choices(subject, driver)
            check_episodes(subject, driver)
            check_unmasked(subject)
            trace_steps = check_seeding(subject, EnvDriver(subject, env))
            if trace_steps is not None:
                check_sharing(subject, trace_steps)
                check_saving(subject)
            check_rendering(subject, env)
            check_closing(subject, env)
        finally:
            if env is not subject.instance:
                close_quietly(env)
