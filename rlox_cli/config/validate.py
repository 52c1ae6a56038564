"""From a composed Hydra config to validated, frozen config objects.

Below keys that rlox does not define, references to environment variables are kept in place of values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, AutoBufferConfig, RunConfig, make_run
from rlox.configs.advice import check_new_run
from rlox.configs.check import require_buffer
from rlox.configs.env import is_text
from rlox.configs.loggers import TRACKING_URI, TRACKING_URI_REFERENCE, MlflowConfig
from rlox.configs.name_suggestions import require_name
from rlox.configs.offline import NO_ENV
from rlox.configs.params import expected_text
from rlox.configs.run import require_task
from rlox.configs.secrets import EnvVarRef, parse_scalar
from rlox.envs.engines.factories import require_env
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError
from rlox_cli.config.run_schema import RUN
from rlox_cli.config.schema import REQUIRED, Key, Schema
from rlox_cli.runs.run_folder import nearest_runs_hint
from rlox_cli.shell import messages

if TYPE_CHECKING:  # composition alone needs no environment
    from rlox.envs.actions import ActionCodec
    from rlox.envs.spaces import ObservationCodec

_REFERENCE = re.compile(r"\$\{([^{}:]+)\}")  # a reference to another value of the configuration


def _keep_references(data: dict[str, Any], config: DictConfig, keys: Iterable[Key]) -> None:
    """Put an `EnvVarRef` in place of each value below an open key that `oc.env` gave."""
    raw: Any = OmegaConf.to_container(config, resolve=False)
    if "oc.env" not in str(raw):
        return
    for name in [key.name for key in keys if key.is_open]:
        *path, last = name.split(".")
        raw_values, resolved_values = _get_path(raw, path), _get_path(data, path)
        if isinstance(raw_values, dict) and isinstance(resolved_values, dict) and last in raw_values:
            resolved_values[last] = _mark_references(raw_values[last], resolved_values[last], raw)


def _mark_references(raw: Any, resolved: Any, tree: Any) -> Any:
    """Return the resolved value, or an `EnvVarRef` with the raw text if it needs an environment variable."""
    if isinstance(raw, str):
        if not _depends_on_environment(raw, tree, ()):
            return resolved
        return EnvVarRef(raw, parse_scalar(resolved) if isinstance(resolved, str) else resolved)
    if isinstance(raw, dict):
        return {key: _mark_references(raw[key], resolved[key], tree) for key in resolved}
    if isinstance(raw, list):
        return [_mark_references(inner, value, tree) for inner, value in zip(raw, resolved, strict=True)]
    return resolved


def _depends_on_environment(raw: Any, tree: Any, visited: tuple[str, ...]) -> bool:
    """Return whether a value, or one that it refers to, uses `oc.env`; true if unknown."""
    if isinstance(raw, (dict, list)):
        return any(
            _depends_on_environment(v, tree, visited)
            for v in (raw.values() if isinstance(raw, dict) else raw)
        )
    if not isinstance(raw, str) or "${" not in raw:
        return False
    names = [name.strip() for name in _REFERENCE.findall(raw)]
    # a relative name, or one inside another expression, may refer to anything
    if "oc.env" in raw or any(name.startswith(".") for name in names) or "${" in _REFERENCE.sub("", raw):
        return True
    unvisited = [name for name in names if name not in visited]
    return any(
        _depends_on_environment(_get_path(tree, name.split(".")), tree, (*visited, name))
        for name in unvisited
    )


def _get_path(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def run_config(config: DictConfig) -> RunConfig:
    """Return the validated configuration of one training job."""
    data, keys = _data_and_keys(config, RUN)
    unknown = _unknown_key(data, RUN, keys)
    if unknown and RUN.owners(unknown):  # perhaps from a preset for another buffer
        _require_buffer(data)
    _require_known(data, RUN, keys)
    run = make_run(data, is_new_run=True)
    check_new_run(run)
    require_environment(run)
    return run


def require_environment(config: RunConfig) -> None:
    """Raise an error if the environment of a run, or its task, does not exist; a run may have none."""
    if is_text(config.env.id):
        require_task(config)
    elif config.env.id != NO_ENV:
        require_env(config.env)


def saved_config(data: dict[str, Any]) -> RunConfig:
    """Return the validated configuration from plain data, e.g. of a run folder; import nothing it names."""
    _require_known(data, RUN, RUN.keys(RUN.options_of(data)))
    config = make_run(data)
    for key, logger in config.logger.items():
        if isinstance(logger, MlflowConfig) and logger.has_address:
            raise ConfigError(
                f"logger.{key}.tracking_uri in the run folder is an address, which is not used from there: "
                f"put {TRACKING_URI_REFERENCE} in its place and export {TRACKING_URI}=..."
            )
    return config


def checked_data(config: DictConfig, schema: Schema) -> dict[str, Any]:
    """Return the plain data of a composed configuration; raise `ConfigError` for unknown or missing keys."""
    data, keys = _data_and_keys(config, schema)
    _require_known(data, schema, keys)
    return data


def require_normalize_rule_used(configs: Sequence[RunConfig], overrides: Sequence[str]) -> None:
    """Raise `ConfigError` for a normalisation rule among `overrides` if no run normalises anything."""
    has_rule = any(o.lstrip("+").startswith("env.normalize_rule=") for o in overrides)
    if has_rule and not any(config.env.has_normalization for config in configs):
        for config in configs:
            config.env.require_normalization()


def try_environment(config: RunConfig) -> None:
    """Create one environment and check its spaces, before torch takes seconds to import.

    This finds a missing package, invalid arguments, spaces that no policy takes and frames that cannot be
    rendered.
    """
    from rlox.envs.actions import ActionCodec
    from rlox.envs.failures import close_or_warn
    from rlox.envs.make import require_native, uses_native, wrapped_factory
    from rlox.envs.videos import render_frame, require_video

    if config.algo.is_native_only:
        require_native(config.env, config.algo.name)
    if config.env.id == NO_ENV or is_text(config.env.id) or uses_native(config.env):
        return
    records_video = config.env.record_every > 0
    if records_video:
        require_video()
    env = wrapped_factory(config.env, render_mode="rgb_array" if records_video else None, training=True)()
    try:
        if records_video:
            env.reset()
            render_frame(env)
        codec_of(env.observation_space, config.env.id)
        ActionCodec.of(env.action_space, config.env.id)
    finally:
        close_or_warn(env, config.env.id)


def spaces_of(config: RunConfig) -> tuple[ObservationCodec, ActionCodec]:
    """Return the codecs of a run's observations and actions; one environment is created for that."""
    from rlox.envs.actions import ActionCodec
    from rlox.envs.failures import close_or_warn
    from rlox.envs.make import wrapped_factory

    env = wrapped_factory(config.env, training=True)()
    try:
        observations = codec_of(env.observation_space, config.env.id)
        actions = ActionCodec.of(env.action_space, config.env.id)
    finally:
        close_or_warn(env, config.env.id)
    return observations, actions


def require_spaces(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> None:
    """Raise `ConfigError` if a run's algorithm, with its settings, cannot learn in these spaces."""
    from rlox.algorithms.assembly.encoding import make_encoder_spec, require_actions

    algo = config.algo
    require_actions(config, actions)
    if algo.needs_bounds and not actions.choices:
        actions.unit_codec(config.env.id, algo.name)
    has_encoder = algo.unit == "env_steps" and bool(getattr(algo, "encoder", ""))
    if has_encoder and not algo.has_custom_policy and not observations.images:
        encoder_config: Any = algo
        make_encoder_spec(encoder_config, observations, config.env.id, getattr(algo, "share_encoder", True))


def require_init_from(config: RunConfig) -> None:
    """Check that the run to begin from exists, before torch is imported."""
    if config.init_from is not None and not Path(config.init_from).is_dir():
        hint = nearest_runs_hint(Path(config.init_from))
        raise ConfigError(f"init_from={config.init_from}: no such folder{hint}")


def plain_data(config: DictConfig) -> dict[str, Any]:
    """Return plain data without the `hydra` node, with interpolations resolved; missing values stay `???`."""
    try:
        data = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    return {str(k): v for k, v in cast(dict[Any, Any], data).items() if k != "hydra"}


def _data_and_keys(config: DictConfig, schema: Schema) -> tuple[dict[str, Any], list[Key]]:
    """Return the plain data of a composed configuration, and every key that its options have.

    Numbers, flags and null replace the text that an interpolation gave: `${oc.env:SEED}` always gives text. A
    key that takes text keeps it.
    """
    data = plain_data(config)
    keys = schema.keys(schema.options_of(data))
    _keep_references(data, config, keys)
    text_keys = {key.name for key in keys if key.hint in (str, str | None)}
    for name in _interpolated_names(config):
        *path, last = name.split(".")
        node: Any = data
        for part in path:
            node = node[part] if isinstance(node, dict) else {}
        if name not in text_keys and isinstance(node, dict) and isinstance(node.get(last), str):
            node[last] = parse_scalar(node[last])
    return data, keys


def _interpolated_names(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of the values that are interpolations."""
    for key in map(str, config):
        name = f"{prefix}{key}"
        if OmegaConf.is_interpolation(config, key):
            yield name
        elif isinstance(config._get_node(key), DictConfig) and name != "hydra":
            yield from _interpolated_names(config[key], f"{name}.")


def _require_known(data: dict[str, Any], schema: Schema, keys: Sequence[Key]) -> None:
    """Raise `ConfigError` for a key that the chosen options do not have, or that lacks its value."""
    if unknown := _unknown_key(data, schema, keys):
        group_name = unknown.partition(".")[0]
        _require_package(group_name, schema)
        for group in schema.groups:  # of a plugin that is not installed, no key is known
            node = data.get(group_name)
            if group.name == group_name and isinstance(node, dict) and "name" in node:
                require_name(_option_name(node), group.registry, group_name)
        raise messages.unknown_key(unknown, schema.names(keys), schema.owners(unknown))
    for key in _keys_without_value(data, keys):
        placeholder, range_text = key.name.split(".")[-1].upper(), expected_text(key.field)
        range_suffix = f", {range_text}" if range_text else ""
        raise ConfigError(f"missing key '{key.name}': {key.doc}; give {key.name}={placeholder}{range_suffix}")


def _require_package(group: str, schema: Schema) -> None:
    """Raise `ConfigError` for keys below a group of presets: the preset's file lacks its package line."""
    if group in schema.presets:
        raise ConfigError(
            f"the file that {group}= names sets keys below '{group}', expected keys of a run; put this line "
            "at its top: # @package _global_"
        )


def missing_keys(data: dict[str, Any], schema: Schema) -> list[Key]:
    """Return the keys that have neither a default nor a value."""
    return _keys_without_value(data, schema.keys(schema.options_of(data)))


def _keys_without_value(data: dict[str, Any], keys: Iterable[Key]) -> list[Key]:
    values = dict(_flatten(data))
    return [key for key in keys if key.is_required and values.get(key.name) in (None, REQUIRED)]


def _unknown_key(data: dict[str, Any], schema: Schema, keys: Sequence[Key]) -> str | None:
    """Return the first key that is not one of these keys, nor above or below one."""
    names = schema.names(keys)
    known = set(names)
    for name in names:
        segments = name.split(".")
        known.update(".".join(segments[:depth]) for depth in range(1, len(segments)))
    for name, _ in _flatten(data):
        # a name below a key with a single value means a wrong type of value, which `make` reports
        if name not in known and not any(name.startswith(f"{key.name}.") for key in keys):
            return name
    return None


def _require_buffer(data: dict[str, Any]) -> None:
    """Raise `ConfigError` if the chosen algorithm cannot learn from the chosen buffer."""
    algo, buffer = (_option_name(data.get(group)) for group in ("algo", "buffer"))
    if algo in ALGO_CONFIGS and buffer in BUFFER_CONFIGS and buffer != AutoBufferConfig().name:
        require_buffer(algo, buffer)


def _option_name(node: Any) -> str:
    return str(node.get("name")) if isinstance(node, dict) else ""


def _flatten(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
