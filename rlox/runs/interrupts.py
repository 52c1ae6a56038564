"""Ctrl-C while a program or a notebook trains: the update that is under way is finished first."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from rlox.devices import require_unmixed
from rlox.errors import RloxError
from rlox.exclusive import Exclusive
from rlox.policies.engine import NativeRefused

__all__ = ["Exactness", "whole_updates"]


@dataclass
class Exactness:
    """Whether what is saved, or goes on, is what a run never broken off would have."""

    whole: bool = True  # the weights are those after a whole update
    why_not: str = ""  # of a checkpoint that does not go on as it was saved
    closed: bool = False  # the environments: nothing steps them again
    training: Exclusive = field(default_factory=lambda: Exclusive("training is under way"))

    @contextmanager
    def trains(self, whose: str, in_torch: bool) -> Iterator[None]:
        """The block that trains; `RloxError` while another does, and where `whose` is closed.

        What learns `in_torch` is refused in a block that computes in other numbers than float32.
        """
        if self.closed:
            raise RloxError(
                f"{whose} is closed, and its environments with it, so that it cannot train; call close() "
                "when training is over, or go on with another one: save(path) and from_checkpoint(path)"
            )
        if in_torch:
            require_unmixed()
        with self.training:
            yield

    def begin_update(self) -> None:
        """From now on a part of an update is in the weights, until the tick is over."""
        self.whole = False

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """While active, a policy that an engine refuses to learn is one of which nothing was learned."""
        try:
            yield
        except NativeRefused:
            self.whole = True
            raise

    def tell(self, step: int, env: str, trains: bool = False) -> None:
        """Warn of what is not exact, once; `RloxError` while another thread trains.

        What `trains` is refused, and nothing told, while this thread does too: in a callback.
        """
        self.training.require_no_other(nor_this=trains)
        if not self.whole:
            warnings.warn(
                f"training was broken off in the middle of an update, at step {step:,}: a part of it is in "
                "the weights; a checkpoint from before has none of it",
                UserWarning,
                stacklevel=3,
            )
        if self.why_not:
            warnings.warn(f"{env}: {self.why_not}", UserWarning, stacklevel=3)
        self.whole, self.why_not = True, ""


@contextmanager
def whole_updates(stop: Callable[[str], None]) -> Iterator[None]:
    """While active, Ctrl-C calls `stop`, and `KeyboardInterrupt` comes at the end; a second one at once.

    Only where Python would have raised it: in the main thread, with nobody else's handler.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop("interrupt")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt
