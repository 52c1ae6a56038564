"""Hooks that are called by their name: a method that is meant as one, and is none, is not passed over."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from types import CodeType
from typing import Any

from rlox.configs.names import nearest
from rlox.errors import ConfigError

__all__ = ["HOOKS", "LOGGED", "require_callable", "require_no_other"]

# What is called, and with which arguments.
_TICK = ("algo", "step", "metrics", "episodes")
HOOKS: dict[str, tuple[str, ...]] = {
    "on_training_start": ("algo", "total_timesteps"),
    "on_rollout_end": _TICK,
    "on_step": _TICK,
    "on_training_end": ("algo", "step"),
}
LOGGED = {"on_train_step": ("step", "metrics")}
# A method of words like these is taken for a hook by whoever writes it.
_WORDS = (
    "batch|begin|checkpoint|end|env|episode|epoch|eval|evaluate|evaluation|event|fit|init|iteration|learn"
    "|learning|reset|rollout|save|start|step|stop|train|training|update|validation"
)
_LIKE_HOOKS = re.compile(rf"_on_\w+|_?init_callback|on(_({_WORDS})s?)+")
_MEANT = {
    "train_begin": "training_start",
    "train_start": "training_start",
    "train_end": "training_end",
}
_NEAR = 0.85  # of difflib's ratio: a hook with a letter or two that are wrong


def require_callable(key: str, given: Any, hooks: Mapping[str, tuple[str, ...]]) -> None:
    """`ConfigError` for a hook that does not take its arguments, or whose body would not run."""
    kind = type(given).__name__
    for name, told in hooks.items():
        hook = getattr(given, name)
        if inspect.iscoroutinefunction(hook) or inspect.isgeneratorfunction(hook):
            raise ConfigError(
                f"{key}: {name} of a {kind} is async or a generator, expected a plain function"
            )
        if not _takes(hook, told, by_name=hooks is HOOKS):
            write = "**kwargs" if hooks is HOOKS else ", ".join(told)
            raise ConfigError(
                f"{key}: {name} of a {kind} does not take {', '.join(told)}; write "
                f"def {name}(self, {write})"
            )


def require_no_other(
    key: str, given: Any, hooks: Collection[str], known: Collection[str], ours: tuple[type, ...]
) -> None:
    """`ConfigError` for a method that reads as a hook and that nobody calls.

    Of the class of `given` no code says its name, and no base of another library has it; `ours` are the bases
    whose hooks are `known`.
    """
    stray = _stray(given, hooks, known, ours)
    if stray is None:
        return
    if stray in LOGGED:
        hint = f"; {stray} is of a LoggerCallback: derive it from that too, and give it as logger="
    else:
        plain = _plain(stray).strip("_").replace("init_callback", "on_training_start")
        for word, meant in _MEANT.items():
            plain = plain.replace(word, meant)
        hint = f"; did you mean {plain!r}?" if plain in hooks else nearest(plain, hooks)
    raise ConfigError(
        f"{key}: a {type(given).__name__} defines {stray}, which nothing calls: rlox calls "
        f"{', '.join(hooks)}{hint}; rename it, or leave it out"
    )


def _takes(hook: Callable[..., Any], told: Sequence[str], by_name: bool) -> bool:
    """Whether a function can be called with these; of one that does not say so, yes."""
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*(() if by_name else told), **(dict.fromkeys(told) if by_name else {}))
    except TypeError:
        return False
    return True


def _stray(
    given: Any, hooks: Collection[str], known: Collection[str], ours: tuple[type, ...]
) -> str | None:
    """The name of such a method."""
    kinds = [kind for kind in type(given).__mro__ if kind not in (*ours, object)]
    theirs = [kind for kind in kinds[1:] if not issubclass(kind, ours)]
    said = {name for kind in kinds for value in vars(kind).values() for name in _said_by(value)}
    for name in (name for kind in kinds for name, value in vars(kind).items() if callable(value)):
        plain = _plain(name)
        if name in known or name in said or any(name in vars(kind) for kind in theirs):
            continue
        if _LIKE_HOOKS.fullmatch(plain) or get_close_matches(plain, hooks, 1, _NEAR):
            return name
    return None


def _plain(name: str) -> str:
    """`onRolloutEnd` as `on_rollout_end`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _said_by(value: Any) -> set[str]:
    """The names and short texts in the code of a method or property."""
    function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
    left, found = [getattr(function, "__code__", None)], set[str]()
    while left:
        code = left.pop()
        if isinstance(code, CodeType):
            found |= {*code.co_names, *(of for of in code.co_consts if isinstance(of, str))}
            left += [of for of in code.co_consts if isinstance(of, CodeType)]
    return found
