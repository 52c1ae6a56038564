"""Files that a user's variant of an option stands on: `algo/ppo_big.yaml`, built on `ppo`, has PPO's
buffer and PPO's tuned presets; `my_pkg:MyEnv-v0` has the preset `MyEnv-v0`, `ALE/Pong-v5` that of `ALE`. An
algorithm of a plugin whose configuration derives from `SACConfig` has SAC's presets.

Hydra asks for `tuned/<algo>/<env>` and `buffer/_of/<algo>` by the names that were typed. A file of
exactly that name comes first; what this finds stands in for one that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from rlox.configs.schedules import other_ways
from rlox.presets import preset_algorithms, presets_of
from rlox_cli.options import CONF, file_of
from rlox_cli.run_schema import ALGO, BUFFER
from rlox_cli.schema import Group, built_on


def stands_for(path: str, folders: Sequence[Path]) -> str | None:
    """The config path (`tuned/ppo/MyEnv-v0`) that a missing one of a variant stands for."""
    group, _, rest = path.removesuffix(".yaml").partition("/")
    if group == "buffer" and rest.startswith("_of/"):
        tag = ALGO.tag(rest[4:], folders)
        return f"buffer/_of/{tag}" if tag and tag != rest[4:] else None
    algo, _, env = rest.partition("/")
    if group != "tuned" or not env:
        return None
    tag = ALGO.tag(algo, folders)
    names = [algo, *(preset_algorithms(tag) if tag else ())]
    asked, *others = [f"tuned/{a}/{e}" for a in names for e in (env, *presets_of(env))]
    if _is_file(asked, folders):
        return None
    return next((other for other in others if _is_file(other, folders)), None)


def _is_file(path: str, folders: Sequence[Path]) -> bool:
    return any((folder / f"{path}.yaml").is_file() for folder in folders)


def own_keys(group: Group, option: str, folders: Sequence[Path]) -> dict[str, Any]:
    """What the file of a variant says, and those of the variants that it is built on.

    Where it says one thing in one of two ways, a preset's other way is displaced by its default.
    """
    tag = group.tag(option, folders)
    if tag is None:
        return {}
    said = _said(group, option, folders, ())
    kind = group.registry[tag]
    defaults = {f.name: f.default for f in fields(kind)}
    return {**{key: defaults[key] for key in other_ways(kind, said)}, **said}


def _said(
    group: Group, option: str, folders: Sequence[Path], seen: tuple[str, ...]
) -> dict[str, Any]:
    if option in group.registry:
        return {}
    if option in seen:  # a circle, which Hydra refuses
        return {}
    file = file_of(group.name, option, folders)
    below = [_said(group, base, folders, (*seen, option)) for base in built_on(file)]
    own = {key: value for key, value in file.items() if key not in ("defaults", "name")}
    return {key: value for keys in (*below, own) for key, value in keys.items()}


class VariantSource(ConfigSource):
    """`variants://`: what the options of a user's variants stand for, where they have no file."""

    # The conf folders in force, which Hydra does not tell a source; an instance keeps those of its call.
    in_force: ClassVar[tuple[Path, ...]] = (CONF,)

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.folders = self.in_force

    @staticmethod
    def scheme() -> str:
        """The URL scheme of this source."""
        return "variants"

    def available(self) -> bool:
        """It is part of rlox, so always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Groups are there by their files."""
        return config_path == ""

    def is_config(self, config_path: str) -> bool:
        """Whether the path is of a variant."""
        return bool(self._own(config_path)) or stands_for(config_path, self.folders) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """A config that consists of the one it stands for, or of what a variant says for itself."""
        group, own = config_path.split("/")[1], self._own(config_path)
        path = stands_for(config_path, self.folders)
        preset = path is not None and path.startswith("tuned/")
        content: dict[str, Any] = {group: own}
        if not own:
            content = {"defaults": [f"/{path}" if preset else f"/{path}@_here_", "_self_"]}
        if preset and (unused := self._unused(config_path, str(path))):
            content["algo"] = unused
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{config_path}",
            config=OmegaConf.create(content),
            header={"package": "_global_" if own or preset else None},
        )

    def _own(self, config_path: str) -> dict[str, Any]:
        """Of `_own/algo/ppo_big`, composed after the presets: what a variant says counts more."""
        start, _, rest = config_path.removesuffix(".yaml").partition("/")
        name, _, option = rest.partition("/")
        group = {group.name: group for group in (ALGO, BUFFER)}.get(name)
        if start != "_own" or group is None or option in group.registry:
            return {}
        return own_keys(group, option, self.folders)

    def _unused(self, asked: str, path: str) -> dict[str, Any]:
        """What a preset says of fields that the algorithm of a plugin drops, back at its defaults."""
        tag = ALGO.tag(asked.split("/")[1], self.folders)
        if tag is None or tag == path.split("/")[1]:
            return {}
        kind = ALGO.registry[tag]
        said = file_of("tuned", path.removeprefix("tuned/"), self.folders).get("algo", {})
        return {f.name: f.default for f in fields(kind) if f.name in kind.drops and f.name in said}

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """None: they are no options of their own."""
        return []
