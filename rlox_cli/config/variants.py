"""Replacements for configuration files that a user's variants lack.

`algo/ppo_big.yaml`, built on `ppo`, has PPO's buffer and PPO's tuned presets; `my_pkg:MyEnv-v0` has the
preset of `MyEnv-v0`, and `ALE/Pong-v5` that of `ALE`. An algorithm of a plugin whose configuration derives
from `SACConfig` has SAC's presets, but for the fields that it drops or gives other defaults.

Hydra asks for `tuned/<algo>/<env>` and `buffer/auto/<algo>` by the typed names. A file of exactly that name
comes first; this module replaces only a missing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from rlox.configs.schedules import conflicting_fields
from rlox.presets import fields_of_its_own, preset_algorithms, preset_candidates
from rlox_cli.config.options import CONF, read_option_file
from rlox_cli.config.run_schema import ALGO, AUTO, BUFFER
from rlox_cli.config.schema import Group, base_options


def resolve_variant(path: str, folders: Sequence[Path]) -> str | None:
    """Return the config path (`tuned/ppo/MyEnv-v0`) that replaces a missing path of a variant."""
    folder, _, option = path.removesuffix(".yaml").rpartition("/")
    if folder == f"{BUFFER.name}/{AUTO}":
        tag = ALGO.tag(option, folders)
        return f"{folder}/{tag}" if tag and tag != option else None
    group, _, rest = path.removesuffix(".yaml").partition("/")
    algo, _, env = rest.partition("/")
    if group != "tuned" or not env:
        return None
    tag = ALGO.tag(algo, folders)
    names = [algo, *(preset_algorithms(tag) if tag else ())]
    requested_path, *others = [f"tuned/{a}/{e}" for a in names for e in (env, *preset_candidates(env))]
    if _is_file(requested_path, folders):
        return None
    return next((other for other in others if _is_file(other, folders)), None)


def _is_file(path: str, folders: Sequence[Path]) -> bool:
    return any((folder / f"{path}.yaml").is_file() for folder in folders)


def variant_keys(group: Group, option: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return the keys in the file of a variant, and in those of the variants that it is built on.

    If the variant sets one of two conflicting fields, the other gets its default, in place of a preset's
    value.
    """
    tag = group.tag(option, folders)
    if tag is None:
        return {}
    variant_values = _merged_values(group, option, folders, ())
    config_class = group.registry[tag]
    defaults = {f.name: f.default for f in fields(config_class)}
    return {
        **{key: defaults[key] for key in conflicting_fields(config_class, variant_values)},
        **variant_values,
    }


def _merged_values(
    group: Group, option: str, folders: Sequence[Path], visited: tuple[str, ...]
) -> dict[str, Any]:
    if option in group.registry:
        return {}
    if option in visited:  # a cycle, which Hydra rejects
        return {}
    file = read_option_file(group.name, option, folders)
    base_values = [_merged_values(group, base, folders, (*visited, option)) for base in base_options(file)]
    own_values = {key: value for key, value in file.items() if key not in ("defaults", "name")}
    return {key: value for keys in (*base_values, own_values) for key, value in keys.items()}


def left_out_of_preset(tag: str | None, preset: str, folders: Sequence[Path]) -> list[str]:
    """Return the fields that the preset of a base algorithm sets, but not for the algorithm `tag`."""
    owner = ALGO.tag(preset.partition("/")[0], folders)
    if tag is None or owner is None or owner not in preset_algorithms(tag):
        return []
    own_fields = fields_of_its_own(tag, owner)
    return [name for name in read_option_file("tuned", preset, folders).get("algo", {}) if name in own_fields]


class VariantSource(ConfigSource):
    """`variants://`: replacements for missing files of a user's variants."""

    # The conf folders in use, which Hydra does not pass to a source; a new instance keeps them.
    current_folders: ClassVar[tuple[Path, ...]] = (CONF,)

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.folders = self.current_folders

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme of this source."""
        return "variants"

    def available(self) -> bool:
        """Return True: the source is part of rlox."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is the root; groups exist by their files."""
        return config_path == ""

    def is_config(self, config_path: str) -> bool:
        """Return whether the path is that of a variant."""
        return (
            bool(self._variant_content(config_path)) or resolve_variant(config_path, self.folders) is not None
        )

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a config that refers to the replacement, or that has a variant's own keys."""
        group, content = config_path.split("/")[1], self._variant_content(config_path)
        path = resolve_variant(config_path, self.folders)
        is_preset = path is not None and path.startswith("tuned/")
        composed: dict[str, Any] = {group: content}
        if not content:
            composed = {"defaults": [f"/{path}" if is_preset else f"/{path}@_here_", "_self_"]}
        if is_preset and (defaults := self._own_defaults(config_path, str(path))):
            composed["algo"] = defaults
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{config_path}",
            config=OmegaConf.create(composed),
            header={"package": "_global_" if content or is_preset else None},
        )

    def _variant_content(self, config_path: str) -> dict[str, Any]:
        """Return the keys of `_own/algo/ppo_big`, which is composed after the presets and overrides them."""
        start, _, rest = config_path.removesuffix(".yaml").partition("/")
        name, _, option = rest.partition("/")
        group = {group.name: group for group in (ALGO, BUFFER)}.get(name)
        if start != "_own" or group is None or option in group.registry:
            return {}
        return variant_keys(group, option, self.folders)

    def _own_defaults(self, requested_path: str, path: str) -> dict[str, Any]:
        """Return the defaults of a plugin's algorithm for fields that a preset of its base may not set."""
        tag = ALGO.tag(requested_path.split("/")[1], self.folders)
        own_names = left_out_of_preset(tag, path.removeprefix("tuned/"), self.folders)
        return {f.name: f.default for f in fields(ALGO.registry[tag]) if f.name in own_names} if tag else {}

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return an empty list: variants are not options themselves."""
        return []
