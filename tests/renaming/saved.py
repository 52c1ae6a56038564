"""Fields that code reads by their name: keys of what `asdict` makes are saved or printed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from renaming.inference import Inference
from renaming.program import Program

SAVED = ("asdict", "_asdict")
READ = ("fields", "vars")
MODULE = "torch.nn.modules.module.Module"
PARAMETERS = {MODULE, "torch.nn.parameter.Parameter", "torch._tensor.Tensor"}


def read_by_name(program: Program, inference: Inference) -> Iterator[tuple[str, bool, str]]:
    """Classes with whether their fields are keys of what is made of them, and where that is."""
    for path, scopes in program.scopes.items():
        for node in scopes.of_node:
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            if called not in SAVED + READ:
                continue
            base = node.func.value if called == "_asdict" and isinstance(node.func, ast.Attribute) else None
            value = base or (node.args[0] if node.args else None)
            for kind, name in inference.facts(path, value) if value is not None else ():
                if kind in ("instance", "class") and name in program.classes:
                    yield name, called in SAVED, f"{path}:{node.lineno}"


def is_parameter(program: Program, inference: Inference, class_name: str, name: str) -> bool:
    """Whether an attribute of a torch module is, or may be, a key of its weights."""
    if MODULE not in program.facts(class_name).lookup:
        return False
    scope = program.classes[class_name]
    for node in ast.walk(scope.node):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr.startswith(("register_", "add_module")):
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == name:
                return True
    path = program.path(scope)
    for value in inference.members.get((class_name, name), ()):
        for kind, full in inference.facts(path, value):
            known = program.types.classes.get(full) if kind == "instance" else None
            if known is not None and PARAMETERS & set(known.lookup):
                return True
    return False
