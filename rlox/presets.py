"""Tuned hyperparameters for façades: the command line's presets `conf/tuned/<algo>/<env>.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, nearest
from rlox.configs.schedules import conflicting_fields
from rlox.errors import UnknownNameError

__all__ = ["preset_algorithms", "preset_candidates", "preset_names", "preset_options"]

# Façade arguments for configuration keys outside of `algo`.
_ARGUMENT_BY_KEY = {
    "env.backend": "env_backend",
    "buffer.capacity": "buffer_size",
    "buffer.name": "buffer",
}


@cache
def preset_names() -> tuple[str, ...]:
    """Return the name `<algo>/<env>` of each preset that rlox ships."""
    root = _presets_folder()
    paths = (path.relative_to(root).with_suffix("") for path in root.glob("*/**/*.yaml"))
    return tuple(sorted(path.as_posix() for path in paths))


def preset_options(algo: str, preset: str, options: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the façade arguments of a preset, overridden by `options`, and its total number of steps.

    `preset` is `<algo>/<env>` or the name of an environment without the module to import. An environment
    without its own preset uses that of its family (`ALE` for `ALE/Pong-v5`). A plugin's algorithm uses the
    presets of the built-in algorithm that its configuration derives from, without the fields that the
    plugin's configuration drops.
    Raises `UnknownNameError` if there is no preset.
    """
    algorithms = preset_algorithms(algo)
    available = [name for name in preset_names() if name.partition("/")[0] in algorithms]
    requested = next((preset[len(o) + 1 :] for o in algorithms if preset.startswith(f"{o}/")), preset)
    candidates = [f"{algorithm}/{name}" for algorithm in algorithms for name in preset_candidates(requested)]
    full_name = next((name for name in candidates if name in available), candidates[0])
    if full_name not in available:
        hint = f"; there is {', '.join(available)}" if available else "; there is none for this algorithm"
        raise UnknownNameError(f"no tuned preset {full_name}{nearest(full_name, available) or hint}")
    data: Any = OmegaConf.to_container(OmegaConf.load(_presets_folder() / f"{full_name}.yaml"))
    preset_arguments = {
        _ARGUMENT_BY_KEY.get(f"{group}.{key}", key): value
        for group in ("algo", "env", "buffer")
        for key, value in data.get(group, {}).items()
        if group != "algo" or key not in ALGO_CONFIGS[algo].drops
    }
    conflicting = _conflicting_arguments(algo, options)
    remaining = {name: value for name, value in preset_arguments.items() if name not in conflicting}
    arguments = {**remaining, **options}
    if not any(arguments.get(name) for name in ("normalize_obs", "normalize_reward")):
        remaining.pop("normalize_rule", None)  # the preset normalises, `options` turn that off
    return {**remaining, **options}, int(data["total_steps"])


def preset_algorithms(algo: str) -> list[str]:
    """Return the algorithms whose presets apply: `algo` and, for a plugin, its built-in base algorithms."""
    if algo not in ALGO_CONFIGS or algo in ALGO_CONFIGS.builtin_names:
        return [algo]
    bases = ALGO_CONFIGS[algo].__mro__
    return [algo, *(name for name in sorted(ALGO_CONFIGS.builtin_names) if ALGO_CONFIGS[name] in bases)]


def preset_candidates(env_id: str) -> list[str]:
    """Return the possible preset names of an environment: its name, then its family.

    The name is without the module to import; the family of `ALE/Pong-v5` is `ALE`.
    """
    name = env_id.rpartition(":")[2]
    family = name.rpartition("/")[0]
    return [name, family] if family else [name]


def _conflicting_arguments(algo: str, options: dict[str, Any]) -> set[str]:
    """Return the arguments that set the same things as `options` in another way."""
    field_of_argument = {argument: key.rpartition(".")[2] for key, argument in _ARGUMENT_BY_KEY.items()}
    by_field = {field_of_argument.get(name, name): value for name, value in options.items()}
    config_classes = [ALGO_CONFIGS[algo], *(BUFFER_CONFIGS[kind] for kind in ALGO_CONFIGS[algo].buffers)]
    conflicting = {name for kind in config_classes for name in conflicting_fields(kind, by_field)}
    return conflicting | {
        _ARGUMENT_BY_KEY[key] for key in _ARGUMENT_BY_KEY if key.rpartition(".")[2] in conflicting
    }


def _presets_folder() -> Path:
    """Return the folder of the shipped presets, which is in the package `rlox_cli`; do not import that."""
    spec = find_spec("rlox_cli")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "conf" / "tuned"
