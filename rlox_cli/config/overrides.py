"""Rewrite the overrides of a training run for Hydra."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from rlox.configs.check import require_one_schedule
from rlox.configs.schedules import conflicting_fields
from rlox.configs.text import TINY
from rlox.errors import ConfigError
from rlox.presets import preset_algorithms
from rlox_cli.config.options import group_options
from rlox_cli.config.run_schema import ALGO, RUN
from rlox_cli.config.schema import Schema
from rlox_cli.config.variants import resolve_variant
from rlox_cli.search.settings import SEARCH
from rlox_cli.shell import messages
from rlox_cli.shell.help import value_text

NULL_OPTIONS = {"tuned": "none", "logger": "[]"}
REQUIRED_GROUPS = {group.name: group for group in RUN.groups if not group.is_multiple}
ADDRESS_KEYS = ("search.storage", "hydra.sweeper.storage")
PASSWORD_PATTERN = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def rewrite_overrides(raw_overrides: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return a run's overrides for Hydra; raise `ConfigError` where Hydra's error would be unclear."""
    require_lists(RUN, raw_overrides, folders)
    env_overrides = [o for o in raw_overrides if o.startswith("env=")]
    overrides = [
        o
        for override in raw_overrides
        for o in rewrite_override(env_id_as_group(override, env_overrides), folders)
    ]
    overrides = _with_presets_of_algorithm(overrides, folders)
    return [*overrides, *_no_preset_override(overrides), *conflicting_key_resets(overrides, folders)]


def require_no_password(override: str) -> None:
    """Raise `ConfigError` for an address with a password, which files of the run or sweep would hold."""
    key, _, value = override.lstrip("+").partition("=")
    is_saved = key in ADDRESS_KEYS or (key.startswith("logger") and "tracking_uri" in override)
    key = key.replace("hydra.sweeper.", "search.")  # as it is typed
    if is_saved and PASSWORD_PATTERN.search(value):
        raise ConfigError(
            f"{key} has a password, which would be saved in files of the run: "
            f"export ADDRESS=... and give {key}='${{oc.env:ADDRESS}}'"
        )


def require_one_list(overrides: Sequence[str]) -> None:
    """Raise `ConfigError` if a key is given a second list of values that lacks values of the first list.

    The jobs of the missing values would be lost. A second list that has them all is a sweep that grows.
    """
    last_by_key: dict[str, str] = {}
    for override in overrides:
        key, equals, values = override.lstrip("+").partition("=")
        previous = last_by_key.get(key, override)
        lost_values = set(previous.partition("=")[2].split(",")) - set(values.split(","))
        if equals and lost_values and has_several_values(previous):
            raise ConfigError(
                f"{previous} and {override} both give values of {key}, and only the last would count; "
                f"give one of them, or one list of all: {key}=A,B,..."
            )
        last_by_key[key] = override


def has_several_values(override: str) -> bool:
    """Return whether an override has several values, one per job."""
    with suppress(OverrideParseException):  # composition reports it
        return bool(OverridesParser.create().parse_override(override).is_sweep_override())
    return False


def _no_preset_override(overrides: Sequence[str]) -> list[str]:
    """Return `tuned=none` for the user's own model or text: presets of text are for small new models."""
    values = dict(o.split("=", 1) for o in overrides if "=" in o)
    has_own_text = values.get("dataset", "null") != "null" or values.get("model", TINY) not in (TINY, "null")
    return ["tuned=none"] if has_own_text and "tuned" not in values else []


def env_id_as_group(override: str, env_overrides: Sequence[str]) -> str:
    """Rewrite `env.id=X` as `env=X`, so that the environment's presets apply."""
    if not override.startswith("env.id=") or override[7:8] in "[{":  # no name: that is reported later
        return override
    if env_overrides:
        raise ConfigError(f"{env_overrides[0]} and {override} both name the environment; give one of them")
    return f"env={override.partition('=')[2]}"


def require_lists(schema: Schema, overrides: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise `ConfigError` for a mapping in place of a list or number; Hydra's error would be unclear."""
    keys = {key.name: key for key in schema.keys(schema.chosen_options(overrides, folders))}
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        key = keys.get(name)
        if value[:1] != "{" or key is None or (key.is_open and not isinstance(key.default, tuple)):
            continue
        if isinstance(key.default, tuple) or key.field.metadata.get("scheduled"):
            hint = key.field.metadata.get("hint")
            expected = "a list" if isinstance(key.default, tuple) else "a number or a schedule"
            raise ConfigError(
                f"{name}={value}: expected {expected}, e.g. {name}=[...]{f'; {hint}' if hint else ''}"
            )


def rewrite_override(override: str, folders: Sequence[Path]) -> Iterator[str]:
    """Yield the override, or a replacement if Hydra crashes on it; raise `ConfigError` if Hydra skips it."""
    key, equals, value = override.partition("=")
    if key.lstrip("+~") == "resume":
        if override == "resume=null":
            return
        raise ConfigError(f"{override}: to go on with a run: rlox train resume=RUN")
    if key.lstrip("+~") == "trust":
        raise ConfigError(f"{override}: it goes with resume=RUN and rlox evaluate; what you type is trusted")
    if key in REQUIRED_GROUPS and not equals:
        raise ConfigError(f"'{override}' is a key without a value; write {override}=NAME")
    if key.lstrip("~") in REQUIRED_GROUPS and value in ("null", ""):
        raise ConfigError(f"{override}: a run needs one, e.g. algo=ppo env=CartPole-v1")
    if key in REQUIRED_GROUPS and value.startswith("["):
        names = value.strip("[]").replace(" ", "")
        raise ConfigError(f"{override}: a run has one {key}; to run each of them: rlox sweep {key}={names}")
    group = REQUIRED_GROUPS.get(key.removesuffix(".name").lstrip("+"))
    if group and key.endswith(".name") and value in group.registry and len(group.registry) > 1:
        raise ConfigError(f"{override}: use {group.name}={value}, which brings its keys as well")
    if key in ("exp", SEARCH) and value == "null":
        return
    if value == "null":
        value = NULL_OPTIONS.get(key, value)
    if key == "tuned":
        value = ",".join("none" if v == "null" else v for v in value.split(","))
        _require_tuned(value, folders)
    yield allow_open_keys(f"{key}{equals}{value}")


def allow_open_keys(override: str) -> str:
    """Let overrides add keys to `env.kwargs`.

    Its keys belong to the environment, so Hydra's struct mode must not reject them.
    """
    return re.sub(r"^\+?(?=env\.kwargs[.=])", "++", override)


def _with_presets_of_algorithm(overrides: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the overrides with `tuned=sac/ID` as `tuned=NAME/ID` for a plugin NAME that derives from SAC.

    `NAME/ID` leaves out the fields that are the plugin's own. Raises `ConfigError` for a preset of another
    algorithm, whose keys would be unknown, and if a file of the plugin itself answers to `NAME/ID`.
    """
    algorithms = {
        option.tags[0]
        for option in RUN.chosen_options(overrides, folders)
        if option.group is ALGO and len(option.tags) == 1
    }

    def own_name(preset: str) -> str:
        algo, _, env = preset.partition("/")
        owner = ALGO.tag(algo, folders) if env else None
        if owner is None:
            return preset
        if others := sorted(a for a in algorithms if owner not in preset_algorithms(a)):
            raise ConfigError(
                f"tuned={preset}: this preset is for {owner}, but the run has algo={others[0]}; choose "
                f"algo={owner}, or tuned=null"
            )
        derived = sorted(algorithms - {owner})
        if not len(algorithms) == len(derived) == 1:
            return preset
        own_preset = f"{derived[0]}/{env}"
        used_preset = resolve_variant(f"tuned/{own_preset}", folders)
        if used_preset != f"tuned/{preset}":
            raise ConfigError(
                f"tuned={preset}: algo={derived[0]} has the preset "
                f"{(used_preset or own_preset).removeprefix('tuned/')} for this environment, and would use "
                f"that; choose tuned={own_preset}, or tuned=null"
            )
        return own_preset

    pairs = [o.partition("=") for o in overrides]
    return [
        f"tuned={','.join(map(own_name, value.split(',')))}" if key == "tuned" else f"{key}{equals}{value}"
        for key, equals, value in pairs
    ]


def conflicting_key_resets(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """Yield overrides that reset keys to their defaults, because a typed key excludes their use.

    A preset may have set these keys. If both keys are typed, they contradict each other, which is an error.
    """
    pairs = [o.lstrip("+~").partition("=") for o in overrides]
    values = {key: _parse_value(value) for key, _, value in pairs}
    for option in RUN.chosen_options(overrides, folders):
        keys = {key.name.rpartition(".")[2]: key for key in option.keys}
        algo_values = {name: values[key.name] for name, key in keys.items() if key.name in values}
        for tag in option.tags:
            if option.group is ALGO:
                require_one_schedule(tag, algo_values)
            # numbers in place of schedules: which job of a sweep has one is known only after composition
            plain = {name: value and 0.0 for name, value in algo_values.items()}
            for name in conflicting_fields(option.group.registry[tag], plain):
                yield f"{keys[name].name}={value_text(keys[name].default)}"


def _parse_value(text: str) -> Any:
    """Return None, a bool, a number or the text; for several values None if one is null, else the sum."""
    if "null" in text.split(","):
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return sum(map(float, text.split(",")))
    except ValueError:
        return text


def _require_tuned(value: str, folders: Sequence[Path]) -> None:
    """Raise an error for unknown presets: Hydra silently skips a missing option of an optional group."""
    presets = group_options("tuned", folders)
    for name in value.split(","):
        if "$" not in name and name not in ("none", *presets):
            raise messages.unknown_option("tuned", name, presets)
