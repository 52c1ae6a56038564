"""Gymnasium's registry as the config group `env`, and the search path of conf folders."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from rlox.configs.text import TASKS, TEXT, is_text
from rlox.envs.ids import env_ids, find_spec, vector_factory
from rlox.errors import MissingExtraError, UnknownNameError
from rlox_cli.config.options import user_conf_folders

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
    """Puts the user's folders first in the search path, and variants, plugins, defaults and ids last.

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
        search_path.append("rlox-plugins", "plugins://")
        search_path.append("rlox-schema", "schema://")
        search_path.append("rlox-gymnasium", "gymnasium://")


def _env_id(config_path: str) -> str | None:
    path = config_path.removesuffix(".yaml")
    return path[4:] if path.startswith("env/") and len(path) > 4 else None
