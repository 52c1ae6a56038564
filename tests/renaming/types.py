"""What mypy knows of each expression of the repository: the classes it may be an instance of."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mypy.build import BuildResult, build
from mypy.config_parser import parse_config_file
from mypy.modulefinder import BuildSource
from mypy.nodes import FuncDef, MypyFile, TypeInfo
from mypy.options import Options
from mypy.server.subexpr import get_subexpressions
from mypy.subtypes import is_protocol_implementation
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypedDictType,
    TypeType,
    TypeVarLikeType,
    UnionType,
    get_proper_type,
)
from mypy.typevars import fill_typevars_with_any

from renaming.sources import SEARCH_PATH, Source, module_name

# large packages of others whose classes matter to few names here: their values are `Any`
UNREAD = (
    "transformers", "ray", "mlflow", "wandb", "sqlalchemy", "plotly", "peft", "huggingface_hub", "trl",
    "tensorboard", "pip", "databricks", "opentelemetry", "graphql", "narwhals", "datasets", "tokenizers",
    "scipy", "pandas", "sympy", "tensorflow", "jax", "torchvision", "accelerate", "matplotlib", "onnx",
)  # fmt: skip
FORMAT = b"2"  # of what is stored
# What an expression may be: ("instance" | "class" | "function" | "module" | "any", full name)
Fact = tuple[str, str]
Span = tuple[int, int, int, int]  # line, column in characters, and those of the end


@dataclass
class ClassFacts:
    """A class as mypy sees it."""

    name: str
    module: str
    line: int
    lookup: list[str]  # the class and its bases, in the order of resolution
    names: set[str]
    is_protocol: bool = False


@dataclass
class Types:
    """Facts of expressions by file and span, and all classes by full name."""

    facts: dict[str, dict[Span, tuple[Fact, ...]]] = field(default_factory=dict)
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    implements: set[tuple[str, str]] = field(default_factory=set)  # (class, protocol)


def read_types(root: Path, sources: Mapping[str, Source], cache: Path) -> Types:
    """Run mypy over the sources, or read what it found for the same sources before."""
    digest = hashlib.sha256(FORMAT)
    for path, source in sorted(sources.items()):
        digest.update(path.encode() + b"\0" + source.data + b"\0")
    stored = cache / f"types-{digest.hexdigest()[:20]}.pickle"
    if stored.exists():
        with stored.open("rb") as file:
            return pickle.load(file)  # type: ignore[no-any-return]  # our own
    types = _ask_mypy(root, sources, cache)
    cache.mkdir(parents=True, exist_ok=True)
    with stored.open("wb") as file:
        pickle.dump(types, file)
    return types


def _ask_mypy(root: Path, sources: Mapping[str, Source], cache: Path) -> Types:
    options = _options(root, cache)
    modules = [BuildSource(str(root / path), module_name(path), None) for path in sorted(sources)]
    here = os.getcwd()  # noqa: PTH109
    os.chdir(root)
    gc.disable()  # it would look through gigabytes of trees again and again
    try:
        # Types are kept only of modules that are checked, not of those read from the cache.
        for name in {source.module.split(".")[0] for source in modules if source.module}:
            for stored in cache.glob(f"mypy/*/{name}*"):
                shutil.rmtree(stored) if stored.is_dir() else stored.unlink()
        result = build(modules, options)
        return _facts_of(result, {module_name(path): path for path in sources})
    finally:
        gc.enable()
        os.chdir(here)


def _options(root: Path, cache: Path) -> Options:
    options = Options()
    if (root / "pyproject.toml").exists():
        parse_config_file(options, lambda: None, str(root / "pyproject.toml"))
    options.packages, options.exclude = [], []
    options.export_types = options.preserve_asts = options.check_untyped_defs = True
    options.sqlite_cache, options.cache_dir = False, str(cache / "mypy")
    options.namespace_packages = options.explicit_package_bases = True
    options.mypy_path = [str(root / folder) for folder in SEARCH_PATH]
    options.warn_unused_configs = False
    # benchmarks/learning/sb3.py is imported as `sb3` and as `learning.sb3`; mypy wants one name of a file
    for name in ("learning", *UNREAD):
        options.per_module_options[f"{name}.*"] = {"follow_imports": "skip"}
    return options


def _facts_of(result: BuildResult, paths: Mapping[str, str]) -> Types:
    types = Types()
    infos: dict[str, TypeInfo] = {}
    for module, path in paths.items():
        state = result.graph.get(module)
        if state is None or state.tree is None:
            continue
        here = types.facts.setdefault(path, {})
        for expression in get_subexpressions(state.tree):
            type_ = result.types.get(expression)
            if type_ is None:
                continue
            end_line, end_column = expression.end_line, expression.end_column
            if expression.line > 0 and end_line is not None and end_column is not None:
                facts = tuple(dict.fromkeys(_facts(get_proper_type(type_), infos)))
                span = (expression.line, expression.column, end_line, end_column)
                here[span] = tuple(dict.fromkeys(here.get(span, ()) + facts))
        _collect_classes(state.tree, infos)
    for info in list(infos.values()):
        for base in info.mro:
            infos.setdefault(base.fullname, base)
    for name, info in infos.items():
        types.classes[name] = ClassFacts(
            name, info.module_name, info.defn.line, [base.fullname for base in info.mro],
            set(info.names), info.is_protocol,
        )  # fmt: skip
    types.implements = _implementations([info for info in infos.values() if info.module_name in paths])
    return types


def _collect_classes(tree: MypyFile, infos: dict[str, TypeInfo]) -> None:
    """The classes of a module, those in functions too."""
    for _, node, _ in tree.local_definitions():
        if isinstance(node.node, TypeInfo):
            infos[node.node.fullname] = node.node


def _facts(type_: ProperType, infos: dict[str, TypeInfo]) -> list[Fact]:
    if isinstance(type_, UnionType):
        return [fact for item in type_.items for fact in _facts(get_proper_type(item), infos)]
    if isinstance(type_, AnyType):
        return [("any", "")]
    if isinstance(type_, TypeVarLikeType):
        return _facts(get_proper_type(type_.upper_bound), infos)
    if isinstance(type_, TypeType):
        inner = _facts(get_proper_type(type_.item), infos)
        return [("class", name) if kind == "instance" else (kind, name) for kind, name in inner]
    if isinstance(type_, Overloaded):
        return _facts(type_.items[0], infos)
    if isinstance(type_, CallableType):
        return _callable_facts(type_, infos)
    if isinstance(type_, TupleType):
        return _facts(type_.partial_fallback, infos)
    if isinstance(type_, LiteralType | TypedDictType):
        return _facts(type_.fallback, infos)
    if isinstance(type_, Instance):
        infos.setdefault(type_.type.fullname, type_.type)
        if type_.type.fullname == "types.ModuleType":
            return [("module", "")]
        return [("instance", type_.type.fullname)]
    return [] if isinstance(type_, NoneType) else [("other", "")]


def _callable_facts(type_: CallableType, infos: dict[str, TypeInfo]) -> list[Fact]:
    if type_.is_type_obj():
        info = type_.type_object()
        infos.setdefault(info.fullname, info)
        return [("class", info.fullname)]
    definition = type_.definition
    if isinstance(definition, FuncDef):
        return [("function", definition.fullname)]
    return [("function", "")]


def _implementations(infos: list[TypeInfo]) -> set[tuple[str, str]]:
    """Pairs of a class and a protocol that it satisfies without naming it."""
    found = set()
    protocols = [(info, set(info.protocol_members)) for info in infos if info.is_protocol]
    for info in infos:
        names = {name for base in info.mro for name in base.names}
        for protocol, members in protocols:
            if protocol in info.mro or not members or not members <= names:
                continue
            if _satisfies(info, protocol):
                found.add((info.fullname, protocol.fullname))
    return found


def _satisfies(info: TypeInfo, protocol: TypeInfo) -> bool:
    left: Type = fill_typevars_with_any(info)
    right: Type = fill_typevars_with_any(protocol)
    left, right = get_proper_type(left), get_proper_type(right)
    if isinstance(left, TupleType):
        left = left.partial_fallback
    if not (isinstance(left, Instance) and isinstance(right, Instance)):
        return True
    return is_protocol_implementation(left, right)
