"""Hydra's configuration sources besides files: dataclasses, plugins, environments of Gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from rlox import plugins
from rlox.configs.env import TEXT, is_text
from rlox.configs.text import TASKS
from rlox.envs.ids import env_ids, find_spec, vector_factory
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError
from rlox_cli.config.options import BUILTIN_OPTIONS, user_conf_folders
from rlox_cli.config.run_schema import ALGO, BUFFER, LOGGER
from rlox_cli.config.schema import Group, Schema, default_overrides_of, defaults_of

ROOT = "schema"


class SchemaSource(ConfigSource):
    """`schema://`: the nodes of the command's schema, each created when Hydra asks for it.

    Hydra's own ConfigStore would be copied completely at each composition.
    """

    # The schema of the present command, which Hydra does not pass to a source; a new instance keeps it.
    current_schema: ClassVar[Schema]

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.schema = self.current_schema

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme of this source."""
        return ROOT

    def available(self) -> bool:
        """Return True: the source is part of rlox."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether the path has options of one of the schema's groups."""
        return config_path in ("", ROOT) or bool(self.list(config_path, ObjectType.CONFIG))

    def is_config(self, config_path: str) -> bool:
        """Return whether the path is that of a node."""
        return self._node(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a new copy of the node, because Hydra changes it."""
        return ConfigResult(
            provider=self.provider,
            path=f"{ROOT}://{config_path}",
            config=OmegaConf.create(self._node(config_path) or {}),
            header={"package": None},
        )

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the options of a group below `schema`; Hydra lists them if it does not find one."""
        groups = [g for g in self.schema.groups if config_path == f"{ROOT}/{g.name}"]
        return sorted(groups[0].registry) if groups and results_filter != ObjectType.GROUP else []

    def _node(self, config_path: str) -> dict[str, Any] | None:
        start, _, path = config_path.removesuffix(".yaml").partition("/")
        return self.schema.node(path) if start == ROOT else None


REGISTRY_GROUPS = {group.name: group for group in (ALGO, BUFFER, LOGGER)}


class RegistrySource(ConfigSource):
    """`registry://`: the options that follow from dataclasses: algorithms, buffers and loggers.

    It is searched after the files of rlox and the user, so that it replaces none of them.

    A plugin is imported when Hydra loads its option, but not when Hydra lists the options.
    """

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme of this source."""
        return "registry"

    def available(self) -> bool:
        """Return True: the source is part of rlox."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is the root, a group of options, or a folder in a plugin's conf folder."""
        return config_path in ("", *REGISTRY_GROUPS) or any(
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
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{config_path}",
            config=OmegaConf.create(_option_content(group, name)),
            header={"package": f"{group.name}.{name}" if group.is_multiple else None},
        )

    def _option(self, config_path: str) -> tuple[Group, str] | None:
        """Return the group and the name of an option, or `None`."""
        folder, _, name = config_path.removesuffix(".yaml").partition("/")
        group = REGISTRY_GROUPS.get(folder)
        has_option = group and (name in _registered_options(folder) or group.content_without_file(name))
        return (group, name) if group and has_option else None

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
        return _registered_options(config_path)


def _registered_options(group: str) -> list[str]:
    """Return the options of a group that this source has."""
    own_names = BUILTIN_OPTIONS.get(group)
    return sorted({*own_names, *plugins.plugin_names(group)}) if own_names else []


def _option_content(group: Group, name: str) -> dict[str, Any]:
    """Return the content that an option's file would have in conf/."""
    if content := group.content_without_file(name):
        return dict(content)
    config_class = group.registry[name]
    if default_overrides_of(config_class):
        return {"defaults": [f"/schema/brings/{name}@_global_", "_self_"], **defaults_of(config_class)}
    return defaults_of(config_class)


TEXT_IDS = tuple(f"{TEXT}/{task}" for task in TASKS)  # env=text task=copy in one word


def _is_known_env(env_id: str) -> bool:
    if is_text(env_id):  # a task, or a dataset by the name of its file
        return True
    try:
        if vector_factory(env_id) is None:
            find_spec(env_id)
    except MissingExtraError:
        return True  # the name is fine; the check after composition gives the install command
    except UnknownNameError as error:
        from rlox.envs.engines.pools import is_envpool_id

        # true if the id's module cannot be imported; and for EnvPool's ids: the backend is not known here
        return error.__cause__ is not None or is_envpool_id(env_id)
    return True


class GymnasiumSource(ConfigSource):
    """`gymnasium://`: each registered id is an option of the group `env`, with the content of `env/base`."""

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme of this source."""
        return "gymnasium"

    def available(self) -> bool:
        """Return True: Gymnasium is a dependency."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is a group; only `env` is one here."""
        return config_path in ("", "env")

    def is_config(self, config_path: str) -> bool:
        """Return whether `env/<id>` names an environment."""
        env_id = _env_id(config_path)
        return env_id is not None and _is_known_env(env_id)

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the base environment configuration with the id filled in."""
        config = OmegaConf.create({"defaults": ["/env/base@_here_", "_self_"], "id": _env_id(config_path)})
        path = f"{self.scheme()}://{config_path}"
        return ConfigResult(provider=self.provider, path=path, config=config, header={"package": None})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the ids under `env`, for shell completion and for nearest names."""
        if config_path == "" and results_filter in (None, ObjectType.GROUP):
            return ["env"]
        if config_path == "env" and results_filter in (None, ObjectType.CONFIG):
            return [*env_ids(), *TEXT_IDS]
        return []


class RloxSearchPath(SearchPathPlugin):
    """Puts the user's folders first in the search path; variants, registry, schema and Gymnasium's ids last.

    `config_dir` is the folder of `--config-dir`. Hydra itself would put this folder last, or leave it
    out when it composes without a command line.
    """

    config_dir: ClassVar[str | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add rlox's entries; Hydra calls this while it assembles the search path."""
        for number, folder in enumerate(
            [*user_conf_folders(), *([self.config_dir] if self.config_dir else [])]
        ):
            search_path.prepend(f"user-{number}", f"file://{Path(folder).absolute()}")
        search_path.append("rlox-variants", "variants://")
        search_path.append("rlox-registry", "registry://")
        search_path.append("rlox-schema", "schema://")
        search_path.append("rlox-gymnasium", "gymnasium://")


def _env_id(config_path: str) -> str | None:
    path = config_path.removesuffix(".yaml")
    return path[4:] if path.startswith("env/") and len(path) > 4 else None
