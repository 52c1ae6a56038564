"""From a composed Hydra config to validated, frozen config objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlox.configs import RunConfig, make, make_run
from rlox.envs.ids import find_spec
from rlox.errors import ConfigError
from rlox_cli import messages, schema

# Parts of the tree whose keys no dataclass lists: belonging to the environment, or checked by name.
OPEN = re.compile(r"(env\.kwargs|logger)(\.|$)")


def run_config(config: DictConfig) -> RunConfig:
    """The validated configuration of one training job."""
    made = saved_config(plain_data(config))
    find_spec(made.env.id)
    return made


def saved_config(data: dict[str, Any]) -> RunConfig:
    """The configuration in plain data, of a run folder for one; imports nothing it names."""
    _reject_unknown("train", data)
    return make_run(data)


def evaluate_config(config: DictConfig) -> schema.EvaluateConfig:
    """The validated configuration of one evaluation."""
    data = plain_data(config)
    _reject_unknown("evaluate", data)
    if data.get("run") in (None, "???"):
        raise ConfigError("missing key 'run': name the run folder, rlox evaluate run=RUN")
    return make(schema.EvaluateConfig, data)


def try_environment(config: RunConfig) -> None:
    """Make one environment and look at its spaces, before torch takes seconds to import.

    A missing package, arguments that do not fit and spaces that no policy takes show up here.
    """
    from rlox.envs.make import single_factory, uses_native
    from rlox.envs.spaces import ActionCodec, ObservationCodec

    if uses_native(config.env):
        return
    env = single_factory(config.env)()
    try:
        ObservationCodec.of(env.observation_space, config.env.id)
        ActionCodec.of(env.action_space, config.env.id)
    finally:
        env.close()


def plain_data(config: DictConfig) -> dict[str, Any]:
    """Plain data without the `hydra` node, interpolations resolved; missing values stay `???`."""
    try:
        data = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    return {str(k): v for k, v in cast(dict[Any, Any], data).items() if k != "hydra"}


def _reject_unknown(command: str, data: dict[str, Any]) -> None:
    algo = data.get("algo", {})
    named = algo.get("name") if isinstance(algo, dict) else None
    names = schema.key_names(command, schema.chosen_algos([f"algo={named}"]))
    known = set(names)
    for name in names:
        parts = name.split(".")
        known.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
    for key in _flat(data):
        if key not in known and not OPEN.match(key):
            raise messages.unknown_key(key, names)


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in data.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
