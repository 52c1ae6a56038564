"""The source of offline learning: batches from a fixed dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.envs.normalize import FixedNormalizer
from rlox.errors import CheckpointError, ConfigError
from rlox.rng import Streams
from rlox.sources.dataset_on_disk import DatasetOnDisk
from rlox.sources.preparation import NO_PREPARATION, STD_EPSILON, LoadedDataset, Preparation, reward_factor
from rlox.sources.store import Store
from rlox.types import Clock, Progress, Transitions, Update

__all__ = ["DatasetSource"]

# Batches that are drawn together, as a block. A call of `next` returns batches of one block; how many it
# returns does not change what is drawn.
BATCHES_PER_BLOCK = 16


class DatasetSource:
    """Samples uniform batches; batch k is a function of the run's seed and k.

    Parameters
    ----------
    load : returns the rows, in time order, and their digest; a resumed run needs the same digest. The method
        `load` calls it, and so does the first call of `next`. To play a policy no dataset is needed, only
        the moments in `normalizer`, which standardise observations
    batch_size : rows of a batch, B
    streams : random streams of the run
    preparation : how rows are changed before they are learned from
    """

    resume_grade = "exact"
    stored_bytes = 0  # a checkpoint has no rows of the dataset

    def __init__(
        self,
        load: Callable[[], LoadedDataset],
        batch_size: int,
        streams: Streams,
        preparation: Preparation = NO_PREPARATION,
    ) -> None:
        self._preparation = preparation
        self._reward_scale, self._standardizes_obs = 1.0, False  # set once the dataset is loaded
        self.batches = 0  # drawn so far
        self.normalizer = FixedNormalizer()
        self._load_dataset = load
        self._dataset: OfflineDatasetBuffer | DatasetOnDisk | None = None
        self._digest: str | None = None  # of the dataset that the run learns from
        self._batch_size = batch_size
        self._streams = streams
        self._block = -1
        self._rows: dict[str, Any] = {}  # the block as drawn, before preparation

    def load(self) -> OfflineDatasetBuffer | DatasetOnDisk:
        """Return the dataset; `CheckpointError` if the resumed run learned from another dataset."""
        if self._dataset is None:
            loaded = self._load_dataset()
            _require_same_digest(self._digest, loaded.digest)
            self._use_dataset(loaded)
            self._dataset, self._digest = loaded.dataset, loaded.digest
        return self._dataset

    def _use_dataset(self, loaded: LoadedDataset) -> None:
        """Set the reward factor and the moments of observations from a loaded dataset."""
        dataset, factor = loaded.dataset, self._preparation.reward_factor
        self._reward_scale = reward_factor(loaded.columns) if factor is None else factor
        stats = dataset.stats()
        if dataset.normalized and "obs_mean" in stats:
            self._set_moments(stats["obs_mean"], stats["obs_std"])
        elif self._preparation.normalize and not dataset.normalized:
            if "obs_mean" not in stats:
                raise ConfigError(
                    "algo.standardize_obs=true: the dataset's observations are whole numbers, expected "
                    "floating-point ones; set algo.standardize_obs=false"
                )
            self._standardizes_obs = True
            self._set_moments(stats["obs_mean"], stats["obs_std"] + STD_EPSILON)

    def _set_moments(self, mean: Any, std: Any) -> None:
        """Standardise by the dataset's moments, unless a resumed or warm-started run has set others."""
        if self.normalizer.moments is None:
            self.normalizer.set_moments(mean, std)

    @property
    def digest(self) -> str | None:
        """The digest of the dataset that the run learns from; None before one is read."""
        return self._digest

    def adopt_moments(self, moments: FixedNormalizer) -> None:
        """Standardise by the moments of the policy's earlier run; `ConfigError` if this is impossible."""
        other_moments, own_moments = moments.moments, self.normalizer.moments
        if other_moments is None:
            if own_moments is not None:
                raise ConfigError(
                    "its policy was trained on unstandardised observations; set algo.standardize_obs=false "
                    "(for a dataset in memory: normalize=False)"
                )
        elif own_moments is None:
            raise ConfigError(
                "its policy was trained on standardised observations; set algo.standardize_obs=true"
            )
        elif self._standardizes_obs:
            self.normalizer.set_moments(*other_moments)
        elif not np.array_equal(other_moments, own_moments):
            raise ConfigError(
                "its policy was trained with other moments than this dataset has, which standardises "
                "observations itself; make the dataset with normalize=False and set algo.standardize_obs=true"
            )

    def next(self, clock: Clock) -> tuple[Transitions, Progress]:
        """Return the next batches, at most as many as the run has left; no environment is stepped."""
        block, first = divmod(self.batches, BATCHES_PER_BLOCK)
        if block != self._block:
            key = self._streams.key("dataset", block)
            out = self._rows or None
            self._rows = self.load().sample(self._batch_size, key, n_batches=BATCHES_PER_BLOCK, out=out)
            self._block = block
        last = min(BATCHES_PER_BLOCK, first + (clock.units_left or BATCHES_PER_BLOCK))
        self.batches += last - first
        return self._transitions(slice(first, last)), Progress()

    def feedback(self, update: Update) -> None:
        """Ignore the update: a dataset has no priorities."""

    def save(self, store: Store) -> dict[str, Any]:
        """Return the number of drawn batches, the digest and the moments.

        For policies that act in [-1, 1], also return the action bounds that this range stands for.
        """
        bounds = self._preparation.actions
        bounds_state = {} if bounds is None else {"act_low": bounds.low, "act_high": bounds.high}
        moments = self.normalizer.state()
        return {"batches": self.batches, "digest": self._digest, **moments, **bounds_state}

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from the state that `save` returned, with the same dataset."""
        if int(state["batches"]) < 0:
            raise CheckpointError(f"{state['batches']} batches were drawn, expected 0 or more")
        if self._dataset is None:
            self._digest = state["digest"]
        else:
            _require_same_digest(state["digest"], self._digest)
        if self._preparation.actions is not None and "act_low" in state:  # absent in earlier versions
            self._preparation.actions.require_bounds(state["act_low"], state["act_high"])
        self.normalizer.restore(state)
        self.batches = int(state["batches"])

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Return an empty string: `restore` and `load` refuse another dataset."""
        return ""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return the block that the last batches come from, `[n, B, ...]`."""
        return self._rows

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _transitions(self, batch_slice: slice) -> Transitions:
        rows = {name: column[batch_slice] for name, column in self._rows.items()}
        discounts = np.where(rows["terminated"], 0.0, self._preparation.gamma).astype(np.float32)
        return Transitions(
            obs=self._prepare_obs(_flat(rows["obs"])),
            actions=self._prepare_actions(rows["actions"]),
            rewards=torch.from_numpy(rows["rewards"]).float() * self._reward_scale,
            next_obs=self._prepare_obs(_flat(rows["next_obs"])),
            discounts=torch.from_numpy(discounts),
            indices=rows["indices"],
        )

    def _prepare_obs(self, rows: torch.Tensor) -> torch.Tensor:
        """Prepare observation rows: images unchanged, numbers as float32 and, if configured, standardised."""
        if self._preparation.images:
            return rows
        if not self._standardizes_obs:
            return rows.float()
        copied_rows = rows.numpy().astype(np.float32)  # the next block is drawn into `rows`
        self.normalizer.apply(copied_rows)
        return torch.from_numpy(copied_rows)

    def _prepare_actions(self, column: NDArray[Any]) -> torch.Tensor:
        rows, bounds = _flat(column), self._preparation.actions
        return rows if bounds is None else torch.from_numpy(bounds.to_unit(rows.numpy()))


def _flat(column: NDArray[Any]) -> torch.Tensor:
    """Reshape rows to `[n, B, numbers]`, the shape that policies expect; a view where possible."""
    return torch.from_numpy(column).flatten(2)


def _require_same_digest(saved_digest: str | None, digest: str | None) -> None:
    if saved_digest is not None and saved_digest != digest:
        raise CheckpointError(
            f"the run learned from another dataset: its digest was {saved_digest}, this one has {digest}; "
            "give the run its own dataset"
        )
