"""Base classes of `Algorithm`: its constructor, and names of Stable-Baselines3."""

from __future__ import annotations

import inspect
import textwrap
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

from rlox.configs import ALGO_CONFIGS, RunConfig
from rlox.configs.arguments import Argument, arguments_of
from rlox.errors import ConfigError, UnknownNameError
from rlox.training.setup import DEFAULT_ENV

__all__ = ["ENV_OBJECTS", "RUN_OBJECTS", "ArgumentConstructor", "ObjectArgument", "SB3Aliases"]


@dataclass(frozen=True)
class ObjectArgument:
    """An argument of a class that is no field of the configuration, such as a logger."""

    type: str
    doc: str
    default: Any = None


RUN_OBJECTS = {
    "logger": ObjectArgument("LoggerCallback | None", "receives the rows of metrics"),
    "callbacks": ObjectArgument(
        "Callback | Sequence[Callback] | None",
        "called during training; if `on_step` returns False, training stops",
    ),
}
_ENV_DOC = "Gymnasium id, a `gymnasium.Env`, or a callable that makes one"
ENV_OBJECTS = {
    "env_id": ObjectArgument("EnvLike", _ENV_DOC, DEFAULT_ENV),
    "env": ObjectArgument("EnvLike | None", "another name of `env_id`"),
    **RUN_OBJECTS,
}
_PART_TITLES = {"algo": "Algorithm", "buffer": "Buffer", "env": "Environment", "": "Run"}


class AlgorithmType(ABCMeta):
    """The type of algorithm classes: `inspect.signature` and `help` show the arguments of each class."""

    @property
    def __signature__(cls) -> Signature:
        try:
            parameters = list(_parameters(cls)) if _has_common_constructor(cls) else None
        except ConfigError:  # the constructor raises it
            parameters = None
        if parameters is None:
            raise AttributeError("__signature__")  # `inspect` then reads `__init__`
        return Signature(parameters, return_annotation=None)

    @property
    def __doc__(cls) -> str | None:
        text = vars(cls).get("__doc__")
        if not _has_common_constructor(cls):
            return text
        try:
            return "\n".join([inspect.cleandoc(text or ""), *_argument_lines(cls)])
        except ConfigError:
            return text

    @__doc__.setter
    def __doc__(cls, text: str | None) -> None:
        type.__dict__["__doc__"].__set__(cls, text)


class ArgumentConstructor(metaclass=AlgorithmType):
    """Base class of algorithms: `PPO("CartPole-v1", learning_rate=1e-3)`."""

    name: ClassVar[str]
    # The arguments that may be given by position, in their order; all others are given by name.
    positional: ClassVar[tuple[str, ...]] = ("env_id", "n_envs", "seed", "logger", "callbacks")
    # The arguments that are no fields of the configuration. A class that adds one reads it in
    # `_init_from_arguments`.
    object_arguments: ClassVar[Mapping[str, ObjectArgument]] = ENV_OBJECTS

    def __init__(self, *args: Any, **options: Any) -> None:
        self._init_from_arguments(*_split(type(self), _bind(type(self), args, options)))

    @abstractmethod
    def _init_from_arguments(self, objects: dict[str, Any], fields: dict[str, Any]) -> None:
        """Initialise from objects by name, absent ones with their defaults, and values of fields."""


def _bind(
    cls: type[ArgumentConstructor], args: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name; raise `TypeError` if there are too many, or two values of one."""
    if len(args) > len(cls.positional):
        raise TypeError(
            f"{cls.__name__} takes at most {len(cls.positional)} positional arguments, got {len(args)}: "
            f"{', '.join(cls.positional)}; give others by name"
        )
    positional = dict(zip(cls.positional, args, strict=False))
    for name in positional:
        if name in options:
            raise TypeError(f"{cls.__name__} got multiple values for argument '{name}'")
    return positional | dict(options)


def _split(
    cls: type[ArgumentConstructor], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the objects among the arguments, with their defaults, and fields of the configuration."""
    if arguments.get("env_id", cls) is None and "env_id" in cls.object_arguments:
        raise ConfigError("env_id=None: expected an environment; leave env_id out for the default")
    _require_own_names(cls)
    objects = {name: arguments.get(name, o.default) for name, o in cls.object_arguments.items()}
    return objects, {name: value for name, value in arguments.items() if name not in objects}


def _require_own_names(cls: type[ArgumentConstructor]) -> None:
    """Raise `ConfigError` if an object and a field have one argument, or a positional argument is neither."""
    fields = arguments_of(ALGO_CONFIGS[cls.name])
    for name in cls.object_arguments:
        if name in fields:
            raise ConfigError(
                f"algo={cls.name}: {cls.__name__} takes {name}, so {fields[name].key} cannot have this "
                "argument too; declare it with param(argument=...)"
            )
    for name in cls.positional:
        if name not in fields and name not in cls.object_arguments:
            raise ConfigError(
                f"{cls.__name__}.positional has {name}, which is no argument of algo={cls.name}"
            )


def _has_common_constructor(cls: AlgorithmType) -> TypeGuard[type[ArgumentConstructor]]:
    """Return whether the class is an algorithm with the constructor of `ArgumentConstructor`."""
    is_common: bool = cls.__init__ is ArgumentConstructor.__init__  # type: ignore[misc]
    return is_common and getattr(cls, "name", None) in ALGO_CONFIGS


def _shown_arguments(cls: type[ArgumentConstructor]) -> dict[str, ObjectArgument | Argument]:
    """Return the arguments in the order of the signature: positional ones first."""
    _require_own_names(cls)
    fields = {
        name: argument for name, argument in arguments_of(ALGO_CONFIGS[cls.name]).items() if argument.is_used
    }
    all_arguments: dict[str, ObjectArgument | Argument] = {**cls.object_arguments, **fields}
    return {name: all_arguments[name] for name in dict.fromkeys([*cls.positional, *all_arguments])}


def _parameters(cls: type[ArgumentConstructor]) -> Iterator[Parameter]:
    for name, argument in _shown_arguments(cls).items():
        kind = Parameter.POSITIONAL_OR_KEYWORD if name in cls.positional else Parameter.KEYWORD_ONLY
        yield Parameter(name, kind, default=argument.default, annotation=argument.type)


def _argument_lines(cls: type[ArgumentConstructor]) -> Iterator[str]:
    """Yield the lines of the documentation that list the arguments, by part of the configuration."""
    arguments = _shown_arguments(cls)
    yield from _section("Parameters", {n: arguments[n] for n in arguments if _is_first(cls, n, arguments[n])})
    for part, title in _PART_TITLES.items():
        rest = {
            name: argument
            for name, argument in arguments.items()
            if isinstance(argument, Argument) and argument.part == part and not _is_first(cls, name, argument)
        }
        yield from _section(f"{title}, by name only", rest)


def _is_first(cls: type[ArgumentConstructor], name: str, argument: ObjectArgument | Argument) -> bool:
    return name in cls.positional or isinstance(argument, ObjectArgument)


def _section(title: str, arguments: Mapping[str, ObjectArgument | Argument]) -> Iterable[str]:
    if not arguments:
        return
    yield from ("", title, "-" * len(title))
    for name, argument in arguments.items():
        default = argument.default
        default_text = f"{type(default).__name__}()" if is_dataclass(default) else repr(default)
        yield f"{name} : {argument.type} = {default_text}"
        yield from textwrap.wrap(argument.doc, 100, initial_indent="    ", subsequent_indent="    ")


# Arguments of Stable-Baselines3's `learn`, and what rlox has instead.
LEARN_ARGUMENTS = {
    "progress_bar": "progress=True",
    "callback": "callbacks=... where the algorithm is made",
    "log_interval": "a command-line setting: rlox train log.every=STEPS",
    "tb_log_name": "a command-line setting: rlox train logger=tensorboard run.name=TEXT",
    "reset_num_timesteps": "not needed: totals count from the start; a new object starts at step 0",
}
# Attributes and methods of a model of Stable-Baselines3, and what rlox has instead.
MODEL_ATTRIBUTES = {
    "num_timesteps": "clock.env_steps",
    "env": "env_id, the name of the environment; training and evaluate() step separate copies",
    "get_env": "env_id, the name of the environment; training and evaluate() step separate copies",
    "set_env": "from_checkpoint(path, env=...), after save(path)",
    "logger": "logger=... where the algorithm is made; summary() has the last metrics",
    "set_logger": "logger=... where the algorithm is made",
    "observation_space": "gymnasium.make(env_id).observation_space",
    "action_space": "gymnasium.make(env_id).action_space",
    "set_parameters": "policy.load_state_dict(...)",
    "get_parameters": "policy.state_dict()",
    "save_replay_buffer": "save(path), which writes the buffer too",
    "load_replay_buffer": "from_checkpoint(path), which reads the buffer too",
}


class SB3Aliases(ABC):
    """Adds `learn`, and hints for names of Stable-Baselines3 that rlox does not have."""

    # End of a hint: the attribute that has the names, such as `.algo`; empty if the object has them itself.
    _hint_suffix: ClassVar[str] = ""

    @abstractmethod
    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train until the run has made `total_timesteps` steps."""

    def learn(self, total_timesteps: int, progress: bool = False, **unknown: Any) -> dict[str, float]:
        """Call `train`; `learn` is its name in Stable-Baselines3. The total counts from the start of the run.

        Raises `UnknownNameError` for any other argument. The message names what rlox has instead, if it can.
        """
        for name in unknown:
            hint = f"; here that is {LEARN_ARGUMENTS[name]}" if name in LEARN_ARGUMENTS else ""
            raise UnknownNameError(f"unknown argument '{name}' for learn{hint}")
        return self.train(total_timesteps, progress=progress)

    @classmethod
    def load(cls, path: str | Path, env_id: Any = None, **options: Any) -> Self:
        """Call `from_checkpoint`, under its Stable-Baselines3 name."""
        facade: Any = cls
        loaded: Self = facade.from_checkpoint(path, env_id, **options)
        return loaded

    if not TYPE_CHECKING:  # a type checker should see only the names that exist

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError`; for a name of Stable-Baselines3 it says what rlox has instead."""
            if name not in MODEL_ATTRIBUTES:
                return object.__getattribute__(self, name)  # raises the usual error
            raise AttributeError(
                f"{type(self).__name__} has no {name}; here that is "
                f"{MODEL_ATTRIBUTES[name]}{self._hint_suffix}"
            )

        def __setattr__(self, name: str, value: Any) -> None:
            """Raise `AttributeError` for an argument: setting it would not change learning."""
            attributes = vars(self)
            if name not in attributes and getattr(type(self), name, None) is None:
                algorithm = attributes.get("algo", self)
                is_built = "origin" in vars(algorithm)  # the last attribute that the constructor sets
                config = vars(algorithm)["config"] if is_built else None
                if config is not None and _is_argument(name, config):
                    class_name = type(self).__name__
                    raise AttributeError(
                        f"{class_name}.{name} cannot be set: learning uses the arguments that {class_name} "
                        f"was made with; give the value there, {class_name}(..., {name}={value!r:.40}), or "
                        "give a schedule for a value that changes"
                    )
            object.__setattr__(self, name, value)


def _is_argument(name: str, config: RunConfig) -> bool:
    """Return whether the name is an argument of the algorithm's class, or a field of the configuration."""
    sections = (config.algo, config.buffer, config.env)
    return (
        name in ENV_OBJECTS
        or name in arguments_of(type(config.algo))
        or any(name in {field.name for field in fields(section)} for section in sections)
    )
