"""The dataclasses of `rlox.configs` as Hydra config nodes, and the list of every key they define.

Leaves are registered untyped on purpose: Hydra's struct mode finds unknown keys, and
`rlox.configs.make_run` alone judges types and ranges, so each mistake has one wording.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Any

from rlox.configs import (
    ALGO_CONFIGS,
    BUFFER_CONFIGS,
    LOGGER_CONFIGS,
    EnvConfig,
    RunConfig,
    param,
    plain,
)

GROUPS = ("algo", "env", "buffer", "logger")
DEFAULT_ALGO = RunConfig().algo.name  # as conf/train.yaml


@dataclass(frozen=True)
class EvaluateConfig:
    """What `rlox evaluate` takes."""

    run: str = param(doc="the run folder to evaluate")
    checkpoint: str = param(
        "last", "last, best or the name of a checkpoint, e.g. step-000000100352"
    )
    episodes: int = param(50, "episodes; all are finished and counted", within="[1, inf)")
    seed: int = param(
        100_000, "episode i starts from reset(seed=seed + i)", within="[0, 2147483647]"
    )
    video: bool = param(False, "also film the first episode, as mp4 under videos/")


@dataclass(frozen=True)
class Key:
    """One configurable key: its full dotted name and the field that declares it."""

    name: str
    field: Field[Any]
    hint: Any
    brought: Any = None  # the default that the algorithm has in place of the field's

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def default(self) -> Any:
        """The default value, `???` when the key must be given."""
        if self.brought is not None:
            return self.brought
        if self.field.default is not MISSING:
            return self.field.default
        return "???" if self.field.default_factory is MISSING else self.field.default_factory()


def command_keys(command: str, algos: Sequence[str] = (DEFAULT_ALGO,)) -> list[Key]:
    """Every key that `command` accepts with these algorithms, in the order of the dataclasses."""
    if command == "evaluate":
        return list(_keys(EvaluateConfig, ""))
    found: list[Key] = []
    for algo in algos:
        keys = _keys(ALGO_CONFIGS[algo], "algo.")
        found += [k for k in keys if k.name not in {f.name for f in found}]
    found += _keys(EnvConfig, "env.")
    for kind in dict.fromkeys(kind for algo in algos for kind in ALGO_CONFIGS[algo].buffers):
        keys = _keys(BUFFER_CONFIGS[kind], "buffer.")
        found += [k for k in keys if k.name not in {f.name for f in found}]
    found += [k for k in _keys(RunConfig, "") if k.name.split(".")[0] not in GROUPS]
    return [replace(key, brought=ALGO_CONFIGS[algos[0]].brings.get(key.name)) for key in found]


def chosen_algos(overrides: Iterable[str]) -> tuple[str, ...]:
    """The algorithms that a command line names, several in a sweep; else the default one.

    All of them where a preset or an expression names it.
    """
    given = [o.partition("=")[2] for o in overrides if o.startswith("algo=")]
    if any(o.startswith("exp=") and o != "exp=null" for o in overrides) or "(" in "".join(given):
        return tuple(ALGO_CONFIGS)
    known = [name for name in (given[-1] if given else "").split(",") if name in ALGO_CONFIGS]
    return tuple(known) or (DEFAULT_ALGO,)


def owners(key: str) -> list[str]:
    """The algorithms that have a key."""
    return [
        name for name, cls in ALGO_CONFIGS.items() if key in (k.name for k in _keys(cls, "algo."))
    ]


def key_names(command: str, algos: Sequence[str] = (DEFAULT_ALGO,)) -> list[str]:
    """Names that may stand left of `=`: the keys and, for train, the groups."""
    names = [k.name for k in command_keys(command, algos)]
    if command == "evaluate":
        return names
    return [*GROUPS, "tuned", "exp", "resume", *names]


def register() -> None:
    """Put the nodes into Hydra's ConfigStore, where the files in conf/ refer to them."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name, cls in ALGO_CONFIGS.items():
        store.store(group="schema/algo", name=name, node=plain(cls()), provider="rlox")
        store.store(group="schema/brings", name=name, node=_tree(cls.brings), provider="rlox")
    for name, logger in LOGGER_CONFIGS.items():
        store.store(group="schema/logger", name=name, node=plain(logger()), provider="rlox")
    for name, buffer in BUFFER_CONFIGS.items():
        store.store(group="schema/buffer", name=name, node=plain(buffer()), provider="rlox")
    store.store(group="schema", name="env", node=plain(EnvConfig()), provider="rlox")
    run = {k: v for k, v in plain(RunConfig()).items() if k not in GROUPS}
    store.store(group="schema", name="run", node={**run, "logger": {}}, provider="rlox")
    evaluate = {k.name: k.default for k in command_keys("evaluate")}
    store.store(group="schema", name="evaluate", node=evaluate, provider="rlox")


def _tree(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """`{"env.n_envs": 1}` as a tree."""
    tree: dict[str, Any] = {}
    for key, value in dotted.items():
        group, _, name = key.rpartition(".")
        (tree.setdefault(group, {}) if group else tree)[name] = value
    return tree


def _keys(cls: type[Any], prefix: str) -> Iterator[Key]:
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        if is_dataclass(hints[field.name]):
            yield from _keys(typing.cast(type[Any], hints[field.name]), f"{prefix}{field.name}.")
        else:
            yield Key(f"{prefix}{field.name}", field, hints[field.name])
