"""How what installed packages offer stands: whether it is used, and if not, why."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rlox.configs import ALGO_CONFIGS, LOGGER_CONFIGS, RunConfig
from rlox.configs.code import name_of
from rlox.configs.env import WRAPPERS
from rlox.plugins import KINDS, Offer, folders, offers

IGNORED = "ignored"


def state(offer: Offer) -> str:
    """`ready`, or why it is ignored; nothing is imported."""
    if offer.kind not in KINDS or not offer.name:
        return f"{IGNORED}: '{offer.point.name}' is not named KIND.NAME, KIND one of {', '.join(KINDS)}"
    if shadows(offer):
        return f"{IGNORED}: rlox has a {offer.name} of its own"
    others = [
        o.source for o in offers() if (o.kind, o.name) == (offer.kind, offer.name) and o != offer
    ]
    if others:
        return f"{IGNORED}: {', '.join(others)} offers it too; uninstall one of them"
    if offer.kind == "conf" and offer not in [found for found, _ in folders()]:
        return f"{IGNORED}: no folder {offer.point.value} is installed"
    return "ready"


def shadows(offer: Offer) -> bool:
    """Whether it has the name of something that rlox, or Gymnasium, has itself."""
    if offer.kind == "env":
        from rlox.envs.ids import env_ids  # late: it brings Gymnasium

        return offer.name in env_ids() and offer.point.module not in sys.modules
    own = {"algo": ALGO_CONFIGS.own, "logger": LOGGER_CONFIGS.own, "wrapper": WRAPPERS}
    return offer.name in own.get(offer.kind, ())


def passed_over(config: RunConfig) -> list[str]:
    """What to say of a run that uses rlox's own where a plugin has the same name."""
    used = {("algo", config.algo.name), ("env", config.env.id)}
    used |= {("logger", own.name) for own in config.logger.values()}
    used |= {("wrapper", name) for name in _names(config.env.wrappers, config.env.reward_wrappers)}
    return [
        f"{o.kind}={o.name} is rlox's own; the one of {o.source} is ignored, a plugin takes no name that "
        "rlox has"
        for o in offers()
        if (o.kind, o.name) in used and shadows(o)
    ]


def _names(*specs: Iterable[object]) -> set[str]:
    return {name_of(spec) for many in specs for spec in many}  # type: ignore[arg-type]
