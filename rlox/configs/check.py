"""Build frozen, validated config objects from plain data; every error names the key and the remedy."""

from __future__ import annotations

import math
import numbers
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BUFFER_CONFIGS, BufferConfig, ReplayConfig
from rlox.configs.env import LEGACY, is_text
from rlox.configs.env_settings import require_env_settings
from rlox.configs.grpo import upgrade_delta
from rlox.configs.loggers import LOGGER_CONFIGS
from rlox.configs.name_suggestions import nearest, require_name
from rlox.configs.offline import NO_ENV
from rlox.configs.params import as_code, expected_text, is_inside, object_name, plain_argument, type_hints_of
from rlox.configs.run import ALGO_CONFIGS, RunConfig, with_task
from rlox.configs.schedules import anneal_switches, as_schedule, is_constant
from rlox.configs.secrets import EnvVarRef
from rlox.errors import ConfigError

T = TypeVar("T")

# Groups whose `name` selects the dataclass.
UNIONS: dict[str, Mapping[str, type[Any]]] = {"algo": ALGO_CONFIGS, "buffer": BUFFER_CONFIGS}

# Keys of `algo` in configurations that earlier versions saved; they never had an effect.
OLD_ALGO_KEYS = frozenset({"inference"})

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def make(cls: type[T], data: Mapping[str, Any], path: str = "") -> T:
    """Build the config dataclass `cls` from plain data, checking names, types, ranges and choices."""
    fields_by_name = {f.name: f for f in fields(cast(Any, cls))}
    for key in data:
        if key not in fields_by_name:
            raise ConfigError(
                f"unknown key '{_join(path, key)}'{_nearest_key(path, str(key), fields_by_name)}"
            )
    hints = type_hints_of(cast(Any, cls))
    values = {
        name: _parse_field(fields_by_name[name], hints[name], value, _join(path, name))
        for name, value in data.items()
    }
    missing = [n for n, f in fields_by_name.items() if n not in values and not _has_default(f)]
    if missing:
        raise ConfigError(f"missing key '{_join(path, missing[0])}': give it a value")
    return cls(**values)


def make_run(data: Mapping[str, Any], is_new_run: bool = False) -> RunConfig:
    """Build a run configuration from a composed or saved tree, with the algorithm's own defaults.

    With `is_new_run` the run goes from its first step to `total_steps`, and is refused if it would learn
    nothing. Saved runs and façades are not checked: a saved run may have been stopped anywhere, and a façade
    gets its total later.
    """
    run = _check_consistency(_with_buffer(make(RunConfig, _with_defaults(data))))
    if is_new_run:
        run.algo.check_total(run.rounded_steps)
    return run


def upgrade_saved_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tree that an earlier version saved to today's keys.

    Keys that never had an effect are removed. A missing key whose default differs from the earlier behaviour
    gets the value of that behaviour.
    """
    tree = dict(data)
    if isinstance(algo := data.get("algo"), Mapping):
        tree["algo"] = upgrade_delta({k: v for k, v in algo.items() if k not in OLD_ALGO_KEYS})
    if isinstance(env := data.get("env"), Mapping):
        is_normalized = env.get("normalize_obs") is True or env.get("normalize_reward") is True
        # offline algorithms normalise nothing and accept only the default rule
        legacy_defaults = {"normalize_rule": "sb3"} if is_normalized else {}
        if not is_text(str(env.get("id"))):  # text tasks reset nothing
            legacy_defaults["seeding"] = LEGACY
        tree["env"] = {**legacy_defaults, **env}
    return tree


def require_buffer(algo: str, buffer: str) -> None:
    """Raise `ConfigError` if the algorithm of that name cannot learn from the buffer of that name.

    An algorithm that learns from `uniform` learns from every replay buffer of a plugin too.
    """
    buffers = ALGO_CONFIGS[algo].buffers
    is_plugin = buffer not in BUFFER_CONFIGS.builtin_names
    takes_plugin = is_plugin and "uniform" in buffers and issubclass(BUFFER_CONFIGS[buffer], ReplayConfig)
    if buffer not in buffers and not takes_plugin:
        raise ConfigError(f"buffer={buffer}: {algo} learns from {' or '.join(buffers)}; leave buffer out")


def check_integer(cls: type[Any], field: str, value: Any, label: str) -> int:
    """Check an argument by the integer field of `cls` that it sets; errors call it `label`."""
    dataclass_field = {f.name: f for f in fields(cls)}[field]
    number: int = _parse_field(dataclass_field, int, value, label)
    return number


def check_integers(cls: type[Any], field: str, values: Any, label: str) -> tuple[int, ...]:
    """Check each number of a list or tuple by the integer field of `cls`; errors call it `label`."""
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{label}={values!r:.60}: expected a list or tuple of whole numbers")
    return tuple(check_integer(cls, field, value, label) for value in values)


def require_bools(**arguments: object) -> None:
    """Raise `ConfigError` for arguments that are not bools: any non-empty text would count as true."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name}={value!r:.60}: expected True or False")


def require_device(name: Any) -> None:
    """Raise `ConfigError` unless `name` is a device name; building a run checks that the device exists."""
    if not isinstance(name, str) or not _DEVICE.fullmatch(name):
        raise ConfigError(f"device={name}: expected auto, cpu, cuda, cuda:N or mps")


def to_plain(config: Any) -> dict[str, Any]:
    """Convert a config object to plain data (lists, dicts, numbers) for YAML or JSON."""
    return cast(dict[str, Any], _to_plain(asdict(config)))


def dotted_items(data: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and values of a plain configuration."""
    for key, value in data.items() if isinstance(data, Mapping) else ():
        if isinstance(value, Mapping):
            yield from dotted_items(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _with_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data` with the algorithm's own defaults for missing keys."""
    algo = data.get("algo")
    algo_name = algo.get("name") if isinstance(algo, Mapping) else None
    algo_class = ALGO_CONFIGS.get(algo_name) if isinstance(algo_name, str) else None
    data_with_defaults: dict[str, Any] = {"buffer": {"name": "auto"}, **data}
    for key, value in (algo_class.default_overrides if algo_class else {}).items():
        group, _, name = key.rpartition(".")
        node = data_with_defaults.get(group, {})
        if not group:
            data_with_defaults = {name: value, **data_with_defaults}
        elif isinstance(node, Mapping):
            data_with_defaults[group] = _apply_override(group, name, value, node, algo_class)
    return data_with_defaults


def _apply_override(
    group: str, name: str, value: Any, node: Mapping[str, Any], algo_class: type[AlgorithmConfig] | None
) -> Mapping[str, Any]:
    """Add a default to a group; for a buffer only if it is, or becomes, the algorithm's own buffer."""
    if group != "buffer" or algo_class is None:
        return {name: value, **node}
    buffer_name = algo_class.buffers[0] if node.get("name") == "auto" else node.get("name")
    # other names are refused later, by `require_buffer`
    return {name: value, **node, "name": buffer_name} if buffer_name == algo_class.buffers[0] else node


def _with_buffer(run: RunConfig) -> RunConfig:
    """Replace `auto` by the algorithm's buffer, with the requested size."""
    if run.buffer.name == "auto":
        buffer_class = BUFFER_CONFIGS[run.algo.default_buffer]
        buffer_fields = {f.name for f in fields(buffer_class)} - {"name"}
        buffer_settings = {k: v for k, v in asdict(run.buffer).items() if k != "name" and v is not None}
        if extra := sorted(buffer_settings.keys() - buffer_fields):
            raise ConfigError(
                f"buffer.{extra[0]}={buffer_settings[extra[0]]}: {run.algo.name} keeps its experience in "
                f"buffer={run.algo.default_buffer}, which has no such key"
            )
        run = replace(run, buffer=buffer_class(**buffer_settings))
    require_buffer(run.algo.name, run.buffer.name)
    return run


def _check_consistency(run: RunConfig) -> RunConfig:
    require_device(run.device)
    run.buffer.check()
    for label in (run.run.name or "", *run.run.tags):
        if not label.isprintable():
            raise ConfigError(f"run.name and run.tags: {label!r} has unprintable characters; leave them out")
    run = with_task(_drop_redundant_anneals(run))
    _require_env_or_none(run)
    _require_episodes(run)
    require_env_settings(run)
    run.algo.reject_unused()
    run.algo.check(run.env, run.buffer)
    return run


def _require_env_or_none(run: RunConfig) -> None:
    """Raise `ConfigError` if there is no environment and a setting needs one."""
    if run.env.id != NO_ENV:
        return
    if run.algo.unit != "updates":
        offline_names = ", ".join(name for name, kind in ALGO_CONFIGS.items() if kind.unit == "updates")
        raise ConfigError(
            f"env={NO_ENV}: {run.algo.name} learns in an environment (only {offline_names} learn without); "
            "name one"
        )
    for key, value in (("eval.every", run.eval.every), ("stop.score", run.stop.score)):
        if value:
            raise ConfigError(f"{key}={value:g}: env={NO_ENV} cannot be evaluated; leave {key} out")


def _require_episodes(run: RunConfig) -> None:
    """Raise `ConfigError` for keys about episodes of evaluations that play none."""
    if run.env.id != NO_ENV and run.algo.unit != "samples":
        return
    for name in ("n_envs", "reuse_env", "max_steps"):
        if value := getattr(run.eval, name):
            raise ConfigError(
                f"eval.{name}={value}: the evaluations of this run play no episodes in an environment; "
                "leave it out"
            )


def _drop_redundant_anneals(run: RunConfig) -> RunConfig:
    """Switch off annealing of values that have a schedule; a preset may have switched it on."""
    switches = anneal_switches(cast(Any, type(run.algo))).items()
    anneal_names = [anneal for name, anneal in switches if not is_constant(getattr(run.algo, name))]
    switched_off: dict[str, Any] = dict.fromkeys(
        (name for name in anneal_names if getattr(run.algo, name)), False
    )
    return replace(run, algo=replace(run.algo, **switched_off)) if switched_off else run


def require_one_schedule(algo: str, overrides: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the user gives two schedules for one value."""
    for name, anneal in anneal_switches(cast(Any, ALGO_CONFIGS[algo])).items():
        if overrides.get(anneal) is True and name in overrides and not is_constant(overrides[name]):
            raise ConfigError(
                f"algo.{anneal}=true and algo.{name}={_to_plain(overrides[name])}: both set its schedule; "
                f"leave algo.{anneal} out"
            )


def _parse_field(f: Field[Any], hint: Any, value: Any, path: str) -> Any:
    """Check the value of a field and convert it to its type."""
    try:
        return _convert_field(f, hint, value, path)
    except OverflowError as error:  # `float` raises it; Python prints at most 4300 digits
        expected = f"a value {expected_text(f)}" if expected_text(f) else "a smaller one"
        raise ConfigError(f"{path}: got a number of more than 309 digits, expected {expected}") from error


def _convert_field(f: Field[Any], hint: Any, value: Any, path: str) -> Any:
    if path in UNIONS and hint in (AlgorithmConfig, BufferConfig):  # a field of RunConfig
        return _make_named(UNIONS[path], value, path)
    if path == "logger":
        return _make_loggers(value)
    if is_dataclass(hint):
        if isinstance(value, cast(type[Any], hint)):
            return value
        return make(cast(type[Any], hint), _require_mapping(value, path), path)
    if f.metadata.get("code") in ("one", "many"):
        return as_code(f, value, path)
    if isinstance(value, str) and value == f.metadata.get("null_word"):
        return None
    if f.metadata.get("scheduled"):
        return None if value is None and f.default is None else as_schedule(f, value, path)
    try:
        result = _convert(hint, value, path)
    except ConfigError as error:
        if (remedy := f.metadata.get("hint")) is None:
            raise
        raise ConfigError(f"{error}; {remedy}") from error
    _check_range(f, result, path)
    return result


def _make_named(options: Mapping[str, type[Any]], value: Any, path: str) -> Any:
    data = _require_mapping(value, path)
    name = str(data.get("name", ""))
    require_name(name, options, path)
    return make(options[name], data, path)


def _make_loggers(value: Any) -> dict[str, Any]:
    data = {} if value is None else _require_mapping(value, "logger")
    return {str(k): _make_named(LOGGER_CONFIGS, v, f"logger.{k}") for k, v in data.items()}


def _require_mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}={value!r}: expected a group of keys, e.g. {path}.<key>=<value>")
    return cast(Mapping[str, Any], value)


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
        return _convert(hint, value, path)
    if origin is tuple:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise ConfigError(f"{path}={value!r}: expected a list, e.g. {path}=[...]")
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, v, f"{path}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        return {str(k): plain_argument(v, f"{path}.{k}") for k, v in _require_mapping(value, path).items()}
    return _scalar(hint, value, path)


def _scalar(kind: type[Any], value: Any, path: str) -> Any:
    if kind is bool and isinstance(value, bool):
        return value
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)  # includes NumPy's numbers
    float_value = float(value) if is_number else math.nan  # `OverflowError` if it is too large
    if kind is int and float_value.is_integer():
        return int(value)
    if kind is float and is_number:
        return float_value
    if kind is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    type_texts = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
    raise ConfigError(f"{path}={value!r}: expected {type_texts[kind]}")


def _check_range(f: Field[Any], value: Any, path: str) -> None:
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            _check_range(f, item, f"{path}[{i}]")
        return
    if value is None or value in f.metadata.get("besides", ()):
        return
    choices, within = f.metadata.get("choices"), f.metadata.get("within")
    if choices and value not in choices:
        raise ConfigError(f"{path}={value}: expected {expected_text(f)}{nearest(str(value), choices)}")
    if within and not is_inside(value, within):
        raise ConfigError(f"{path}={value}: expected a value {expected_text(f)}")


def _nearest_key(path: str, key: str, fields_by_name: Mapping[str, Field[Any]]) -> str:
    return nearest(_join(path, key), [_join(path, k) for k in fields_by_name])


def _has_default(f: Field[Any]) -> bool:
    return f.default is not MISSING or f.default_factory is not MISSING


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(v) for v in value]
    if isinstance(value, EnvVarRef):
        return value.text
    return object_name(value) if callable(value) else value
