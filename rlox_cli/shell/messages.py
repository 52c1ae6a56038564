"""Error messages: the mistake and the nearest valid name."""

from __future__ import annotations

import difflib
import errno
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence

from hydra.core.config_store import ConfigStore
from hydra.errors import OverrideParseException
from yaml import YAMLError  # type: ignore[import-untyped]  # PyYAML, through omegaconf

from rlox.configs import nearest
from rlox.configs.name_suggestions import near_names
from rlox.configs.secrets import redact
from rlox.envs.optional_packages import OPTIONAL_PACKAGE_IDS
from rlox.errors import ConfigError, MissingExtraError, RloxError, UnknownNameError
from rlox_cli.shell.exit_codes import is_disk_error

MAX_LINES = 8
TRACEBACK = "Traceback (most recent call last):"
MAX_LISTED_OPTIONS = 20

# Packages that add options to Hydra's own groups.
HYDRA_PLUGIN_PACKAGES = {"hydra/launcher=rq": "hydra-rq-launcher"}

# Names in other libraries: last part of a key -> rlox's key.
SYNONYMS = {
    "total_timesteps": "total_steps",
    "n_timesteps": "total_steps",
    "lr": "algo.learning_rate",
    "clip_range": "algo.clip_eps",
    "clip_coef": "algo.clip_eps",
    "update_epochs": "algo.n_epochs",
    "num_steps": "algo.n_steps",
    "num_envs": "env.n_envs",
    "env_id": "env.id",
    "n_jobs": "sweep.workers",
    "num_workers": "sweep.workers",
    "eval_freq": "eval.every",
    "save_freq": "checkpoint.every",
    "buffer_size": "buffer.capacity",
    "hidden_sizes": "algo.net_arch",
    "entropy_coef": "algo.ent_coef",
    "lam": "algo.gae_lambda",
    "lambda": "algo.gae_lambda",
}


def describe(error: BaseException) -> str:
    """Return the error's message, with the error's type in front if rlox did not write the message."""
    text = redact(str(error))
    if isinstance(error, OSError) and is_disk_error(error):
        path_text = redact(str(error.filename or "a file"))
        action_text = "read or written" if error.errno == errno.EIO else "written"
        text = f"{path_text} cannot be {action_text}: {error.strerror}; make room there, or write elsewhere"
    elif not isinstance(error, RloxError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    notes: list[str] = getattr(error, "__notes__", [])
    return " ".join([text, *(f"({redact(note)})" for note in notes)]) if notes else text


def strip_frames(text: str) -> str:
    """Reduce the traceback in a message to its innermost frame and the error."""
    head, marker, trace = text.partition(f"\n{TRACEBACK}")
    if not marker:
        return text
    lines = [line for line in trace.splitlines() if line.strip()]
    frames = [n for n, line in enumerate(lines) if line.lstrip().startswith('File "')]
    return "\n".join([head, *lines[frames[-1] :]]) if frames else text


def shorten(text: str, lines: int = MAX_LINES) -> str:
    """Return at most `lines` lines, without empty ones."""
    nonempty_lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(nonempty_lines if len(nonempty_lines) <= lines else [*nonempty_lines[: lines - 1], "…"])


def nearest_keys(key: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?` with full key names, found by synonym or last part, else by spelling."""
    known = list(names)
    last = key.rsplit(".", 1)[-1]
    matches = _by_last_part(last, known)
    matches = matches or near_names(key, known)
    if not matches:
        tails = {name.rsplit(".", 1)[-1]: name for name in known}
        matches = [tails[tail] for tail in difflib.get_close_matches(last, tails, 2, 0.75)]
    unique = list(dict.fromkeys(matches))[:3]
    return f"; did you mean {' or '.join(repr(u) for u in unique)}?" if unique else ""


def _by_last_part(last: str, known: Iterable[str]) -> list[str]:
    """Return the keys that end in `last`, and rlox's key for that name in other libraries."""
    names = list(known)
    matches = [SYNONYMS[last]] if SYNONYMS.get(last) in names else []
    return matches + [name for name in names if name.rsplit(".", 1)[-1] == last]


def unknown_key(key: str, names: Iterable[str], owners: Sequence[str] = ()) -> ConfigError:
    """Return the error for a key that nothing has, or that only `owners` have: options not chosen."""
    if owners:
        return ConfigError(
            f"unknown key '{key}': it belongs to {', '.join(owners)}; leave it out, or choose one of these"
        )
    return ConfigError(f"unknown key '{key}'{nearest_keys(key, names)}")


def unknown_option(group: str, option: str, options: Iterable[str]) -> ConfigError:
    """Return the error for an option that a group does not have; short lists are shown in full."""
    names = sorted(options)
    if group == "hydra":
        return _unknown_plugin(f"hydra/{option.replace('/', '=', 1)}")
    if group == "env":
        module, colon, name = option.rpartition(":")
        from rlox.envs.ids import describe_registered_ids  # imported here because it imports Gymnasium

        hint = describe_registered_ids(module) if module else ""
        hint += nearest(name, {*names, *OPTIONAL_PACKAGE_IDS}, module + colon)
        if not hint and ":" not in option:
            hint = f"\n  one of your own: env=module:{option}, with the module that registers it"
        return UnknownNameError(f"env={option}: no such environment in Gymnasium{hint}")
    if not names:
        return UnknownNameError(f"{group}={option}: no such option; the group '{group}' has none")
    # presets are compared within one algorithm, by the name of the environment alone
    algo, slash, name = option.rpartition("/")
    env_names = [known.removeprefix(f"{algo}/") for known in names if known.startswith(f"{algo}/")]
    hint = nearest(name, env_names, f"{algo}/") if slash else nearest(option, names)
    if len(names) <= MAX_LISTED_OPTIONS:
        hint = f", expected one of {', '.join(names)}{hint}"
    return UnknownNameError(
        f"{group}={option}: no such option{hint or f'; rlox list {group} shows the options'}"
    )


def _unknown_plugin(choice: str) -> ConfigError:
    """Return the error for an option of one of Hydra's own groups, which packages extend."""
    if choice in HYDRA_PLUGIN_PACKAGES:
        return MissingExtraError(
            f"{choice} needs a package that is not installed: pip install {HYDRA_PLUGIN_PACKAGES[choice]}"
        )
    group, _, option = choice.partition("=")
    known = [name.removesuffix(".yaml") for name in ConfigStore.instance().list(group)]
    return UnknownNameError(f"{choice}: no such option{nearest(option, known)}")


def unknown_flag(flag: str, value: str | None, names: Sequence[str]) -> ConfigError:
    """Return the error for a setting with dashes, as in other programs: here it is a key."""
    key = flag.lstrip("-").replace("-", "_")
    known = [name for name in names if name == key] or _by_last_part(key, names)
    if not known:
        return ConfigError(
            f"unrecognized arguments: {flag}; settings are written key=value, without dashes; "
            "Hydra's flags: rlox train --hydra-help"
        )
    return ConfigError(f"{flag}: settings are written without dashes: {known[0]}={value or '...'}")


def as_typed(text: str) -> str:
    """Return Hydra's text without the `++` that `overrides` adds to keys of `env.kwargs`."""
    return re.sub(r"\+\+(?=env\.kwargs[.=])", "", text)


def from_hydra(
    error: BaseException,
    names: Sequence[str],
    options: Callable[[str], list[str]],
    owners: Callable[[str], list[str]],
    sweep_hint: str,
    list_keys: Collection[str] = (),
) -> ConfigError:
    """Return a composition error of Hydra or OmegaConf, reworded.

    `options` returns the options of a group, `owners` the options that have a key; `sweep_hint` shows how to
    give a key several values; `list_keys` are the keys that take a list.
    """
    if isinstance(error, OverrideParseException):
        return malformed_override(error)
    if isinstance(error, YAMLError):
        return yaml_error(error)
    text = as_typed("\n".join(str(e) for e in _cause_chain(error) if str(e)))
    if match := re.search(r"Could not (?:find|load) '([^'/]+)/([^']+)'", text):
        return unknown_option(match[1], match[2], options(match[1]))
    if match := re.search(r"Could not override '([^'@]+)", text):
        group = match[1]
        if group in names and "." not in group:  # a group without options
            return unknown_option(group, _value_of(group, text), options(group))
        return unknown_key(group, names, owners(group))
    if match := re.search(r"Could not delete from config\. '([^']+)' does not exist", text):
        return unknown_key(match[1], names, owners(match[1]))
    if match := re.search(r"config group override, but config group '([^']+)' does not", text):
        return unknown_key(match[1], names, owners(match[1]))
    if match := re.search(r"Multiple values for (\S+)\. To override a value use .*: ([^']+)'", text):
        group, option = match.groups()
        return ConfigError(
            f"+{group}={option}: another option is chosen already; to replace it: {group}={option}"
        )
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        is_list = match[1].lstrip("+").partition("=")[0] in list_keys
        return ConfigError(
            f"{match[1]} has several values\n"
            f"  to run each of them: {sweep_hint} {match[1]}"
            + f"\n  for one list: {match[1].replace('=', '=[', 1)}]"
            * is_list
        )
    if "INTERVAL_SWEEP" in text:
        return ConfigError(
            "an interval is not a list of values: only a search draws from it, e.g. search=auto"
        )
    if match := re.search(r"Sweep parameters '([^']+)' requires --multirun", text):
        return ConfigError(f"{match[1]} has several values; to run each: {sweep_hint} '{match[1]}'")
    return ConfigError(shorten(_without_links(text), 6))


def yaml_error(error: YAMLError) -> ConfigError:
    """Return the error for a configuration file that is not YAML."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return ConfigError(f"a configuration file is not YAML: {error}")
    location = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}"
    return ConfigError(f"not YAML: {problem}\n  {location}")


def require_readable(override: str) -> None:
    """Raise `ConfigError` for a number with more digits than Python reads."""
    key, _, value = override.partition("=")
    max_digits = sys.int_info.default_max_str_digits
    if re.search(rf"\d{{{max_digits + 1}}}", value):
        raise ConfigError(f"{key}: got a number of more than {max_digits} digits, expected a smaller one")


def malformed_override(error: OverrideParseException) -> ConfigError:
    """Return the error for an override that Hydra's grammar rejects."""
    override = as_typed(error.override)
    if "=" not in override and not override.startswith("~"):
        return ConfigError(f"'{override}' is not an override, expected key=value, e.g. env=CartPole-v1")
    detail = _without_links(str(error.message)).splitlines()[0]
    return ConfigError(
        f"cannot read the override '{override}': {detail}\n"
        "  brackets must close; values with spaces or special characters need quotes: "
        "'key=\"a value\"'"
    )


def _value_of(key: str, text: str) -> str:
    match = re.search(rf"\+{re.escape(key)}=(\S+)", text)
    return match[1] if match else "?"


def _cause_chain(error: BaseException | None) -> list[BaseException]:
    errors: list[BaseException] = []
    while error is not None and error not in errors:
        errors.append(error)
        error = error.__cause__
    return errors


def _without_links(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "https://" not in line)
