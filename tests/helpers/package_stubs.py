"""Writes the stubs of packages that export the classes of registered algorithms.

    python tests/helpers/package_stubs.py

A type checker cannot follow exports that are made from `rlox.configs.builtin_algorithms`, nor constructors
whose arguments follow from a configuration. The stub has an import for each exported name, and for each
algorithm a class with the signature of its constructor.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType

from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rlox.algorithms", "rlox.configs")
FACADES = {o.facade.partition(":")[2]: o.facade.partition(":")[0] for o in BUILTIN_ALGORITHMS.values()}


# Imports of the names in annotations.
ANNOTATION_IMPORTS = """\
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from torch import nn
"""
ANNOTATION_NAMES = {
    "rlox.algorithms.assembly.offline": "DatasetArgument",
    "rlox.algorithms.text.facade": "ModelArgument, RewardArgument",
    "rlox.algorithms.text.objects": "PreferenceFunction",
    "rlox.callbacks": "Callback, LoggerCallback",
    "rlox.configs.env": "AtariConfig",
    "rlox.configs.params": "Code",
    "rlox.configs.schedules": "Schedule",
    "rlox.envs.make": "EnvLike",
    "rlox.llm.serving": "GenerationServer",
}
# What a checked argument accepts beyond the type of the configuration's field.
ACCEPTED_TYPES = {
    r"tuple\[(\w+), \.\.\.\]": r"Sequence[\1]",
    r"dict\[str, Any\]": "Mapping[str, Any]",
    r"AtariConfig": "AtariConfig | Mapping[str, Any]",
}


def stub(package: str) -> str:
    """Return the stub of a package."""
    module = importlib.import_module(package)
    exports = sorted((source(module, name), not name.isupper(), name) for name in module.__all__)
    lines = [f'"""Exports of {package}; written by tests/helpers/package_stubs.py."""', ""]
    if package != "rlox.algorithms":
        return "\n".join([*lines, *(f"from {home} import {name} as {name}" for home, _, name in exports), ""])
    imports = [f"from {home} import {names}" for home, names in ANNOTATION_NAMES.items()]
    for home, _, name in exports:
        imports.append(f"from {home} import {name} as {f'_{name}' if name in FACADES else name}")
    return "\n".join([*lines, ANNOTATION_IMPORTS, *sorted(imports), *map(class_stub, sorted(FACADES)), ""])


def class_stub(name: str) -> str:
    """Return a class with the constructor of an algorithm's class."""
    cls = getattr(importlib.import_module(FACADES[name]), name)
    parameters = ["self"]
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        annotation = str(parameter.annotation)
        for pattern, accepted in ACCEPTED_TYPES.items():
            annotation = re.sub(pattern, accepted, annotation)
        parameters.append(f"{parameter.name}: {annotation} = ...")
    lines = "".join(f"        {parameter},\n" for parameter in parameters)
    return f"\nclass {name}(_{name}):\n    def __init__(\n{lines}    ) -> None: ..."


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
