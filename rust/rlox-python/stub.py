"""Writes rlox/_core.pyi: the types of signatures.pyi with the docs and defaults of the built extension.

The docs are the Rust doc comments, and the defaults are those of the Rust signatures, so both are
written once. In signatures.pyi, `= ...` says that a parameter has a default. Run this after a build.
`--check` only says whether the stub is current (exit status 1 if not).
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
SIGNATURES = HERE / "signatures.pyi"
STUB = HERE.parent.parent / "rlox" / "_core.pyi"


def document(body: list[ast.stmt], owner: object) -> None:
    """Adds docstrings to the classes and functions of `body`, once per overloaded name."""
    documented = set()
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name in documented:
            continue
        documented.add(node.name)
        member = inspect.getattr_static(owner, node.name, None)
        doc = None if node.name.startswith("_") else inspect.getdoc(member)
        if doc and "\n" in doc:
            indent = " " * (node.col_offset + 4)
            doc = doc.replace("\n", "\n" + indent).replace("\n" + indent + "\n", "\n\n")
            doc = f"{doc}\n{indent}"
        if isinstance(node, ast.ClassDef):
            document(node.body, member)
        if doc:
            text = ast.Expr(ast.Constant(doc))
            rest = [item for item in node.body if not is_ellipsis(item)]
            node.body = [text, *rest]


def is_ellipsis(node: ast.stmt) -> bool:
    """True for a statement `...` in the place of a body."""
    return isinstance(node, ast.Expr) and is_ellipsis_value(node.value)


def is_ellipsis_value(node: ast.expr | None) -> bool:
    """True for a `...`."""
    return isinstance(node, ast.Constant) and node.value is ...


def fill_defaults(body: list[ast.stmt], owner: object) -> None:
    """Puts the defaults of the extension in the place of `...`.

    Raises:
        SystemExit: signatures.pyi and the extension disagree about what has a default.
    """
    for node in body:
        member = inspect.getattr_static(owner, getattr(node, "name", ""), None)
        if isinstance(node, ast.ClassDef):
            fill_defaults(node.body, member)
        elif isinstance(node, ast.FunctionDef):
            called = owner if node.name in ("__new__", "__init__") else member
            fill(node.args, known_defaults(called), f"{getattr(owner, '__name__', '')}.{node.name}")


def known_defaults(function: object) -> dict[str, object]:
    """The defaults of a callable of the extension; properties and the like have none."""
    if isinstance(function, classmethod | staticmethod):
        function = function.__func__
    if not callable(function):
        return {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return {}
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def fill(arguments: ast.arguments, known: dict[str, object], where: str) -> None:
    """Fills in the defaults of one function. An overload may require a parameter that has a default."""
    for kind, defaults in (
        ([*arguments.posonlyargs, *arguments.args], arguments.defaults),
        (arguments.kwonlyargs, arguments.kw_defaults),
    ):
        names = [argument.arg for argument in kind][len(kind) - len(defaults) :]
        for index, (name, default) in enumerate(zip(names, defaults, strict=True)):
            if default is None:
                continue
            if not is_ellipsis_value(default):
                sys.exit(f"{SIGNATURES.name}: {where} repeats the default of {name}; write `...`")
            if name not in known:
                sys.exit(f"{SIGNATURES.name}: {where} has a default of {name}, the extension has none")
            defaults[index] = ast.Constant(known[name])


def render(core: ModuleType) -> str:
    """The stub's text."""
    tree = ast.parse(SIGNATURES.read_text(encoding="utf-8"))
    fill_defaults(tree.body, core)
    document(tree.body, core)
    tree.body.insert(0, ast.Expr(ast.Constant(f"{inspect.getdoc(core)}\n")))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def main() -> int:
    """Writes or checks the stub."""
    import rlox._core

    text = render(rlox._core)
    if "--check" not in sys.argv[1:]:
        STUB.write_text(text, encoding="utf-8")
        return 0
    if STUB.read_text(encoding="utf-8") == text:
        return 0
    print("rlox/_core.pyi is not current; run `python rust/rlox-python/stub.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
