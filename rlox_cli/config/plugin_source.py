"""Hydra config source of plugins (options and conf folders) and of the default buffers of algorithms."""

from __future__ import annotations

from typing import Any

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from rlox import plugins
from rlox.configs import ALGO_CONFIGS
from rlox.errors import ConfigError
from rlox_cli.config.run_schema import ALGO, BUFFER_FOLDER, DEFAULT_BUFFERS, LOGGER, default_buffer_option
from rlox_cli.config.schema import default_overrides_of, defaults_of, nested_dict

GROUPS = {group.name: group for group in (ALGO, LOGGER)}
ALGO_FOLDERS = ("schema/brings", BUFFER_FOLDER)  # other folders with an option per algorithm


class PluginSource(ConfigSource):
    """`plugins://`: searched after the sources of rlox and the user, so that it replaces none of theirs.

    A plugin is imported when Hydra loads its option, but not when Hydra lists the options.
    """

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme of this source."""
        return "plugins"

    def available(self) -> bool:
        """Return True: the source is part of rlox."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is the root or a folder in a plugin's conf folder."""
        return config_path == "" or any(
            (folder / config_path).is_dir() for _, folder in plugins.conf_folders()
        )

    def is_config(self, config_path: str) -> bool:
        """Return whether this source has the option."""
        return self._option(config_path) is not None or bool(self._files(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        """Return an option's content; raise `ConfigError` if two packages have a file of that name."""
        if (option := self._option(config_path)) is None:
            return self._load_file(config_path)
        group, name = option
        registry = GROUPS[ALGO.name if group in ALGO_FOLDERS else group].registry
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{config_path}",
            config=OmegaConf.create(_option_content(group, name, registry[name])),
            header={"package": f"{group}.{name}" if group == LOGGER.name else None},
        )

    def _option(self, config_path: str) -> tuple[str, str] | None:
        """Return the group and the name of an option, or `None`."""
        group, _, name = config_path.removesuffix(".yaml").rpartition("/")
        registry_group = ALGO.name if group in ALGO_FOLDERS else group
        names = plugins.plugin_names(registry_group) if registry_group in GROUPS else []
        if group == BUFFER_FOLDER:
            names = [*names, *ALGO_CONFIGS.builtin_names]
        return (group, name) if name in names else None

    def _files(self, config_path: str) -> list[tuple[plugins.PluginEntry, Any]]:
        name = config_path if config_path.endswith(".yaml") else f"{config_path}.yaml"
        return [(o, folder) for o, folder in plugins.conf_folders() if (folder / name).is_file()]

    def _load_file(self, config_path: str) -> ConfigResult:
        matches = self._files(config_path)
        if len({entry.distribution for entry, _ in matches}) > 1:
            sources = " and ".join(entry.source for entry, _ in matches)
            raise ConfigError(
                f"{config_path.removesuffix('.yaml')}.yaml: {sources} both have it, so neither is used; "
                "uninstall one of them, or write your own: --config-dir FOLDER"
            )
        return FileConfigSource(self.provider, f"file://{matches[0][1]}").load_config(config_path)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the options under a group."""
        return plugins.plugin_names(config_path) if config_path in GROUPS else []


def _option_content(group: str, name: str, config_class: type[Any]) -> dict[str, Any]:
    """Return the content that an option's file would have in conf/."""
    if group == "schema/brings":
        return nested_dict(default_overrides_of(config_class))
    if group == BUFFER_FOLDER:
        return default_buffer_option(f"{DEFAULT_BUFFERS}/{name}")
    if group == ALGO.name and default_overrides_of(config_class):
        return {"defaults": [f"/schema/brings/{name}@_global_", "_self_"], **defaults_of(config_class)}
    return defaults_of(config_class)
