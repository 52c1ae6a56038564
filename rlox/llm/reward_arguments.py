"""Arguments of user reward functions, matched by parameter name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from rlox.configs.name_suggestions import nearest
from rlox.errors import ConfigError
from rlox.llm.jsonl_rows import COLUMNS, RESERVED_COLUMNS

__all__ = ["RewardArguments", "RewardFunction", "bind_arguments", "require_takes_pairs"]

# A reward function returns a number, or None, for each completion.
RewardFunction = Callable[..., Sequence[Any]]
EXPECTED_FORMS = (
    "expected f(completions, prompts), f(completions, COLUMN), f(texts, COLUMN) or "
    "f(completions, **kwargs), where COLUMN is the name of a column of the dataset"
)
POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
VARIADIC_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
# A first parameter with one of these names, or one of these words in its name, does not mean completions. It
# means the correct answer (`labels`, `gold_answers`, `y_true`) or the question.
RESERVED_NAMES = {*RESERVED_COLUMNS[:2], *COLUMNS, "p"}
NON_COMPLETION_WORDS = {
    "answer", "context", "correct", "expected", "gold", "golden", "groundtruth", "gt", "ideal", "input",
    "instruction", "label", "problem", "prompt", "queries", "query", "question", "ref", "reference", "right",
    "solution", "source", "target", "true", "truth",
}  # fmt: skip


class RewardArguments:
    """The arguments of a reward function.

    A parameter gets the value that has its name. Two parameters without known names, as in `lambda c, p`, get
    completions and prompts. `**kwargs` gets the rest. An argument that `functools.partial` or the
    configuration has set keeps its value, even if a column has the same name.

    Parameters
    ----------
    label : the name of the function in messages
    function : the function, or an object with `__call__`
    available : names of the available values: `completions`, `prompts`, `texts`, columns

    Raises `ConfigError` for a parameter without a default that is not available, and for a function that
    takes neither completions nor texts.
    """

    def __init__(self, label: str, function: RewardFunction, available: Collection[str]) -> None:
        parameters = _parameters(label, function)
        bound_names = set(function.keywords) if isinstance(function, partial) else set()
        plain_parameters = [
            parameter
            for parameter in parameters
            if parameter.kind not in VARIADIC_KINDS and parameter.name not in bound_names
        ]
        required_names = [
            parameter.name for parameter in plain_parameters if parameter.default is inspect.Parameter.empty
        ]
        self._value_of_parameter = {
            parameter.name: parameter.name for parameter in plain_parameters if parameter.name in available
        }
        if missing := [name for name in required_names if name not in available]:
            if not _is_positional_pair(required_names, available):
                raise ConfigError(_unknown_argument_message(label, missing[0], available))
            self._value_of_parameter |= dict(zip(required_names, ("completions", "prompts"), strict=True))
        self._positional = [
            parameter.name
            for parameter in plain_parameters
            if parameter.kind is POSITIONAL_ONLY and parameter.name in self._value_of_parameter
        ]
        takes_kwargs = any(parameter.kind is VAR_KEYWORD for parameter in parameters)
        extra_names = set(available) - set(self._value_of_parameter.values()) - bound_names
        self._extra = sorted(extra_names) if takes_kwargs else []
        if not {"completions", "texts"} & self.names:
            raise ConfigError(f"reward {label} takes neither completions nor texts by name: {EXPECTED_FORMS}")

    @property
    def names(self) -> set[str]:
        """Names of the values that the function gets."""
        return {*self._value_of_parameter.values(), *self._extra}

    def call(self, function: RewardFunction, values: Mapping[str, Any]) -> Any:
        """Call the function with `values`, which have all of `names`."""
        positional_args = [values[self._value_of_parameter[name]] for name in self._positional]
        keyword_args = {
            n: values[value_name]
            for n, value_name in self._value_of_parameter.items()
            if n not in self._positional
        }
        return function(*positional_args, **keyword_args, **{name: values[name] for name in self._extra})


def require_takes_pairs(function: Callable[..., Any], label: str) -> None:
    """Raise `ConfigError` if a preference function cannot be called with a list of pairs as only argument."""
    callable_object = function.forward if isinstance(function, nn.Module) else function
    try:
        signature = inspect.signature(callable_object)
    except (TypeError, ValueError):  # a builtin may have no signature
        return
    try:
        signature.bind([])
    except TypeError as error:
        raise ConfigError(
            f"{label} takes {signature} ({error}): it is called with one argument, the list of pairs; "
            "expected f(pairs): a pair is (first, second), token ids of completions, and has a pair.prompt"
        ) from error


def bind_arguments(
    label: str, function: RewardFunction, arguments: Mapping[str, Any], key: str
) -> RewardFunction:
    """Bind configured arguments to a function.

    Raises `ConfigError` for an argument that it does not take, and for a reserved argument name.
    """
    if not arguments:
        return function
    parameters = _parameters(label, function)
    accepted_names = [
        parameter.name for parameter in parameters if parameter.kind not in (*VARIADIC_KINDS, POSITIONAL_ONLY)
    ]
    takes_kwargs = any(parameter.kind is VAR_KEYWORD for parameter in parameters)
    for name in arguments:
        if name in RESERVED_COLUMNS:
            raise ConfigError(
                f"{key}={label}: {name} is a reserved argument of reward functions, expected another name; "
                "rename the argument"
            )
        if name not in accepted_names and not takes_kwargs:
            raise ConfigError(
                f"{key}={label} takes no {name}, expected some of {', '.join(accepted_names) or 'none'}"
            )
    return partial(function, **arguments)


def _parameters(label: str, function: RewardFunction) -> Sequence[inspect.Parameter]:
    """Return the parameters of a function; those of the wrapped function if a wrapper takes `**kwargs`."""
    if inspect.isclass(function):
        raise ConfigError(f"reward {label} is a class, expected a function, or an object with __call__")
    callable_object = function.forward if isinstance(function, nn.Module) else function
    try:
        # a decorator that changes the parameters has a signature without **kwargs
        signature_parameters = list(
            inspect.signature(callable_object, follow_wrapped=False).parameters.values()
        )
        if any(parameter.kind is VAR_KEYWORD for parameter in signature_parameters):
            signature_parameters = list(inspect.signature(callable_object).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"reward {label} has no readable signature ({error}): {EXPECTED_FORMS}; wrap it in a function"
        ) from error
    return signature_parameters


def _is_positional_pair(required_names: Sequence[str], available: Collection[str]) -> bool:
    """Return whether two names can only mean completions and prompts, such as `c, p` and `rows, _`."""
    if len(required_names) != 2:
        return False
    first_name, second_name = required_names
    if first_name in RESERVED_NAMES or _split_words(first_name) & NON_COMPLETION_WORDS:
        return False
    if {first_name, second_name} & set(available) - {"completions", "prompts"}:
        return False
    return second_name in ("p", "prompts") or second_name.startswith("_")


def _split_words(name: str) -> set[str]:
    """Return the lower-case words in `gold_answers` or `goldAnswers`, with and without a final s."""
    words = [word.lower() for word in re.findall("[A-Z]*[a-z]+|[A-Z]+", name)]
    return {*words, *(word.removesuffix("s") for word in words)}


def _unknown_argument_message(label: str, name: str, available_names: Collection[str]) -> str:
    available = [
        *(n for n in RESERVED_COLUMNS[::-1] if n in available_names),
        *sorted(set(available_names) - set(RESERVED_COLUMNS)),
    ]
    hint = " (texts need a task or a tokenizer)" if name == "texts" else ""
    return (
        f"reward {label} asks for {name}, and there is {', '.join(available)}{hint}: "
        f"{EXPECTED_FORMS}{nearest(name, available)}"
    )
