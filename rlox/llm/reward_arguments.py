"""What a reward function of the user's is handed: each of its parameters is filled by its name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from rlox.configs.names import nearest
from rlox.errors import ConfigError
from rlox.llm.rows import COLUMNS, TAKEN

__all__ = ["Arguments", "RewardFunction", "require_pairs", "with_arguments"]

# Returns a number, or None, for each completion.
RewardFunction = Callable[..., Sequence[Any]]
FORMS = (
    "expected f(completions, prompts), f(completions, COLUMN), f(texts, COLUMN) or "
    "f(completions, **kwargs), where COLUMN is the name of a column of the dataset"
)
ONE = inspect.Parameter.POSITIONAL_ONLY
MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
OPEN = inspect.Parameter.VAR_KEYWORD
# Names of a first parameter that is something else than completions, and words in such names: of the right
# answer (`labels`, `gold_answers`, `y_true`) and of what is asked.
OTHERS = {*TAKEN[:2], *COLUMNS, "p"}
OTHER_WORDS = {
    "answer", "context", "correct", "expected", "gold", "golden", "groundtruth", "gt", "ideal", "input",
    "instruction", "label", "problem", "prompt", "queries", "query", "question", "ref", "reference", "right",
    "solution", "source", "target", "true", "truth",
}  # fmt: skip


class Arguments:
    """The arguments of a reward function.

    A parameter gets what has its name. Two parameters whose names say nothing, as in `lambda c, p`, get
    completions and prompts. `**kwargs` get the rest. An argument that `functools.partial` has set, or that
    is configured, stays as it is, whatever columns there are.

    Parameters
    ----------
    label : the name of the function in messages
    function : the function, or an object with `__call__`
    known : the names of what can be handed over: `completions`, `prompts`, `texts`, columns

    Raises `ConfigError` for a parameter without a default that is none of these, and for a function that
    sees no completions.
    """

    def __init__(self, label: str, function: RewardFunction, known: Collection[str]) -> None:
        parameters = _parameters(label, function)
        fixed = set(function.keywords) if isinstance(function, partial) else set()
        single = [of for of in parameters if of.kind not in MANY and of.name not in fixed]
        needed = [of.name for of in single if of.default is inspect.Parameter.empty]
        self._named = {of.name: of.name for of in single if of.name in known}
        if missing := [name for name in needed if name not in known]:
            if not _by_position(needed, known):
                raise ConfigError(_asks_for(label, missing[0], known))
            self._named |= dict(zip(needed, ("completions", "prompts"), strict=True))
        self._in_order = [of.name for of in single if of.kind is ONE and of.name in self._named]
        open_ = any(of.kind is OPEN for of in parameters)
        rest = set(known) - set(self._named.values()) - fixed
        self._rest = sorted(rest) if open_ else []
        if not {"completions", "texts"} & self.names:
            raise ConfigError(
                f"reward {label} takes neither completions nor texts by name: {FORMS}"
            )

    @property
    def names(self) -> set[str]:
        """The names of what the function is handed."""
        return {*self._named.values(), *self._rest}

    def call(self, function: RewardFunction, values: Mapping[str, Any]) -> Any:
        """What the function returns for `values`, which has all of `names`."""
        in_order = [values[self._named[name]] for name in self._in_order]
        named = {n: values[of] for n, of in self._named.items() if n not in self._in_order}
        return function(*in_order, **named, **{name: values[name] for name in self._rest})


def require_pairs(function: Callable[..., Any], label: str) -> None:
    """`ConfigError` for a preference function that cannot be called with a list of pairs alone."""
    asked = function.forward if isinstance(function, nn.Module) else function
    try:
        signature = inspect.signature(asked)
    except (TypeError, ValueError):  # a builtin may not say
        return
    try:
        signature.bind([])
    except TypeError as error:
        raise ConfigError(
            f"{label} takes {signature} ({error}): it is called with one argument, the list of pairs; "
            "expected f(pairs), where pair is (first, second), token ids, and pair.prompt those of the prompt"
        ) from error


def with_arguments(
    label: str, function: RewardFunction, more: Mapping[str, Any], key: str
) -> RewardFunction:
    """The function with the arguments that are configured for it.

    Raises `ConfigError` for one that it does not take, and for the name of what all functions are handed.
    """
    if not more:
        return function
    parameters = _parameters(label, function)
    taken = [of.name for of in parameters if of.kind not in (*MANY, ONE)]
    open_ = any(of.kind is OPEN for of in parameters)
    for name in more:
        if name in TAKEN:
            raise ConfigError(
                f"{key}={label}: {name} is what reward functions are handed, and no argument; call the "
                "argument otherwise"
            )
        if name not in taken and not open_:
            raise ConfigError(
                f"{key}={label} takes no {name}, expected some of {', '.join(taken) or 'none'}"
            )
    return partial(function, **more)


def _parameters(label: str, function: RewardFunction) -> Sequence[inspect.Parameter]:
    """The parameters of a function; of a decorated one those that its decorator hands on."""
    if inspect.isclass(function):
        raise ConfigError(
            f"reward {label} is a class, expected a function, or an object with __call__"
        )
    asked = function.forward if isinstance(function, nn.Module) else function
    try:
        # a decorator that changes the parameters says so by its own
        own = list(inspect.signature(asked, follow_wrapped=False).parameters.values())
        if any(of.kind is OPEN for of in own):
            own = list(inspect.signature(asked).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"reward {label} does not say its parameters ({error}): {FORMS}; write a function around it"
        ) from error
    return own


def _by_position(needed: Sequence[str], known: Collection[str]) -> bool:
    """Whether two names can be nothing else than completions and prompts, such as `c, p` and `rows, _`."""
    if len(needed) != 2:
        return False
    first, second = needed
    if first in OTHERS or _words(first) & OTHER_WORDS:
        return False
    if {first, second} & set(known) - {"completions", "prompts"}:
        return False
    return second in ("p", "prompts") or second.startswith("_")


def _words(name: str) -> set[str]:
    """The words in `gold_answers` or `goldAnswers`, in small letters, with and without a last s."""
    words = [word.lower() for word in re.findall("[A-Z]*[a-z]+|[A-Z]+", name)]
    return {*words, *(word.removesuffix("s") for word in words)}


def _asks_for(label: str, name: str, known: Collection[str]) -> str:
    there = [*(n for n in TAKEN[::-1] if n in known), *sorted(set(known) - set(TAKEN))]
    why = " (texts are of a task or a tokenizer)" if name == "texts" else ""
    return (
        f"reward {label} asks for {name}, and there is {', '.join(there)}{why}: "
        f"{FORMS}{nearest(name, there)}"
    )
