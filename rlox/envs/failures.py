"""Error messages for exceptions that an environment raised, and for values that it should not return."""

from __future__ import annotations

import logging
import re
import traceback
from typing import Any, Protocol

from numpy.typing import NDArray

from rlox.envs.base import RESET_CONTRACT, STEP_CONTRACT, WrongTypeError
from rlox.envs.spaces import ObservationCodec, shape_of
from rlox.errors import EnvError, one_line_message

__all__ = ["CHECK_HINT", "Closable", "close_or_warn", "encode_checked", "env_error_message"]

log = logging.getLogger("rlox.envs")

CHECK_HINT = "rlox check lists all problems of an environment"

# Python's messages for unpacking a result of the wrong length.
_OTHER_LENGTH = re.compile(r"(?:not enough|too many) values to unpack|cannot unpack non-iterable .* object")
_RETURNS = {"step": STEP_CONTRACT, "reset": RESET_CONTRACT}


class Closable(Protocol):
    """An object that holds processes, ports, windows or memory."""

    def close(self) -> None:
        """Release what the object holds."""


def close_or_warn(env: Closable, label: str) -> None:
    """Close an environment that is no longer needed; an exception is only logged as a warning."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        log.warning("%s", env_error_message(label, "close", error))


def env_error_message(label: str, call: str, error: BaseException) -> str:
    """Return one line: which environment raised what, in which call, and the remedy if it is known.

    A `WrongTypeError` comes from rlox's checks, so the line says what the call returned.
    """
    if isinstance(error, WrongTypeError):
        return f"{label}: {call} returned {error}; {CHECK_HINT}"
    message = f"{label} raised {type(error).__name__} in {call}: {one_line_message(error)}"
    name = call.partition("(")[0]
    if name in _RETURNS and _OTHER_LENGTH.match(str(error)) and _is_unpack_error(error, name):
        return f"{message}; {_RETURNS[name]}; {CHECK_HINT}"
    return message


def encode_checked(codec: ObservationCodec, observation: Any, row: NDArray[Any], label: str) -> None:
    """Encode an observation into `row`; `EnvError`, with `label`, if it does not match its space."""
    try:
        codec.encode_into(observation, row)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:  # RuntimeError: raised by a tensor
        raise EnvError(
            f"{label} gave an observation of shape {shape_of(observation)}, expected {codec.space}: {error}; "
            f"{CHECK_HINT}"
        ) from error


def _is_unpack_error(error: BaseException, name: str) -> bool:
    """Tell whether unpacking the result of a call of that name failed, rather than code inside the call."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and f".{name}(" in (frames[-1].line or "")
