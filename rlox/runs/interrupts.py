"""Ctrl-C during training in a program or notebook: the current update is finished first."""

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
from rlox.parameters.engine import NativeUnsupportedError
from rlox.rng import ExclusiveLock

__all__ = ["ResumeStatus", "finish_update_on_interrupt"]


@dataclass
class ResumeStatus:
    """Whether a run in this state continues like an uninterrupted one; also the lock of training."""

    is_update_complete: bool = True  # no update was interrupted midway
    resume_warning: str = ""  # why a restored checkpoint does not continue exactly
    has_closed_envs: bool = False  # training is refused once they are closed
    training_lock: ExclusiveLock = field(default_factory=lambda: ExclusiveLock("training is under way"))

    @contextmanager
    def lock_training(self, label: str, is_torch_run: bool) -> Iterator[None]:
        """Lock training for the block.

        Raises `RloxError` if it is locked already, or if the environments of `label` are closed. A torch run
        (`is_torch_run`) is refused inside autocast, which computes in other dtypes than float32.
        """
        if self.has_closed_envs:
            raise RloxError(
                f"{label} and its environments are closed, so it cannot train; call close() after the last "
                "train(), or continue in a new object: save(path) and from_checkpoint(path)"
            )
        if is_torch_run:
            require_no_autocast()
        with self.training_lock:
            yield

    def begin_update(self) -> None:
        """Mark the weights as partly updated, until the loop's hook marks the update as complete."""
        self.is_update_complete = False

    @contextmanager
    def unchanged_on_refusal(self) -> Iterator[None]:
        """Mark the weights as unchanged if the native engine refuses the policy in the block."""
        try:
            yield
        except NativeUnsupportedError:
            self.is_update_complete = True
            raise

    def warn(self, step: int, env: str, is_training: bool = False) -> None:
        """Warn once if the state is inexact; raise `RloxError` while another thread trains.

        With `is_training` it also raises `RloxError`, without a warning, if this thread trains already (in a
        callback).
        """
        self.training_lock.require_free(include_own_thread=is_training)
        if not self.is_update_complete:
            warnings.warn(
                f"training was interrupted in the middle of an update, at step {step:,}: the weights have a "
                "part of it; an earlier checkpoint has none of it",
                UserWarning,
                stacklevel=3,
            )
        if self.resume_warning:
            warnings.warn(f"{env}: {self.resume_warning}", UserWarning, stacklevel=3)
        self.is_update_complete, self.resume_warning = True, ""


@contextmanager
def finish_update_on_interrupt(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` on Ctrl-C and raise `KeyboardInterrupt` after the block; a second Ctrl-C raises at once.

    This applies only where Python itself would raise: in the main thread, without another SIGINT handler.
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
