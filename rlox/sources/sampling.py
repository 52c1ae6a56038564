"""The replay buffers of a run: how each is made, and how its rows are drawn and changed."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from numpy.typing import NDArray

from rlox._core import PrioritizedReplayBuffer, ReplayBuffer
from rlox.configs.buffers import BUFFER_CONFIGS, BUILTIN_BUFFERS, PrioritizedConfig
from rlox.plugins import PluginEntry, PluginRegistry

__all__ = ["SAMPLINGS", "AnyReplayBuffer", "PrioritizedSampling", "UniformSampling"]

AnyReplayBuffer = ReplayBuffer | PrioritizedReplayBuffer


class UniformSampling:
    """Draws every row with the same probability; other ways to draw derive from this class.

    An object has no state of its own, because a checkpoint has only that of the buffer.

    Attributes
    ----------
    batches_at_once : 1 if each batch changes how the next one is drawn; `None`: any number
    """

    batches_at_once: int | None = None

    def __init__(self, config: Any) -> None:
        self.config = config  # the configuration of the buffer

    def make_buffer(self, capacity: int, columns: Mapping[str, Any]) -> AnyReplayBuffer:
        """Make an empty buffer; `columns` are the arguments of `ReplayBuffer` besides the capacity."""
        return ReplayBuffer(capacity, **columns)

    def set_elapsed(self, buffer: Any, elapsed: float) -> None:
        """Set what depends on the finished fraction `elapsed` of the run, before the next draw."""

    def sample(
        self,
        buffer: Any,
        batch_size: int,
        n_batches: int,
        n_step: int,
        gamma: float,
        out: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Draw batches, columns `[n_batches, batch_size, ...]`, in the form of `ReplayBuffer.sample`.

        `out` has the columns of an earlier draw of the same shape, to fill and return; it need not be used.
        """
        sample: dict[str, Any] = buffer.sample(
            batch_size, n_batches=n_batches, n_step=n_step, gamma=gamma, out=out
        )
        return sample

    def update_priorities(self, buffer: Any, indices: NDArray[Any], errors: NDArray[Any]) -> None:
        """Use the absolute errors `[n]` of the rows `indices` `[n]`; here they change nothing."""

    def draws_in_rust(self, buffer: Any) -> bool:
        """Return whether a call into Rust that also learns may draw in place of `sample`."""
        is_own_sample = type(self).sample is not UniformSampling.sample
        return type(buffer) in (ReplayBuffer, PrioritizedReplayBuffer) and not is_own_sample


class PrioritizedSampling(UniformSampling):
    """Draws rows with larger errors more often."""

    batches_at_once = 1
    config: PrioritizedConfig

    def make_buffer(self, capacity: int, columns: Mapping[str, Any]) -> AnyReplayBuffer:
        """Make an empty buffer with priorities."""
        config = self.config
        return PrioritizedReplayBuffer(capacity, alpha=config.alpha, beta=config.beta, **columns)

    def set_elapsed(self, buffer: Any, elapsed: float) -> None:
        """Set beta, the exponent of importance weights."""
        config = self.config
        buffer.set_beta(config.beta + (config.beta_final - config.beta) * elapsed)

    def update_priorities(self, buffer: Any, indices: NDArray[Any], errors: NDArray[Any]) -> None:
        """Make the errors the priorities of the rows."""
        buffer.update_priorities(indices, errors + self.config.priority_eps)


def _plugin_sampling(entry: PluginEntry, plugin: Any, setting: str) -> type[UniformSampling]:
    """Return the class that a buffer plugin names; raise `ConfigError` if it is of another kind."""
    _ = BUFFER_CONFIGS[entry.name]  # the look-up checks the plugin
    cls = entry.load(setting, plugin.sampling)
    if not (isinstance(cls, type) and issubclass(cls, UniformSampling)):
        raise entry.kind_error(
            setting, 'sampling="module:Class" of a subclass of rlox.sources.sampling.UniformSampling'
        )
    return cls


# The class of each replay buffer by its name; the names of the built-in ones are in this module.
SAMPLINGS: PluginRegistry[type[UniformSampling]] = PluginRegistry(
    {name: resolve_name(o.sampling) for name, o in BUILTIN_BUFFERS.items() if o.sampling},
    "buffer",
    _plugin_sampling,
)
