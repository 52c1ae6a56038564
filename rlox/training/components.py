"""The components of an algorithm, and the context in which they are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rlox._core import OfflineDatasetBuffer
from rlox.configs import RunConfig
from rlox.configs.check import require_bools
from rlox.devices import require_float32, torch_threads
from rlox.envs.make import EnvLike
from rlox.rng import Streams
from rlox.training.actor import BaseActor
from rlox.training.backend import TORCH, TORCH_BACKEND, Backend
from rlox.training.evaluate import Evaluation
from rlox.training.loop import Learner, Source

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

    from rlox.training.text_evaluation import TextActor

__all__ = ["BuildContext", "EvaluateFunction", "RunComponents"]


class EvaluateFunction(Protocol):
    """Scores the current policy, without effect on training."""

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Evaluate; episode i starts from `reset(seed=seed + i)`.

        `video` names an mp4 to write, `render` shows a window, `generator` samples actions instead of taking
        the best.
        """


@dataclass(frozen=True)
class RunComponents:
    """The components of a run; the loop connects them."""

    source: Source[Any]
    learner: Learner[Any]
    actor: BaseActor[Any] | TextActor
    evaluate: EvaluateFunction | None  # None without an environment to play in
    image_descriptions: tuple[str, ...] = ()  # describes how each image of an observation is encoded
    backend: Backend = TORCH_BACKEND  # the engine that learns
    broadcast_done: Callable[[bool], bool] = bool  # agrees among processes whether the run is over

    @property
    def is_torch_run(self) -> bool:
        """Whether torch learns in float32; text models have their own dtypes."""
        return self.backend.name == TORCH and isinstance(self.actor, BaseActor)


@dataclass(frozen=True)
class BuildContext:
    """The runtime arguments with which an algorithm builds its components."""

    device_name: str  # checked by `require_device`
    streams: Streams
    env: EnvLike | None = None  # an environment or a factory, in place of the config's id
    policy: Any = None  # a user's module, or runtime objects of a façade
    dataset: OfflineDatasetBuffer | None = None  # replaces the dataset at `buffer.path`
    fills_buffer: bool = True  # whether memory for a full buffer is required
    saved_backend: str | None = None  # the choice of `auto` when the run began

    @property
    def is_new_run(self) -> bool:
        """Whether the run is new; a resumed run has a saved backend."""
        return self.saved_backend is None

    def __post_init__(self) -> None:
        require_bools(replay=self.fills_buffer)

    @cached_property
    def device(self) -> torch.device:
        """The torch device."""
        import torch

        return torch.device(self.device_name)

    @contextmanager
    def network_init(self, config: RunConfig) -> Iterator[None]:
        """Use the run's own random numbers for networks that torch makes in the block."""
        require_float32()
        with self.streams.seeded_generators("init"), torch_threads(config.torch_threads):
            yield
