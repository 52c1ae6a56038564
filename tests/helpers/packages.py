"""Installed packages for a test: a folder on the path with modules and metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rlox import plugins
from rlox.algorithms import ALGORITHMS
from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, LOGGER_CONFIGS
from rlox.envs import ids
from rlox.loggers import LOGGERS
from rlox.sources.sampling import SAMPLINGS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"
EXAMPLE_POINTS = {
    "algo.vpg": "rlox_example.config:VPG_PLUGIN",
    "buffer.newest": "rlox_example.newest:NEWEST_PLUGIN",
    "logger.sqlite": "rlox_example.sqlite:SQLITE_PLUGIN",
    "conf.rlox_example": "rlox_example.conf",
}
Install = Callable[..., Path]


def write_package(
    site: Path, name: str, points: Mapping[str, str], files: Mapping[str, str] | None = None
) -> Path:
    """Write version 1.0 of a distribution with its files by path into the folder `site`."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: What {name} is for.\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[rlox.plugins]", *lines]), encoding="utf-8")
    for path, text in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    return site


def clear_caches() -> None:
    """Clear the caches of found and imported packages."""
    plugins.plugin_entries.cache_clear()
    ids.plugin_module.cache_clear()
    for registry in (ALGO_CONFIGS, ALGORITHMS, BUFFER_CONFIGS, SAMPLINGS, LOGGER_CONFIGS, LOGGERS):
        for name in set(registry) - registry.builtin_names:
            del registry[name]
