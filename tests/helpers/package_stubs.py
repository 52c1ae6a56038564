"""Writes the stubs of packages that export the classes of registered algorithms.

    python tests/helpers/package_stubs.py

A type checker cannot follow exports that are made from `rlox.configs.builtin_algorithms`. The stub has
an import for each exported name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType

from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rlox.algorithms", "rlox.configs")
FACADES = {o.facade.partition(":")[2]: o.facade.partition(":")[0] for o in BUILTIN_ALGORITHMS.values()}


def stub(package: str) -> str:
    """Return the stub of a package."""
    module = importlib.import_module(package)
    exports = sorted((source(module, name), not name.isupper(), name) for name in module.__all__)
    lines = [f"from {home} import {name} as {name}" for home, _, name in exports]
    return "\n".join(
        [f'"""Exports of {package}; written by tests/helpers/package_stubs.py."""', "", *lines, ""]
    )


def source(module: ModuleType, name: str) -> str:
    """Return the module that an exported name is from."""
    if name in FACADES and module.__name__ == "rlox.algorithms":
        return FACADES[name]
    value = getattr(module, name)
    if isinstance(value, type | FunctionType):
        return value.__module__
    return _module_with(module, name)


def _module_with(module: ModuleType, name: str) -> str:
    """Return the submodule that defines a name whose value does not tell where it is from."""
    value = getattr(module, name)
    folder = Path(str(module.__file__)).parent
    for path in sorted(folder.glob("[a-z]*.py")):
        submodule = importlib.import_module(f"{module.__name__}.{path.stem}")
        if vars(submodule).get(name) is value and f"\n{name}" in path.read_text("utf-8"):
            return submodule.__name__
    raise AssertionError(f"no module of {module.__name__} defines {name}")


def paths() -> Iterable[tuple[str, Path]]:
    """Yield each package and the path of its stub."""
    for package in PACKAGES:
        yield package, ROOT.joinpath(*package.split("."), "__init__.pyi")


if __name__ == "__main__":
    for package, path in paths():
        path.write_text(stub(package), encoding="utf-8")
