"""The parts of a check, one after the other, of whatever environment was handed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rlox.configs import EnvConfig
from rlox.envs.check.choices import try_choices
from rlox.envs.check.closing import look_at_closing
from rlox.envs.check.episodes import play_episodes
from rlox.envs.check.findings import Finding, Report, Stop
from rlox.envs.check.made import look_at_promises
from rlox.envs.check.masks import MaskPlace
from rlox.envs.check.player import Player
from rlox.envs.check.rendering import look_at_rendering
from rlox.envs.check.saving import look_at_saving
from rlox.envs.check.seeding import look_at_seeding
from rlox.envs.check.sharing import look_at_sharing, try_copies
from rlox.envs.check.subject import Limits, Subject, closed, takes_render_mode
from rlox.envs.check.surroundings import Watch, kept, seed_globally
from rlox.envs.check.unmasked import play_unmasked
from rlox.envs.check.values import brief
from rlox.envs.engines.makers import maker_of
from rlox.envs.make import EnvSource, bare_factory, factory_of
from rlox.envs.native import native_engine
from rlox.envs.wrapping import wrapping

__all__ = ["Checked", "check_config", "check_env"]

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Checked:
    """What a check found, and what it looked at."""

    findings: tuple[Finding, ...]
    observation_space: str
    action_space: str
    steps: int
    episodes: int
    algorithms: Mapping[str, str]  # why each does not fit; empty where it does

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def check_env(
    source: EnvSource,
    *,
    steps: int = 1000,
    seed: int = 0,
    kwargs: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Finding]:
    """Everything that is wrong with an environment, or probably not meant; empty where it is sound.

    Parameters
    ----------
    source : an id, an environment (copies of it are played) or a callable that makes one
    steps : random steps whose every value is looked at; other parts take some hundred more
    seed : of the actions and of the resets
    kwargs : arguments of the environment, with an id
    limits : from where on numbers are told of

    It is played in this process, so one that hangs does not come back: `rlox check` gives it a
    process and a deadline. `ConfigError` for an id that there is not, or arguments that do not fit.
    """
    subject = _subject(source, kwargs, Report(), steps, seed, limits)
    with kept():
        _examine(subject)
    return subject.report.findings


def check_config(
    config: EnvConfig,
    steps: int,
    seed: int,
    limits: Limits = DEFAULT_LIMITS,
    told: Callable[[Finding], None] = lambda finding: None,
    doing: Callable[[str], None] = lambda call: None,
) -> Checked:
    """The check of what a run of this configuration would train on, its wrappers included."""
    # an engine has nothing put around it
    wrapped = (lambda env: env) if maker_of(config) else wrapping(config, training=True)
    subject = Subject(
        lambda mode: wrapped(bare_factory(config, render_mode=mode)()),
        Report(told),
        steps,
        seed,
        limits,
        MaskPlace(config.action_mask, config.action_mask_key),
        of_a_run=True,
        unmasked=config.action_mask == "none",
        doing=doing,
    )
    with kept():
        _examine(subject)
    known = subject.action_space is not None
    return Checked(
        tuple(subject.report.findings),
        brief(subject.observation_space) if known else "",
        brief(subject.action_space) if known else "",
        subject.done_steps,
        subject.done_episodes,
        subject.fits(config.id, _in_rust(config)) if known else {},
    )


def _in_rust(config: EnvConfig) -> bool:
    """Whether a run of this configuration steps its environments in Rust."""
    bare = not config.put_around and config.backend in ("auto", "native")
    return bare and native_engine(config.id) is not None


def _subject(
    source: EnvSource,
    kwargs: Mapping[str, Any] | None,
    report: Report,
    steps: int,
    seed: int,
    limits: Limits,
) -> Subject:
    common = (report, steps, seed, limits)
    if callable(source) and not kwargs:
        renders = takes_render_mode(source)
        make: Callable[..., Any] = source
        return Subject(
            lambda mode: make(render_mode=mode) if mode else make(), *common, renders=renders
        )
    if isinstance(source, gym.Env):
        return Subject(
            lambda mode: factory_of(source, kwargs)(), *common, instance=source, renders=False
        )
    return Subject(lambda mode: factory_of(source, kwargs, mode)(), *common)


def _examine(subject: Subject) -> None:
    """All parts, until one says that nothing more can be tried."""
    watch = Watch(subject.report)
    with suppress(Stop):
        try_copies(subject)
        seed_globally()
        with watch.around("being made"):
            subject.make()
        look_at_promises(subject)
        env = subject.make()
        player = Player(subject, env, watch.around)
        try:
            try_choices(subject, player)
            play_episodes(subject, player)
            play_unmasked(subject)
            again = look_at_seeding(subject, Player(subject, env))
            if again is not None:
                look_at_sharing(subject, again)
                look_at_saving(subject)
            look_at_rendering(subject, env)
            look_at_closing(subject, env)
        finally:
            if env is not subject.instance:
                closed(env)
