"""Tuned hyperparameters for façades: the presets `conf/tuned/<algo>/<env>.yaml` of the command line."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, nearest
from rlox.configs.schedules import other_ways
from rlox.errors import UnknownNameError

__all__ = ["preset_algorithms", "presets_of", "tuned_names", "tuned_options"]

# What a façade calls keys outside of `algo`.
_ARGUMENTS = {
    "env.backend": "env_backend",
    "buffer.capacity": "buffer_size",
    "buffer.name": "buffer",
}


@cache
def tuned_names() -> tuple[str, ...]:
    """`<algo>/<env>` of each preset that is shipped."""
    root = _folder()
    found = (path.relative_to(root).with_suffix("") for path in root.glob("*/**/*.yaml"))
    return tuple(sorted(path.as_posix() for path in found))


def tuned_options(algo: str, preset: str, options: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The arguments that a preset gives a façade, under `options`, and its total of steps.

    `preset` is the name of an environment, without a module to import, or `<algo>/<env>`; one without a
    preset of its own has that of its family, `ALE` of `ALE/Pong-v5`. An algorithm of a plugin has those of
    the built-in one that its configuration derives from, without the fields that it drops.
    `UnknownNameError` where there is none.
    """
    owners = preset_algorithms(algo)
    known = [name for name in tuned_names() if name.partition("/")[0] in owners]
    asked = next((preset[len(o) + 1 :] for o in owners if preset.startswith(f"{o}/")), preset)
    wanted = [f"{owner}/{name}" for owner in owners for name in presets_of(asked)]
    own = next((name for name in wanted if name in known), wanted[0])
    if own not in known:
        there = f"; there is {', '.join(known)}" if known else "; there is none for this algorithm"
        raise UnknownNameError(f"no tuned preset {own}{nearest(own, known) or there}")
    data: Any = OmegaConf.to_container(OmegaConf.load(_folder() / f"{own}.yaml"))
    given = {
        _ARGUMENTS.get(f"{group}.{key}", key): value
        for group in ("algo", "env", "buffer")
        for key, value in data.get(group, {}).items()
        if group != "algo" or key not in ALGO_CONFIGS[algo].drops
    }
    displaced = _other_ways(algo, options)
    kept = {name: value for name, value in given.items() if name not in displaced}
    arguments = {**kept, **options}
    if not any(arguments.get(name) for name in ("normalize_obs", "normalize_reward")):
        kept.pop("normalize_rule", None)  # of a preset whose normalisation `options` turn off
    return {**kept, **options}, int(data["total_steps"])


def preset_algorithms(algo: str) -> list[str]:
    """Whose presets an algorithm has: its own and, of a plugin, those of what it derives from."""
    if algo not in ALGO_CONFIGS or algo in ALGO_CONFIGS.own:
        return [algo]
    bases = ALGO_CONFIGS[algo].__mro__
    return [algo, *(name for name in sorted(ALGO_CONFIGS.own) if ALGO_CONFIGS[name] in bases)]


def presets_of(env_id: str) -> list[str]:
    """What the preset of an environment may be called: its name without a module to import, then that of
    the family that it belongs to (`ALE` of `ALE/Pong-v5`).
    """
    name = env_id.rpartition(":")[2]
    family = name.rpartition("/")[0]
    return [name, family] if family else [name]


def _other_ways(algo: str, options: dict[str, Any]) -> set[str]:
    """The arguments that say in another way what these say."""
    named = {argument: key.rpartition(".")[2] for key, argument in _ARGUMENTS.items()}
    given = {named.get(name, name): value for name, value in options.items()}
    kinds = [ALGO_CONFIGS[algo], *(BUFFER_CONFIGS[kind] for kind in ALGO_CONFIGS[algo].buffers)]
    found = {name for kind in kinds for name in other_ways(kind, given)}
    return found | {_ARGUMENTS[key] for key in _ARGUMENTS if key.rpartition(".")[2] in found}


def _folder() -> Path:
    """The shipped presets, which lie beside the command line; found without importing that."""
    spec = find_spec("rlox_cli")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "conf" / "tuned"
