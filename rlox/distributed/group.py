"""Process group of torchrun: shares of rows, sums over processes, and broadcasts from the first process.

All processes have the same weights. Each computes the gradient of its share of a batch's loss, and the sum
is the gradient of the whole loss (synchronous data parallelism). Gradients use gloo on the CPU and nccl
between GPUs. Pickled objects go only from the first process to the others, which run its program.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, GroupError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "join", "process_count"]

TIMEOUT = timedelta(hours=6)  # the others wait while the first process evaluates or saves
# Variables that torchrun sets in each process.
TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class ProcessGroup:
    """The process group of a data-parallel run; this process has rank `rank` of `size`."""

    rank: int = 0
    size: int = 1

    def rows(self, count: int, parts: int = 1) -> NDArray[np.int64]:
        """Return the indices of this process's rows among `count`, an equal share of each of `parts`."""
        if self.size == 1:
            return np.arange(count)
        if count % (parts * self.size):
            steps = f" of {parts} steps" if parts > 1 else ""
            raise ConfigError(
                f"{count} prompts in a batch{steps} for {self.size} processes: expected a multiple of "
                f"{parts * self.size} (algo.batch_size, and total_steps a multiple of it)"
            )
        return np.arange(count).reshape(parts, self.size, -1)[:, self.rank].ravel()

    def gather_rows(self, local: NDArray[np.float64], parts: int = 1) -> NDArray[np.float64]:
        """Gather the rows of all processes, `[count, F]`, in order; `local` `[n, F]` are this process's."""
        if self.size == 1:
            return local
        import torch
        from torch import distributed

        local_tensor = torch.from_numpy(np.ascontiguousarray(local))
        tensors = [torch.empty_like(local_tensor) for _ in range(self.size)]
        with _group_errors():
            distributed.all_gather(tensors, local_tensor)
        stacked_rows = np.stack([of.numpy().reshape(parts, -1, local.shape[1]) for of in tensors], 1)
        return stacked_rows.reshape(-1, local.shape[1])

    def sum_(self, tensor: Tensor) -> None:
        """Sum a tensor over all processes, in place."""
        if self.size > 1:
            from torch import distributed

            with _group_errors():
                distributed.all_reduce(tensor)

    def total(self, local: float) -> float:
        """Return the sum of a number over all processes."""
        if self.size == 1:
            return local
        import torch

        total = torch.tensor(local, dtype=torch.float64)
        self.sum_(total)
        return float(total)

    def require_same(self, vector: Tensor, label: str) -> None:
        """Raise `GroupError` if the vector's sum differs between processes, which torch would not notice."""
        if self.size > 1:
            sums = self.gather_rows(np.array([[float(vector.sum())]]))
            if len({*sums.ravel().tolist()}) > 1 and not np.isnan(sums).all():
                raise GroupError(
                    f"{label} are not the same in all processes (sums {sums.ravel().tolist()}): make the "
                    "model with the same seed in each, and change it in all or none"
                )

    def broadcast_done(self, done: bool) -> bool:
        """Return the first process's `done` in all processes."""
        return bool(self.broadcast(done))

    def broadcast(self, message: Any = None) -> Any:
        """Return the first process's `message` in all processes."""
        if self.size == 1:
            return message
        from torch import distributed

        messages = [message]
        with _group_errors():
            distributed.broadcast_object_list(messages)
        return messages[0]


SINGLE_PROCESS = ProcessGroup()


def process_count() -> int:
    """Return how many processes torchrun started for this program; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if all(name in os.environ for name in TORCHRUN_VARIABLES) else 1


def join() -> ProcessGroup:
    """Return this process's group, after joining it if necessary; without torchrun `SINGLE_PROCESS`."""
    if process_count() == 1:
        return SINGLE_PROCESS
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        with _group_errors():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT
            )
        atexit.register(_leave)
    return ProcessGroup(distributed.get_rank(), distributed.get_world_size())


def _leave() -> None:
    """End the group's threads before the interpreter exits; a running one would abort the process (-6)."""
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def _group_errors() -> Iterator[None]:
    """Convert torch's errors about lost processes to `GroupError`."""
    try:
        yield
    except RuntimeError as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise GroupError(
            f"another process of the group is gone, or did not answer ({line:.160}); its own message says why"
        ) from error
