"""Writes rlox/_core.pyi: the types of signatures.pyi with the docs of the built extension.

The docs are the Rust doc comments, so they are written once. Run after a build; `--check` only
says whether the stub is current (exit status 1 if not).
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
    seen = set()
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name in seen:
            continue
        seen.add(node.name)
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
            hollow = [item for item in node.body if not is_ellipsis(item)]
            node.body = [text, *hollow]


def is_ellipsis(node: ast.stmt) -> bool:
    """True for the `...` that stands for a body."""
    return isinstance(node, ast.Expr) and getattr(node.value, "value", None) is ...


def render(core: ModuleType) -> str:
    """The stub's text."""
    tree = ast.parse(SIGNATURES.read_text(encoding="utf-8"))
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
