"""Hooks are called by name; a method that looks like a hook but is never called is an error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from types import CodeType
from typing import Any

from rlox.configs.name_suggestions import nearest
from rlox.errors import ConfigError

__all__ = ["HOOKS", "LOGGER_HOOKS", "require_callable_hooks", "require_no_stray_hook"]

# The hooks that are called, with their arguments.
_TICK_ARGUMENTS = ("algo", "step", "metrics", "episodes")
HOOKS: dict[str, tuple[str, ...]] = {
    "on_training_start": ("algo", "total_timesteps"),
    "on_rollout_end": _TICK_ARGUMENTS,
    "on_step": _TICK_ARGUMENTS,
    "on_training_end": ("algo", "step"),
}
LOGGER_HOOKS = {"on_train_step": ("step", "metrics")}
# A user who names a method with these words expects it to be called.
_HOOK_WORDS = (
    "batch|begin|checkpoint|end|env|episode|epoch|eval|evaluate|evaluation|event|fit|init|iteration|learn"
    "|learning|reset|rollout|save|start|step|stop|train|training|update|validation"
)
_HOOK_PATTERN = re.compile(rf"_on_\w+|_?init_callback|on(_({_HOOK_WORDS})s?)+")
_REPLACEMENTS = {
    "train_begin": "training_start",
    "train_start": "training_start",
    "train_end": "training_end",
}
_MIN_SIMILARITY = 0.85  # minimum of difflib's ratio; a hook with one or two wrong letters is above it


def require_callable_hooks(key: str, instance: Any, hooks: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `ConfigError` for a hook that does not accept its arguments, or whose body would not run."""
    class_name = type(instance).__name__
    for name, arguments in hooks.items():
        hook = getattr(instance, name)
        if inspect.iscoroutinefunction(hook) or inspect.isgeneratorfunction(hook):
            raise ConfigError(
                f"{key}: {name} of a {class_name} is async or a generator, expected a plain function"
            )
        if not _accepts(hook, arguments, by_name=hooks is HOOKS):
            signature_text = "**kwargs" if hooks is HOOKS else ", ".join(arguments)
            raise ConfigError(
                f"{key}: {name} of a {class_name} does not take {', '.join(arguments)}; write "
                f"def {name}(self, {signature_text})"
            )


def require_no_stray_hook(
    key: str,
    instance: Any,
    hooks: Collection[str],
    allowed_names: Collection[str],
    base_classes: tuple[type, ...],
) -> None:
    """Raise `ConfigError` for a method that looks like a hook but is never called.

    Methods that the code of the class refers to by name, or that a base class of another library has, are
    allowed. `base_classes` are the bases whose hooks are `allowed_names`.
    """
    stray_hook = _find_stray_hook(instance, hooks, allowed_names, base_classes)
    if stray_hook is None:
        return
    if stray_hook in LOGGER_HOOKS:
        hint = f"; {stray_hook} is a hook of LoggerCallback: derive from that too, and pass it as logger="
    else:
        snake_name = _to_snake_case(stray_hook).strip("_").replace("init_callback", "on_training_start")
        for word, replacement in _REPLACEMENTS.items():
            snake_name = snake_name.replace(word, replacement)
        hint = f"; did you mean {snake_name!r}?" if snake_name in hooks else nearest(snake_name, hooks)
    raise ConfigError(
        f"{key}: a {type(instance).__name__} defines {stray_hook}, which nothing calls: rlox calls "
        f"{', '.join(hooks)}{hint}; rename it, or leave it out"
    )


def _accepts(hook: Callable[..., Any], arguments: Sequence[str], by_name: bool) -> bool:
    """Return whether a function accepts these arguments; true if its signature is unknown."""
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*(() if by_name else arguments), **(dict.fromkeys(arguments) if by_name else {}))
    except TypeError:
        return False
    return True


def _find_stray_hook(
    instance: Any, hooks: Collection[str], allowed_names: Collection[str], base_classes: tuple[type, ...]
) -> str | None:
    """Return the name of the first method that looks like a hook but is never called."""
    classes = [cls for cls in type(instance).__mro__ if cls not in (*base_classes, object)]
    foreign_classes = [cls for cls in classes[1:] if not issubclass(cls, base_classes)]
    referenced_names = {
        name for cls in classes for value in vars(cls).values() for name in _names_in_code(value)
    }
    for name in (name for cls in classes for name, value in vars(cls).items() if callable(value)):
        snake_name = _to_snake_case(name)
        if (
            name in allowed_names
            or name in referenced_names
            or any(name in vars(cls) for cls in foreign_classes)
        ):
            continue
        if _HOOK_PATTERN.fullmatch(snake_name) or get_close_matches(snake_name, hooks, 1, _MIN_SIMILARITY):
            return name
    return None


def _to_snake_case(name: str) -> str:
    """Convert `onRolloutEnd` to `on_rollout_end`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _names_in_code(value: Any) -> set[str]:
    """Return the names and string constants in the code of a method or property."""
    function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
    remaining, names = [getattr(function, "__code__", None)], set[str]()
    while remaining:
        code = remaining.pop()
        if isinstance(code, CodeType):
            names |= {*code.co_names, *(constant for constant in code.co_consts if isinstance(constant, str))}
            remaining += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names
