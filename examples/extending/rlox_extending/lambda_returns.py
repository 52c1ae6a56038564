"""A replay buffer whose batches have lambda-returns as targets (Sutton & Barto 2018, eq. 12.2)."""

from dataclasses import dataclass

import numpy as np

from rlox.configs import ReplayConfig, param
from rlox.plugins import BufferPlugin
from rlox.sources.sampling import UniformSampling


@dataclass(frozen=True)
class LambdaConfig(ReplayConfig):
    """Windows of 1 to `algo.n_step` steps, mixed in the shares that the lambda-return gives them."""

    name: str = param("lambda", "the buffer", choices=("lambda",))
    lam: float = param(0.8, "lambda: 0 takes windows of one step, 1 of algo.n_step", within="[0, 1]")


class LambdaSampling(UniformSampling):
    """Draw rows uniformly, a share (1 - lambda) lambda^(n - 1) of each batch with windows of n steps.

    The lambda-return is the mean of the n-step returns with these weights. So the gradient of the squared
    error is, on average over the rows, that with lambda-returns. The longest windows have all that is left,
    as in the truncated lambda-return.
    """

    def sample(self, buffer, batch_size, n_batches, n_step, gamma, out):
        """Draw `n_batches` batches of `batch_size` rows."""
        counts = window_counts(batch_size, n_step, self.config.lam)
        drawn = [
            buffer.sample(count, n_batches=n_batches, n_step=n, gamma=gamma)
            for n, count in enumerate(counts, 1)
            if count
        ]
        return {name: np.concatenate([rows[name] for rows in drawn], axis=1) for name in drawn[0]}


def window_counts(batch_size, n_step, lam):
    """Return how many rows of a batch have windows of 1, 2, ..., `n_step` steps."""
    at_most = np.round(batch_size * (1.0 - lam ** np.arange(n_step))).astype(int)
    return np.diff(at_most, append=batch_size).tolist()


LAMBDA = BufferPlugin(LambdaConfig, sampling="rlox_extending.lambda_returns:LambdaSampling")
