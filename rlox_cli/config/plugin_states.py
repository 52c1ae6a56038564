"""The states of installed plugins: used, or ignored and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rlox.configs import RunConfig
from rlox.configs.env import WRAPPER_NAMES
from rlox.configs.params import display_name
from rlox.plugins import KINDS, PluginEntry, conf_folders, plugin_entries
from rlox_cli.config.options import BUILTIN_OPTIONS

IGNORED = "ignored"


def plugin_state(entry: PluginEntry) -> str:
    """Return `ready`, or why the plugin is ignored; nothing is imported."""
    if entry.kind not in KINDS or not entry.name:
        return (
            f"{IGNORED}: '{entry.entry_point.name}' is not named KIND.NAME, where KIND is one of "
            f"{', '.join(KINDS)}"
        )
    if is_shadowed(entry):
        return f"{IGNORED}: rlox has a {entry.name} of its own"
    other_sources = [
        o.source for o in plugin_entries() if (o.kind, o.name) == (entry.kind, entry.name) and o != entry
    ]
    if other_sources:
        return f"{IGNORED}: {', '.join(other_sources)} offers this name too; uninstall one of them"
    if entry.kind == "conf" and entry not in [conf_entry for conf_entry, _ in conf_folders()]:
        return f"{IGNORED}: no folder {entry.entry_point.value} is installed"
    return "ready"


def is_shadowed(entry: PluginEntry) -> bool:
    """Return whether rlox or Gymnasium has that name itself."""
    if entry.kind == "env":
        from rlox.envs.ids import env_ids  # imported here because it imports Gymnasium

        return entry.name in env_ids() and entry.entry_point.module not in sys.modules
    return entry.name in {**BUILTIN_OPTIONS, "wrapper": WRAPPER_NAMES}.get(entry.kind, ())


def shadowing_messages(config: RunConfig) -> list[str]:
    """Return messages on names that the run takes from rlox although a plugin has them too."""
    used = {("algo", config.algo.name), ("buffer", config.buffer.name), ("env", config.env.id)}
    used |= {("logger", logger.name) for logger in config.logger.values()}
    used |= {("wrapper", name) for name in _names(config.env.wrappers, config.env.reward_wrappers)}
    return [
        f"{o.kind}={o.name} is rlox's own; the plugin of {o.source} is ignored, because a plugin cannot "
        "replace a name of rlox"
        for o in plugin_entries()
        if (o.kind, o.name) in used and is_shadowed(o)
    ]


def _names(*specs: Iterable[object]) -> set[str]:
    return {display_name(spec) for group in specs for spec in group}  # type: ignore[arg-type]
