"""`resume=RUN key=value ...`: apply overrides to the saved configuration and check that they are allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from rlox.configs import RunConfig, dotted_items, make_run, to_plain
from rlox.configs.on_policy import OnPolicyConfig
from rlox.errors import ConfigError
from rlox_cli.config.changeable_keys import CHANGEABLE_KEYS, CHANGEABLE_KEYS_TEXT
from rlox_cli.config.run_schema import RUN
from rlox_cli.config.schema import is_below_open_key
from rlox_cli.shell import messages
from rlox_cli.shell.help import value_text

ROUNDING_KEYS = ("device", "torch_threads", "algo.backend")
UNSET = "unset"


@dataclass(frozen=True)
class Change:
    """A key whose value differs between two configurations."""

    key: str
    old: Any
    new: Any

    @property
    def is_allowed(self) -> bool:
        """Whether a resumed run may change this key."""
        return self.key in CHANGEABLE_KEYS or self.key.split(".")[0] in CHANGEABLE_KEYS


def is_resume(args: Sequence[str]) -> bool:
    """Return whether the command line resumes a run."""
    return any(arg.startswith("resume=") and arg != "resume=null" for arg in args)


def split_resume(args: Sequence[str]) -> tuple[str, list[str]]:
    """Return the value of `resume=` (everything after the first `=`) and the other overrides."""
    runs = [arg.partition("=")[2] for arg in args if arg.startswith("resume=")]
    rest = [arg for arg in args if not arg.startswith("resume=")]
    if len(runs) > 1:
        raise ConfigError(f"resume= is given {len(runs)} times; it continues one run")
    if not runs[0]:
        raise ConfigError("resume=: name the run folder: rlox train resume=RUN")
    flags = [arg for arg in rest if arg.startswith("-")]
    if flags and flags[0] in ("-m", "--multirun"):
        raise ConfigError(f"{flags[0]}: resume=RUN continues one run; it cannot be swept")
    if flags:
        raise ConfigError(
            f"{flags[0]} does not go with resume=RUN: the run is composed already; "
            f"its configuration is {runs[0]}/config.yaml"
        )
    return runs[0], rest


def apply_overrides(saved_config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return the configuration of the resumed run; raise `ConfigError` for a wrong or frozen key."""
    data = to_plain(saved_config)
    for override in overrides:
        if override == f"env={saved_config.env.id}":  # the user repeats it to trust the code that it names
            continue
        key = override.partition("=")[0]
        _require_key(key, override, data)
        _set_path(data, key.split("."), _parse_value(override))
    config = make_run(data)
    refused_changes = [
        change for change in differences(to_plain(saved_config), to_plain(config)) if not change.is_allowed
    ]
    if refused_changes:
        raise _frozen_error(refused_changes)
    return config


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return every leaf in which two plain configurations differ."""
    old_values, new_values = dict(dotted_items(old)), dict(dotted_items(new))
    keys = dict.fromkeys([*old_values, *new_values])
    pairs = [(key, old_values.get(key, UNSET), new_values.get(key, UNSET)) for key in keys]
    return [Change(*pair) for pair in pairs if pair[1] != pair[2]]


def describe(change: Change, config: RunConfig) -> str:
    """Return one line: `total_steps 100,352 -> 2,000,000 (schedules stretch)`."""
    text = f"{change.key} {_format_value(change.old)} -> {_format_value(change.new)}"
    if change.key == "total_steps" and (config.algo.has_schedule or config.buffer.has_schedule):
        return f"{text} (schedules {'stretch' if change.new > change.old else 'shorten'})"
    if change.key == "algo.backend" and isinstance(config.algo, OnPolicyConfig):
        return f"{text} (another engine draws other actions)"
    return f"{text} (last digits may differ)" if change.key in ROUNDING_KEYS else text


def _require_key(key: str, override: str, data: Mapping[str, Any]) -> None:
    keys = RUN.keys(RUN.options_of(data))
    names = RUN.names(keys)
    stripped_key = key.lstrip("+~")
    if stripped_key != key:
        raise ConfigError(f"{override}: a resumed run takes plain key=value, no {key[0]}")
    if key in (*(group.name for group in RUN.groups), *RUN.presets):
        raise ConfigError(
            f"{override}: a resumed run keeps its {key}; leave it out, "
            f"or start a new run: rlox train {override}"
        )
    if key.split(".")[0] == "hydra":
        raise ConfigError(f"{override}: a resumed run stays in its folder and takes no hydra.*")
    if any(name.startswith(f"{key}.") for name in names):
        raise ConfigError(f"{override}: expected a group of keys, e.g. {key}.<key>=<value>")
    if "=" in override and key not in names and not is_below_open_key(key, keys):
        raise messages.unknown_key(key, names, RUN.owners(key))


def _parse_value(override: str) -> Any:
    """Parse the value with Hydra's grammar; nothing is composed, looked up or resolved."""
    messages.require_readable(override)
    try:
        (parsed,) = OverridesParser.create().parse_overrides([override])
        if parsed.is_sweep_override():
            raise ConfigError(f"{override} has several values; resume=RUN continues one run")
        return parsed.value()
    except OverrideParseException as error:
        raise messages.malformed_override(error) from error


def _set_path(data: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        if not isinstance(data.get(part), dict):
            data[part] = {}
        data = data[part]
    data[path[-1]] = value


def _frozen_error(refused_changes: Sequence[Change]) -> ConfigError:
    lines = [
        f"{change.key}={value_text(change.new)}: this run is frozen at {change.key}={value_text(change.old)}"
        for change in refused_changes[:3]
    ]
    new_values = " ".join(f"{change.key}={value_text(change.new)}" for change in refused_changes[:3])
    return ConfigError(
        "\n".join(
            [
                *lines,
                f"  a resumed run may change {CHANGEABLE_KEYS_TEXT}",
                f"  for anything else start a new run: rlox train ... {new_values}",
            ]
        )
    )


def _format_value(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_number else value_text(value)
