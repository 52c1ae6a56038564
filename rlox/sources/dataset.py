"""The source of offline learning: batches from a dataset that nothing is added to."""

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
from rlox.sources.on_disk import DatasetOnDisk
from rlox.sources.prepared import AS_THEY_ARE, EPS, Loaded, Preparation, factor_of
from rlox.sources.store import Store
from rlox.types import Clock, Progress, Transitions, Update

__all__ = ["DatasetSource"]

# Batches of a tick. They are drawn together; which tick they are learned in changes none.
BLOCK = 16


class DatasetSource:
    """Uniform batches; batch k is a function of the run's seed and k.

    Parameters
    ----------
    load : gives the rows, in time order, and a digest of them; a run goes on with the same ones only.
        Called by `load()`, or by the first batch: to play a policy needs no dataset, only
        `normalizer`, which has the moments that observations are standardised by
    batch_size : rows of a batch, B
    streams : of the run
    prepared : what is done to the rows
    """

    resume_grade = "exact"
    stored_bytes = 0  # the dataset stays where it is

    def __init__(
        self,
        load: Callable[[], Loaded],
        batch_size: int,
        streams: Streams,
        prepared: Preparation = AS_THEY_ARE,
    ) -> None:
        self._prepared = prepared
        self._scale, self._standardizes = 1.0, False  # as the dataset says
        self.batches = 0  # drawn so far
        self.normalizer = FixedNormalizer()
        self._load = load
        self._dataset: OfflineDatasetBuffer | DatasetOnDisk | None = None
        self._digest: str | None = None  # of the dataset that the run learns from
        self._batch_size = batch_size
        self._streams = streams
        self._block = -1
        self._rows: dict[str, Any] = {}  # as they were drawn

    def load(self) -> OfflineDatasetBuffer | DatasetOnDisk:
        """The dataset; `CheckpointError` if the run that goes on learned from another one."""
        if self._dataset is None:
            loaded = self._load()
            _require_same(self._digest, loaded.digest)
            self._loaded(loaded)
            self._dataset, self._digest = loaded.dataset, loaded.digest
        return self._dataset

    def _loaded(self, loaded: Loaded) -> None:
        """Take what is needed of a dataset beside its rows."""
        dataset, factor = loaded.dataset, self._prepared.reward_factor
        self._scale = factor_of(loaded.columns) if factor is None else factor
        stats = dataset.stats()
        if dataset.normalized and "obs_mean" in stats:
            self._fix(stats["obs_mean"], stats["obs_std"])
        elif self._prepared.normalize and not dataset.normalized:
            if "obs_mean" not in stats:
                raise ConfigError(
                    "algo.standardize_obs=true: the dataset's observations are whole numbers, expected "
                    "floating-point ones; set algo.standardize_obs=false"
                )
            self._standardizes = True
            self._fix(stats["obs_mean"], stats["obs_std"] + EPS)

    def _fix(self, mean: Any, std: Any) -> None:
        """Standardise by the dataset's moments, unless the run has some: it may have begun with others."""
        if self.normalizer.moments is None:
            self.normalizer.fix(mean, std)

    @property
    def digest(self) -> str | None:
        """Of the dataset that the run learns from; None where none was read yet."""
        return self._digest

    def begin_with(self, moments: FixedNormalizer) -> None:
        """Standardise by the moments of a run whose policy goes on here; `ConfigError` where that differs."""
        theirs, mine = moments.moments, self.normalizer.moments
        if theirs is None:
            if mine is not None:
                raise ConfigError(
                    "its policy saw observations as they are; set algo.standardize_obs=false (of a dataset "
                    "in memory normalize=False)"
                )
        elif mine is None:
            raise ConfigError(
                "its policy saw standardised observations; set algo.standardize_obs=true"
            )
        elif self._standardizes:
            self.normalizer.fix(*theirs)
        elif not np.array_equal(theirs, mine):
            raise ConfigError(
                "its policy saw observations standardised by other moments than this dataset has, which "
                "standardises by itself; make it with normalize=False and set algo.standardize_obs=true"
            )

    def next(self, clock: Clock) -> tuple[Transitions, Progress]:
        """The next batches, as many as the run has left at most; no step of an environment."""
        block, first = divmod(self.batches, BLOCK)
        if block != self._block:
            key = self._streams.key("dataset", block)
            out = self._rows or None
            self._rows = self.load().sample(self._batch_size, key, n_batches=BLOCK, out=out)
            self._block = block
        last = min(BLOCK, first + (clock.left or BLOCK))
        self.batches += last - first
        return self._transitions(slice(first, last)), Progress()

    def feedback(self, update: Update) -> None:
        """A dataset learns nothing."""

    def save(self, store: Store) -> dict[str, Any]:
        """How many batches were drawn, of which dataset, and what it was prepared by.

        That is the moments it standardises by, and the bounds that [-1, 1] stood for.
        """
        bounds = self._prepared.actions
        ends = {} if bounds is None else {"act_low": bounds.low, "act_high": bounds.high}
        moments = self.normalizer.state()
        return {"batches": self.batches, "digest": self._digest, **moments, **ends}

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from what `save` returned, with the same dataset."""
        if int(state["batches"]) < 0:
            raise CheckpointError(f"{state['batches']} batches were drawn, expected 0 or more")
        if self._dataset is None:
            self._digest = state["digest"]
        else:
            _require_same(state["digest"], self._digest)
        if self._prepared.actions is not None and "act_low" in state:  # not of earlier versions
            self._prepared.actions.require_bounds(state["act_low"], state["act_high"])
        self.normalizer.restore(state)
        self.batches = int(state["batches"])

    def interruption(self, state: Mapping[str, Any]) -> str:
        """Never one: another dataset is refused."""
        return ""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """The block of batches that the last ones are of, `[n, B, ...]`."""
        return self._rows

    def close(self) -> None:
        """Nothing to release."""

    def _transitions(self, at: slice) -> Transitions:
        rows = {name: column[at] for name, column in self._rows.items()}
        alive = np.where(rows["terminated"], 0.0, self._prepared.gamma).astype(np.float32)
        return Transitions(
            obs=self._seen(_flat(rows["obs"])),
            actions=self._taken(rows["actions"]),
            rewards=torch.from_numpy(rows["rewards"]).float() * self._scale,
            next_obs=self._seen(_flat(rows["next_obs"])),
            discounts=torch.from_numpy(alive),
            indices=rows["indices"],
        )

    def _seen(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of observations as they are learned from."""
        if self._prepared.images:
            return rows
        if not self._standardizes:
            return rows.float()
        own = rows.numpy().astype(np.float32)  # the rows are drawn into again
        self.normalizer.apply(own)
        return torch.from_numpy(own)

    def _taken(self, column: NDArray[Any]) -> torch.Tensor:
        rows, bounds = _flat(column), self._prepared.actions
        return rows if bounds is None else torch.from_numpy(bounds.shrunk(rows.numpy()))


def _flat(column: NDArray[Any]) -> torch.Tensor:
    """Rows `[n, B, ...]` as policies see them, `[n, B, numbers]`; a copy only where they are not."""
    return torch.from_numpy(column).flatten(2)


def _require_same(saved: str | None, here: str | None) -> None:
    if saved is not None and saved != here:
        raise CheckpointError(
            f"the run learned from another dataset: its digest was {saved}, that of the one here is {here}"
        )
