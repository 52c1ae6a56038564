"""Hydra config source for defaults of dataclasses: files in conf/ refer to them as `schema/...`."""

from __future__ import annotations

from typing import Any, ClassVar

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from rlox_cli.config.schema import Schema

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
