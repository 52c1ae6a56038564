"""A replay buffer that draws newer transitions more often."""

from dataclasses import dataclass

import numpy as np

from rlox.configs import ReplayConfig, param
from rlox.plugins import BufferPlugin
from rlox.sources.sampling import UniformSampling


@dataclass(frozen=True)
class NewestConfig(ReplayConfig):
    """Each transition of a batch is the newest of several drawn ones."""

    name: str = param("newest", "the buffer", choices=("newest",))
    candidates: int = param(2, "transitions drawn for each one of the batch", within="[1, 64]")


class NewestSampling(UniformSampling):
    """Draw uniformly, and keep the newest of every few rows."""

    def sample(self, buffer, batch_size, n_batches, n_step, gamma, out):
        """Draw `n_batches` batches of `batch_size` rows."""
        count = self.config.candidates
        drawn = buffer.sample(count * batch_size, n_batches=n_batches, n_step=n_step, gamma=gamma)
        # a row that was stored later has a larger index
        newest = drawn["indices"].reshape(n_batches, count, batch_size).argmax(axis=1)
        batches, rows = np.mgrid[:n_batches, :batch_size]
        return {name: values[batches, newest * batch_size + rows] for name, values in drawn.items()}


NEWEST_PLUGIN = BufferPlugin(NewestConfig, sampling="rlox_example.newest:NewestSampling")
