"""Collects the names from the code that users type and files hold.

`tests/meta/frozen_names.json` is the list, `meta/test_frozen_names.py` compares both, and this script,
`python tests/helpers/frozen_names.py`, adds new names. A name on the list may not disappear, because
commands, saved runs, checkpoints and plugins use it. The list leaves out weights: golden runs compare their
keys.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "meta" / "frozen_names.json"
CODE = ("rlox", "rlox_cli")
# Functions that take the name of a random stream.
STREAM_FUNCTIONS = {"generator", "key", "seeded_generators", "stream_seed"}
# Methods whose dictionaries are saved.
STATE_METHODS = {"state", "save_state", "get_state", "state_dict", "weights"}
METRIC = re.compile(r"(?:train|eval|loss|env|time|reward|kl|text|policy|system|sweep)/[a-z0-9_/]+")
RUST_STREAM = re.compile(r'\bSTREAM: &str = "([^"]+)"')
VARIABLE = re.compile(r"\bRLOX_[A-Z]+(?:_[A-Z]+)*\b")


def current() -> dict[str, list[str]]:
    """Return the names of each kind, sorted."""
    texts = {path: path.read_text(encoding="utf-8") for name in CODE for path in (ROOT / name).rglob("*.py")}
    trees = [ast.parse(text) for text in texts.values()]
    rust = [path.read_text(encoding="utf-8") for path in (ROOT / "rust").glob("*/src/**/*.rs")]
    names = {
        "config keys": set(config_keys()),
        "entry points": set(entry_points()),
        "environment variables": {
            name for text in (*texts.values(), *rust) for name in VARIABLE.findall(text)
        },
        "metrics": {text for tree in trees for text in strings(tree) if METRIC.fullmatch(text)},
        "keys of saved state": {key for tree in trees for key in state_keys(tree)},
        "streams": {name for tree in trees for name in streams(tree)}
        | {name for text in rust for name in RUST_STREAM.findall(text)},
    }
    return {kind: sorted(found) for kind, found in names.items()}


def config_keys() -> Iterator[str]:
    """Yield keys as users type them, such as `algo.ppo.clip_eps`: the option follows its group."""
    from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, LOGGER_CONFIGS, RunConfig

    groups = {"algo": ALGO_CONFIGS, "buffer": BUFFER_CONFIGS, "logger": LOGGER_CONFIGS}
    for group, kinds in groups.items():
        for option in kinds:
            yield from _keys(kinds[option], f"{group}.{option}")
    yield from _keys(RunConfig, "")


def _keys(kind: Any, prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        key = f"{prefix}.{field.name}".lstrip(".")
        inner = [t for t in (hints[field.name], *typing.get_args(hints[field.name])) if is_dataclass(t)]
        if len(inner) == 1 and fields(inner[0]):
            yield from _keys(inner[0], key)
        else:
            yield key


def entry_points() -> Iterator[str]:
    """Yield the group of plugins, and the part of each entry before the dot."""
    from rlox.plugins import GROUP, KINDS

    yield from (GROUP, *KINDS)


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def streams(tree: ast.AST) -> Iterator[str]:
    """Yield the names of streams in calls; of a name that ends in a number only the part before it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in STREAM_FUNCTIONS:
            for argument in node.args[:2]:
                parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                if isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str):
                    yield parts[0].value


def state_keys(tree: ast.AST) -> Iterator[str]:
    """Yield the keys of dictionaries in methods whose result is saved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in STATE_METHODS:
            for inner in ast.walk(node):
                keys = inner.keys if isinstance(inner, ast.Dict) else ()
                yield from (
                    key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )


def frozen() -> dict[str, list[str]]:
    """Return the list."""
    return cast("dict[str, list[str]]", json.loads(FILE.read_text(encoding="utf-8")))


def main() -> int:
    """Write the list with new names. Return 1 if a name has disappeared."""
    before = frozen() if FILE.exists() else {}
    now = current()
    gone = [
        f"{kind}: {name}" for kind, names in before.items() for name in names if name not in now.get(kind, [])
    ]
    if gone:
        print("these names are typed or saved and may not go:", *gone, sep="\n  ", file=sys.stderr)
        return 1
    FILE.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
