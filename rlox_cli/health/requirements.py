"""The requirements of rlox, by its own metadata, and whether the installed packages meet them."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement  # Hydra requires it

from rlox.extras import DISTRIBUTION

# The module to import, for packages that import in less than a second.
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
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"  # in a checkout
DEVELOPER_EXTRAS = ("dev", "peers")


@dataclass(frozen=True)
class RequirementStatus:
    """One requirement and its installed version."""

    name: str
    specification: str
    version: str | None
    problem: str  # empty if the installed version fits


def version(package: str) -> str | None:
    """Return the version of a distribution; `None` if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def own_version() -> str:
    """Return the version of rlox itself."""
    return version(DISTRIBUTION) or "(not installed)"


def required_packages() -> list[RequirementStatus] | None:
    """Return the packages that rlox always needs; `None` if rlox itself is not installed."""
    return _deduplicate(_requirements_of(DISTRIBUTION, "")) if version(DISTRIBUTION) is not None else None


def extras() -> dict[str, list[RequirementStatus]]:
    """Return the requirements of rlox's extras for users, by extra."""
    names = _declared_extras() if version(DISTRIBUTION) is not None else []
    user_extras = [extra for extra in names if extra not in DEVELOPER_EXTRAS]
    return {extra: _deduplicate(_requirements_of(DISTRIBUTION, extra)) for extra in user_extras}


def undeclared_extras() -> list[str]:
    """Return the extras of this checkout that the metadata of its installation does not list yet.

    An editable installation keeps the metadata of the day it was made.
    """
    if version(DISTRIBUTION) is None:
        return []
    try:
        project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
        project_extras = project["optional-dependencies"] if project["name"] == DISTRIBUTION else {}
    except (OSError, ValueError, KeyError):  # no checkout
        return []
    return sorted(set(project_extras) - {*_declared_extras(), *DEVELOPER_EXTRAS})


def _declared_extras() -> list[str]:
    return importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []


def _requirements_of(package: str, extra: str, visited: tuple[str, ...] = ()) -> Iterator[RequirementStatus]:
    """Yield the requirements of a package for an extra; for an empty `extra`, those it always has."""
    for text in importlib.metadata.requires(package) or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # in another package; pip reports it
            continue
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if always == bool(extra) or not (always or (marker and marker.evaluate({"extra": extra}))):
            continue
        installed = version(requirement.name)
        yield RequirementStatus(
            requirement.name,
            f"{requirement.name}{requirement.specifier}",
            installed,
            _problem(requirement, installed),
        )
        for inner in sorted(requirement.extras):
            if installed is not None and requirement.name not in visited:
                yield from _requirements_of(requirement.name, inner, (*visited, package))


def _deduplicate(statuses: Iterable[RequirementStatus]) -> list[RequirementStatus]:
    """Keep one status per package: the first with a problem, else the first."""
    by_name: dict[str, RequirementStatus] = {}
    for status in statuses:
        name = status.name.lower().replace("_", "-")
        if name not in by_name or (status.problem and not by_name[name].problem):
            by_name[name] = status
    return list(by_name.values())


def _problem(requirement: Requirement, installed: str | None) -> str:
    if installed is None:
        return "is missing"
    if not requirement.specifier.contains(installed, prereleases=True):
        return f"is {installed}, expected {requirement.specifier}"
    return ""
