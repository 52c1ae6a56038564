"""Files that a user's variant of an option stands on: `algo/ppo_big.yaml`, built on `ppo`, has PPO's
buffer and PPO's tuned presets; `my_pkg:MyEnv-v0` has the preset `MyEnv-v0`.

Hydra asks for `tuned/<algo>/<env>` and `buffer/_of/<algo>` by the names that were typed. A file of
exactly that name comes first; what this finds stands in for one that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from rlox_cli.options import CONF, file_of
from rlox_cli.run_schema import ALGO
from rlox_cli.schema import built_on


def stands_for(path: str, folders: Sequence[Path]) -> str | None:
    """The config path (`tuned/ppo/MyEnv-v0`) that a missing one of a variant stands for."""
    group, _, rest = path.removesuffix(".yaml").partition("/")
    if group == "buffer" and rest.startswith("_of/"):
        tag = ALGO.tag(rest[4:], folders)
        return f"buffer/_of/{tag}" if tag and tag != rest[4:] else None
    algo, _, env = rest.partition("/")
    if group != "tuned" or not env:
        return None
    names = [algo, ALGO.tag(algo, folders)]
    asked, *others = [f"tuned/{a}/{e}" for a in names if a for e in (env, env.rpartition(":")[2])]
    if _is_file(asked, folders):
        return None
    return next((other for other in others if _is_file(other, folders)), None)


def _is_file(path: str, folders: Sequence[Path]) -> bool:
    return any((folder / f"{path}.yaml").is_file() for folder in folders)


def own_keys(algo: str, folders: Sequence[Path]) -> dict[str, Any]:
    """What the file of a variant says, and those of the variants that it is built on."""
    if algo in ALGO.registry:
        return {}
    file = file_of("algo", algo, folders)
    below = [own_keys(base, folders) for base in built_on(file) if base != algo]
    own = {key: value for key, value in file.items() if key != "defaults"}
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
        return stands_for(config_path, self.folders) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """A config that consists of the one it stands for."""
        path = stands_for(config_path, self.folders)
        assert path is not None
        preset = path.startswith("tuned/")
        content: dict[str, Any] = {
            "defaults": [f"/{path}" if preset else f"/{path}@_here_", "_self_"]
        }
        if preset:  # what the variant says for itself counts more than what is tuned for its base
            content["algo"] = own_keys(config_path.split("/")[1], self.folders)
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{config_path}",
            config=OmegaConf.create(content),
            header={"package": "_global_" if preset else None},
        )

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """None: they are no options of their own."""
        return []
