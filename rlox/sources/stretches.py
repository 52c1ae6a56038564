"""Batches of stretches of a dataset's episodes, as sequence models learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlox.devices import moved
from rlox.errors import CheckpointError, ConfigError
from rlox.sources.dataset import BLOCK, DatasetSource
from rlox.sources.dataset_file import COLUMNS, Dataset
from rlox.sources.file_columns import head
from rlox.sources.prepared import Loaded, complete_returns
from rlox.sources.store import Store
from rlox.types import Clock, Progress

__all__ = ["StretchSource", "Stretches"]


@dataclass(frozen=True, slots=True)
class Stretches:
    """n batches of B stretches of L steps; where `mask` is False there is padding."""

    obs: Tensor  # [n, B, L, obs_dim]
    actions: Tensor  # [n, B, L] or [n, B, L, act_dim]
    returns: Tensor  # [n, B, L], of the rest of the episode, undiscounted
    timesteps: Tensor  # [n, B, L] int64, from the episode's begin
    mask: Tensor  # [n, B, L] bool

    def __len__(self) -> int:
        return len(self.obs)

    def to(self, device: torch.device | str) -> Stretches:
        """The same on another device (itself when it is there already)."""
        there = torch.device(device)
        if self.obs.device == there:
            return self
        return replace(self, **{f.name: moved(getattr(self, f.name), there) for f in fields(self)})


class StretchSource(DatasetSource):
    """Stretches of `length` steps whose first is any of the dataset; batch k is a function of seed and k.

    `longest` is how many steps of an episode may be told apart; `wish` learns the highest return.
    """

    def __init__(self, *given: Any, length: int, longest: int, wish: Any) -> None:
        super().__init__(*given)
        self._length, self._longest, self._wish = length, longest, wish
        self._whole: Any = None  # the episodes that end

    def _loaded(self, loaded: Loaded) -> None:
        super()._loaded(loaded)
        columns = loaded.columns
        returns = complete_returns(columns)
        if not len(returns):
            raise ConfigError(
                "no episode of the dataset ends, so that no return is known to learn by"
            )
        self._wish.best = float(returns.max())
        ends = np.flatnonzero(columns["terminated"] | columns["truncated"])
        lengths = np.diff(ends, prepend=-1)
        # rows behind the last end have no return
        whole = {name: head(columns[name], int(ends[-1]) + 1) for name in COLUMNS}
        complete = len(whole["rewards"]) == len(columns["rewards"])
        self._whole = loaded.dataset if complete else Dataset(whole, {}, loaded.digest).buffer()
        if lengths.max() > self._longest:
            raise ConfigError(
                f"algo.max_timesteps={self._longest}: an episode of the dataset has {lengths.max()} steps; "
                f"set algo.max_timesteps={lengths.max()} or more"
            )

    def next(self, clock: Clock) -> tuple[Any, Progress]:
        """The next batches, as many as the run has left at most."""
        self.load()
        first = self.batches
        last = min(first - first % BLOCK + BLOCK, first + (clock.left or BLOCK))
        drawn = [
            self._whole.sample_trajectories(
                self._batch_size, self._length, self._streams.key("dataset", number)
            )
            for number in range(first, last)
        ]
        self.batches = last
        self._rows = {name: np.stack([rows[name] for rows in drawn]) for name in drawn[0]}
        return self._stretches(self._rows), Progress()

    def _stretches(self, rows: Mapping[str, Any]) -> Stretches:
        mask = torch.from_numpy(rows["mask"])
        obs = self._seen(torch.from_numpy(rows["obs"]).flatten(3))
        bounds, actions = self._prepared.actions, rows["actions"].reshape(*mask.shape, -1)
        taken = (
            torch.from_numpy(actions).long().squeeze(-1)
            if bounds is None
            else torch.from_numpy(bounds.shrunk(actions))
        )
        returns = torch.from_numpy(rows["returns_to_go"]).float()
        return Stretches(obs, taken, returns, torch.from_numpy(rows["timesteps"]), mask)

    def save(self, store: Store) -> dict[str, Any]:
        """With the highest return."""
        return {**super().save(store), **self._wish.state()}

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from what `save` returned."""
        super().restore(state, store)
        known = self._wish.best
        self._wish.restore(state)
        if self._dataset is not None and self._wish.best != known:
            raise CheckpointError(
                f"the highest return was {self._wish.best}, that of the dataset here is {known}"
            )
