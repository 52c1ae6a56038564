"""Tuned hyperparameters: the presets `tuned/<algo>/<env>.yaml`, as arguments of algorithm classes."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, nearest
from rlox.configs.arguments import arguments_of
from rlox.configs.params import default_of
from rlox.configs.schedules import conflicting_fields
from rlox.errors import ConfigError, UnknownNameError

__all__ = ["fields_of_its_own", "preset_algorithms", "preset_candidates", "preset_names", "preset_options"]

_FOLDER = Path(__file__).parent / "tuned"


@cache
def preset_names() -> tuple[str, ...]:
    """Return the name `<algo>/<env>` of each preset that rlox ships."""
    paths = (path.relative_to(_FOLDER).with_suffix("") for path in _FOLDER.glob("*/**/*.yaml"))
    return tuple(sorted(path.as_posix() for path in paths))


def preset_options(algo: str, preset: str, options: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the façade arguments of a preset, overridden by `options`, and its total number of steps.

    `preset` is `<algo>/<env>` or the name of an environment without the module to import. An environment
    without its own preset uses that of its family (`ALE` for `ALE/Pong-v5`). A plugin's algorithm uses the
    presets of the built-in algorithm that its configuration derives from, without `fields_of_its_own`.
    Raises `UnknownNameError` if there is no preset.
    """
    if not isinstance(preset, str):
        raise ConfigError(f"preset={preset!r:.60}: expected the name of a preset, such as 'CartPole-v1'")
    algorithms = preset_algorithms(algo)
    available = [name for name in preset_names() if name.partition("/")[0] in algorithms]
    requested = next((preset[len(o) + 1 :] for o in algorithms if preset.startswith(f"{o}/")), preset)
    candidates = [f"{algorithm}/{name}" for algorithm in algorithms for name in preset_candidates(requested)]
    full_name = next((name for name in candidates if name in available), candidates[0])
    if full_name not in available:
        hint = f"; there is {', '.join(available)}" if available else "; there is none for this algorithm"
        raise UnknownNameError(f"no tuned preset {full_name}{nearest(full_name, available) or hint}")
    from omegaconf import OmegaConf  # here: help and TAB completion need only the names

    data: Any = OmegaConf.to_container(OmegaConf.load(_FOLDER / f"{full_name}.yaml"))
    own_fields = fields_of_its_own(algo, full_name.partition("/")[0])
    arguments = arguments_of(ALGO_CONFIGS[algo]).values()
    preset_arguments = {
        argument.name: data[argument.part][argument.field.name]
        for argument in arguments
        if argument.is_used
        and not argument.is_hidden
        and argument.field.name in data.get(argument.part, {})
        and not (argument.part == "algo" and argument.field.name in own_fields)
    }
    for part in ("algo", "env", "buffer"):
        for key in sorted(set(data.get(part, {})) - {o.field.name for o in arguments if o.part == part}):
            raise ConfigError(f"the preset {full_name} has the key {part}.{key}, which algo={algo} does not")
    conflicting = _conflicting_arguments(algo, options)
    remaining = {name: value for name, value in preset_arguments.items() if name not in conflicting}
    if not any((remaining | options).get(name) for name in ("normalize_obs", "normalize_reward")):
        remaining.pop("normalize_rule", None)  # the preset normalises, `options` turn that off
    return remaining | options, int(data["total_steps"])


def preset_algorithms(algo: str) -> list[str]:
    """Return the algorithms whose presets apply: `algo` and, for a plugin, its built-in bases.

    The nearest base comes first.
    """
    if algo not in ALGO_CONFIGS or algo in ALGO_CONFIGS.builtin_names:
        return [algo]
    names = {ALGO_CONFIGS[name]: name for name in ALGO_CONFIGS.builtin_names}
    return [algo, *(names[base] for base in ALGO_CONFIGS[algo].__mro__ if base in names)]


def fields_of_its_own(algo: str, owner: str) -> set[str]:
    """Return the fields of `algo` that the presets of `owner`, an algorithm it derives from, do not set.

    The configuration of `algo` drops them, or gives them other defaults.
    """
    config_class = ALGO_CONFIGS[algo]
    if algo == owner:
        return set()
    base_defaults = {f.name: default_of(f) for f in fields(ALGO_CONFIGS[owner])}
    return {
        f.name
        for f in fields(config_class)
        if f.name in config_class.drops or default_of(f) != base_defaults.get(f.name, default_of(f))
    }


def preset_candidates(env_id: str) -> list[str]:
    """Return the possible preset names of an environment: its name, then its family.

    The name is without the module to import; the family of `ALE/Pong-v5` is `ALE`.
    """
    name = env_id.rpartition(":")[2]
    family = name.rpartition("/")[0]
    return [name, family] if family else [name]


def _conflicting_arguments(algo: str, options: dict[str, Any]) -> set[str]:
    """Return the arguments that set the same things as `options` in another way."""
    arguments = arguments_of(ALGO_CONFIGS[algo])
    by_field = {arguments[name].field.name: o for name, o in options.items() if name in arguments}
    config_classes = [ALGO_CONFIGS[algo], *(BUFFER_CONFIGS[kind] for kind in ALGO_CONFIGS[algo].buffers)]
    conflicting = {name for kind in config_classes for name in conflicting_fields(kind, by_field)}
    if (hidden := arguments.get("hidden")) and hidden.is_hidden and "hidden" in options:
        conflicting.add("net_arch")
    return {o.name for o in arguments.values() if o.field.name in conflicting and o.part != "env"}
