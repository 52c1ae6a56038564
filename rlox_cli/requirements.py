"""What rlox asks for, by its own metadata, and how the packages that are installed meet it."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement  # Hydra asks for it

from rlox.extras import DISTRIBUTION

# Of packages that take no second to import: the module by which it is tried.
MODULES = {
    "gymnasium": "gymnasium",
    "hydra-core": "hydra",
    "numpy": "numpy",
    "omegaconf": "omegaconf",
    "pyyaml": "yaml",
    "rich": "rich",
    "safetensors": "safetensors.torch",
    "torch": "torch",
}
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"  # in a checkout
OF_DEVELOPERS = ("dev", "peers")


@dataclass(frozen=True)
class Need:
    """One requirement, and what is there."""

    name: str
    asked: str
    version: str | None
    problem: str  # empty where what is there fits


def version(package: str) -> str | None:
    """The version of a distribution; `None` where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def own_version() -> str:
    """That of rlox itself."""
    return version(DISTRIBUTION) or "(not installed)"


def needed() -> list[Need] | None:
    """What rlox needs in any case; `None` where rlox itself is not installed."""
    return _each_once(_needs(DISTRIBUTION, "")) if version(DISTRIBUTION) is not None else None


def extras() -> dict[str, list[Need]]:
    """What the extras of rlox for its users need, by extra."""
    named = _provided() if version(DISTRIBUTION) is not None else []
    users = [extra for extra in named if extra not in OF_DEVELOPERS]
    return {extra: _each_once(_needs(DISTRIBUTION, extra)) for extra in users}


def undeclared() -> list[str]:
    """The extras of the checkout that this is which the metadata of its installation does not know yet.

    An editable installation has the metadata of the day it was made.
    """
    if version(DISTRIBUTION) is None:
        return []
    try:
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
        own = project["optional-dependencies"] if project["name"] == DISTRIBUTION else {}
    except (OSError, ValueError, KeyError):  # no checkout
        return []
    return sorted(set(own) - {*_provided(), *OF_DEVELOPERS})


def _provided() -> list[str]:
    return importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []


def _needs(package: str, extra: str, seen: tuple[str, ...] = ()) -> Iterator[Need]:
    """The requirements of a package that belong to an extra, or to none."""
    for text in importlib.metadata.requires(package) or ():
        try:
            asked = Requirement(text)
        except InvalidRequirement:  # of somebody else's package: pip says what is wrong with it
            continue
        marker = asked.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if always == bool(extra) or not (always or (marker and marker.evaluate({"extra": extra}))):
            continue
        found = version(asked.name)
        yield Need(asked.name, f"{asked.name}{asked.specifier}", found, _problem(asked, found))
        for inner in sorted(asked.extras):
            if found is not None and asked.name not in seen:
                yield from _needs(asked.name, inner, (*seen, package))


def _each_once(needs: Iterable[Need]) -> list[Need]:
    """Of what several packages ask for the first, or the one that is not met."""
    found: dict[str, Need] = {}
    for need in needs:
        name = need.name.lower().replace("_", "-")
        if name not in found or (need.problem and not found[name].problem):
            found[name] = need
    return list(found.values())


def _problem(asked: Requirement, found: str | None) -> str:
    if found is None:
        return "is missing"
    if not asked.specifier.contains(found, prereleases=True):
        return f"is {found}, expected {asked.specifier}"
    return ""
