"""Ctrl-C while a program or a notebook trains: the update that is under way is finished first."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from rlox.devices import require_no_autocast
from rlox.errors import RloxError
from rlox.exclusive_lock import ExclusiveLock
from rlox.policies.engine import NativeUnsupportedError

__all__ = ["ResumeStatus", "finish_update_on_interrupt"]


@dataclass
class ResumeStatus:
    """Whether what is saved, or goes on, is what a run never broken off would have."""

    is_update_complete: bool = True  # the weights are those after a whole update
    resume_warning: str = ""  # of a checkpoint that does not go on as it was saved
    has_closed_envs: bool = False  # the environments: nothing steps them again
    training_lock: ExclusiveLock = field(default_factory=lambda: ExclusiveLock("training is under way"))

    @contextmanager
    def lock_training(self, label: str, is_torch_run: bool) -> Iterator[None]:
        """The block that trains; `RloxError` while another does, and where `label` is closed.

        What learns in torch (`is_torch_run`) is refused in a block that computes in other numbers than
        float32.
        """
        if self.has_closed_envs:
            raise RloxError(
                f"{label} is closed, and its environments with it, so that it cannot train; call close() "
                "when training is over, or go on with another one: save(path) and from_checkpoint(path)"
            )
        if is_torch_run:
            require_no_autocast()
        with self.training_lock:
            yield

    def begin_update(self) -> None:
        """From now on a part of an update is in the weights, until the tick is over."""
        self.is_update_complete = False

    @contextmanager
    def unchanged_on_refusal(self) -> Iterator[None]:
        """While active, a policy that an engine refuses to learn is one of which nothing was learned."""
        try:
            yield
        except NativeUnsupportedError:
            self.is_update_complete = True
            raise

    def warn(self, step: int, env: str, is_training: bool = False) -> None:
        """Warn of what is not exact, once; `RloxError` while another thread trains.

        What trains (`is_training`) is refused, and nothing told, while this thread does too: in a callback.
        """
        self.training_lock.require_free(include_own_thread=is_training)
        if not self.is_update_complete:
            warnings.warn(
                f"training was broken off in the middle of an update, at step {step:,}: a part of it is in "
                "the weights; a checkpoint from before has none of it",
                UserWarning,
                stacklevel=3,
            )
        if self.resume_warning:
            warnings.warn(f"{env}: {self.resume_warning}", UserWarning, stacklevel=3)
        self.is_update_complete, self.resume_warning = True, ""


@contextmanager
def finish_update_on_interrupt(stop: Callable[[str], None]) -> Iterator[None]:
    """While active, Ctrl-C calls `stop`, and `KeyboardInterrupt` comes at the end; a second one at once.

    Only where Python would have raised it: in the main thread, with nobody else's handler.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_requested = False

    def request_stop(signum: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if is_requested:
            raise KeyboardInterrupt
        is_requested = True
        stop("interrupt")

    previous_handler = signal.signal(signal.SIGINT, request_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    if is_requested:
        raise KeyboardInterrupt
