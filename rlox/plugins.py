"""What installed packages add to rlox, by entry points of the group `rlox.plugins` (docs/plugins.md).

An entry point is named `<kind>.<name>`, e.g. `algo.vpg`. Which there are is read from the metadata of what
is installed; a plugin is imported when its name is used, and never else. What rlox has itself stays what it
is, whoever offers something of that name, and of two plugins of one name neither is used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.errors import ConfigError, RloxError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "KINDS",
    "AlgorithmPlugin",
    "LoggerPlugin",
    "Offer",
    "Plugged",
    "folders",
    "loaded",
    "names",
    "offers",
    "the_offer",
]

GROUP = "rlox.plugins"
KINDS = ("algo", "env", "wrapper", "logger", "conf")
T = TypeVar("T")


@dataclass(frozen=True)
class AlgorithmPlugin:
    """What an entry point `algo.<name>` is.

    `config` is a frozen dataclass over `AlgorithmConfig` whose `name` is that of the entry point, and
    `facade` says as `module:Name` where its class over `Algorithm` is: imported when a run is built,
    so that help and checks of a configuration wait for no torch.
    """

    config: type[Any]
    facade: str


@dataclass(frozen=True)
class LoggerPlugin:
    """What an entry point `logger.<name>` is.

    `config` is a frozen dataclass whose `name` is that of the entry point; `sink` is called with an
    object of it, the run folder and the run's configuration, and gives a `Sink`. It must be quick and
    leave connections to `Sink.open`.
    """

    config: type[Any]
    sink: Callable[[Any, Path, Any], Any]


@dataclass(frozen=True)
class Offer:
    """One entry point, and the distribution that has it."""

    kind: str
    name: str
    point: EntryPoint
    distribution: str
    version: str
    summary: str

    @property
    def source(self) -> str:
        """Who offers it."""
        return f"{self.distribution} {self.version}"

    def load(self, told: str, value: str | None = None) -> Any:
        """Import it, or something else that it names as `module:Name`.

        `ConfigError` with who offers it and what went wrong. `told` is what named it.
        """
        from importlib.metadata import EntryPoint  # late: most uses of rlox ask for no plugin

        try:
            return EntryPoint(self.point.name, value or self.point.value, GROUP).load()
        except (Exception, SystemExit) as error:
            from rlox.importing import failure  # it imports the configurations, which import this

            what = str(error) if isinstance(error, RloxError) else failure(error)
            raise ConfigError(
                f"{told}: the plugin of {self.source} fails when it is imported: {what}"
            ) from error

    def wrong(self, told: str, expected: str) -> ConfigError:
        """The error for a plugin that is not what its kind asks for."""
        return ConfigError(
            f"{told}: {self.point.value} of {self.source} is no plugin of this kind; expected {expected}"
        )


@cache
def offers() -> tuple[Offer, ...]:
    """Every entry point of the group, by kind and name; nothing is imported.

    What lies in the current folder is not installed: such a folder may be anybody's.
    """
    from importlib.metadata import distributions

    found: list[Offer] = []
    seen: set[str] = set()
    for distribution in distributions(path=_installed()):
        points = distribution.entry_points.select(group=GROUP)
        if not points:  # of the others not even the name is read, there are hundreds
            continue
        name, summary = distribution.name, distribution.metadata.json.get("summary", "")
        normal = re.sub("[-_.]+", "-", name).lower()
        if normal not in seen:  # the first on the path is the one that is imported
            seen.add(normal)
            told = (name, distribution.version, str(summary))
            found += [Offer(*_kind_and_name(point), point, *told) for point in points]
    return tuple(sorted(found, key=lambda o: (o.kind, o.name, o.distribution)))


def names(kind: str) -> list[str]:
    """What plugins offer of a kind."""
    return sorted({offer.name for offer in offers() if offer.kind == kind})


def the_offer(kind: str, name: str, told: str) -> Offer | None:
    """The one plugin of that kind and name; `ConfigError` where several offer it. `told` names it."""
    found = [offer for offer in offers() if (offer.kind, offer.name) == (kind, name)]
    if len(found) > 1:
        raise ConfigError(
            f"{told}: {' and '.join(o.source for o in found)} both offer a plugin of this name, so neither "
            f"is used; uninstall one of them: pip uninstall {found[0].distribution}"
        )
    return found[0] if found else None


def loaded() -> dict[str, str]:
    """Versions of the distributions whose plugins this process has imported."""
    return {
        offer.distribution: offer.version for offer in offers() if offer.point.module in sys.modules
    }


def folders() -> list[tuple[Offer, Path]]:
    """The conf folders that plugins bring, found without importing anything of theirs."""
    found = ((offer, _folder(offer)) for offer in offers() if offer.kind == "conf")
    return [(offer, path) for offer, path in found if path is not None and path.is_dir()]


class Plugged(dict[str, T]):
    """A registry of rlox's own by name, and of plugins: one is imported when it is looked up.

    To go through it is to go through what rlox has itself and what was looked up before.
    """

    def __init__(self, own: dict[str, T], kind: str, part: Callable[[Offer, Any, str], T]) -> None:
        super().__init__(own)
        self.own = frozenset(own)
        self.kind = kind
        self._part = (
            part  # of what an offer loads, the part that this registry holds; else ConfigError
        )

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name in names(self.kind))

    def __missing__(self, name: str) -> T:
        told = f"{self.kind}={name}"
        offer = the_offer(self.kind, name, told)
        if offer is None:
            raise KeyError(name)
        self[name] = part = self._part(offer, offer.load(told), told)
        return part

    def get(self, name: Any, default: Any = None) -> Any:
        """As of any mapping: plugins too."""
        try:
            return self[name]
        except KeyError:
            return default


def _installed() -> list[str]:
    here = os.path.realpath(os.curdir)
    return [entry for entry in sys.path if entry and os.path.realpath(entry) != here]


def _kind_and_name(point: EntryPoint) -> tuple[str, str]:
    kind, _, name = point.name.partition(".")
    return kind, name


def _folder(offer: Offer) -> Path | None:
    top, *rest = offer.point.value.split(".")
    spec = importlib.util.find_spec(top)  # of a name without dots: nothing is imported
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0], *rest) if places else None
