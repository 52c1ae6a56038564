"""What an algorithm is made of, and what it is made with."""

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
    """Scores the policy as it is, apart from training."""

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Episode i starts from `reset(seed=seed + i)`; `video` names an mp4 to write, `render` shows a
        window, `generator` samples actions instead of taking the best.
        """


@dataclass(frozen=True)
class RunComponents:
    """A run is these, and the loop."""

    source: Source[Any]
    learner: Learner[Any]
    actor: BaseActor[Any] | TextActor
    evaluate: EvaluateFunction | None  # None without an environment to play in
    image_descriptions: tuple[str, ...] = ()  # in words, what networks make of each in the observations
    backend: Backend = TORCH_BACKEND  # what learns
    broadcast_done: Callable[[bool], bool] = bool  # whether a run is over, where several processes have it

    @property
    def is_torch_run(self) -> bool:
        """Whether torch learns, in float32: models of text, which play nothing, have types of their own."""
        return self.backend.name == TORCH and isinstance(self.actor, BaseActor)


@dataclass(frozen=True)
class BuildContext:
    """What a run hands to the algorithm that it is made of."""

    device_name: str  # that there is: `require_device`
    streams: Streams
    env: EnvLike | None = None  # an environment, or what makes one, in place of the config's id
    policy: Any = None  # a module of the user's own, or what a façade was given in its place
    dataset: OfflineDatasetBuffer | None = None  # in place of the one at `buffer.path`
    fills_buffer: bool = True  # whether a buffer is going to be filled, so that there must be room for it
    saved_backend: str | None = None  # what `auto` took when the run began

    @property
    def is_new_run(self) -> bool:
        """Whether the run is new: one that goes on knows which engine it took."""
        return self.saved_backend is None

    def __post_init__(self) -> None:
        require_bools(replay=self.fills_buffer)

    @cached_property
    def device(self) -> torch.device:
        """As torch has it."""
        import torch

        return torch.device(self.device_name)

    @contextmanager
    def network_init(self, config: RunConfig) -> Iterator[None]:
        """The block in which torch makes networks, with random numbers of the run's own."""
        require_float32()
        with self.streams.seeded_generators("init"), torch_threads(config.torch_threads):
            yield
