"""What is said of an exception that an environment raised, and of a value that it should not return."""

from __future__ import annotations

import logging
import re
import traceback
from typing import Any, Protocol

from numpy.typing import NDArray

from rlox.envs.base import FIVE_VALUES, TWO_VALUES, WrongKindError
from rlox.envs.spaces import ObservationCodec, shape_of
from rlox.errors import EnvError
from rlox.importing import wording

__all__ = ["CHECK", "Closes", "close_or_warn", "encoded", "raised"]

log = logging.getLogger("rlox.envs")

CHECK = "rlox check says all that is wrong with an environment"

# What Python says where a result is taken apart that has not as many parts.
_OTHER_LENGTH = re.compile(
    r"(?:not enough|too many) values to unpack|cannot unpack non-iterable .* object"
)
_RETURNS = {"step": FIVE_VALUES, "reset": TWO_VALUES}


class Closes(Protocol):
    """What holds processes, ports, windows or memory."""

    def close(self) -> None:
        """Release them."""


def close_or_warn(env: Closes, who: str) -> None:
    """Close an environment whose work is done: that it raises then costs no result, and is a warning."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        log.warning("%s", raised(who, "close", error))


def raised(who: str, call: str, error: BaseException) -> str:
    """One line: which environment raised what, in which call of it, and the remedy where it is known.

    Of a `WrongKindError`, which is rlox's word on a value, what the call returned.
    """
    if isinstance(error, WrongKindError):
        return f"{who}: {call} returned {error}; {CHECK}"
    said = f"{who} raised {type(error).__name__} in {call}: {wording(error)}"
    name = call.partition("(")[0]
    if name in _RETURNS and _OTHER_LENGTH.match(str(error)) and _calls(error, name):
        return f"{said}; {_RETURNS[name]}; {CHECK}"
    return said


def encoded(codec: ObservationCodec, observation: Any, row: NDArray[Any], who: str) -> None:
    """Into `row` what `who` observed; `EnvError` where it has not the form of its space."""
    try:
        codec.encode_into(observation, row)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:  # RuntimeError: a tensor's
        raise EnvError(
            f"{who} gave an observation of shape {shape_of(observation)}, expected {codec.space}: {error}; "
            f"{CHECK}"
        ) from error


def _calls(error: BaseException, name: str) -> bool:
    """Whether what failed took apart what a call of that name returned, not something inside of it."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and f".{name}(" in (frames[-1].line or "")
