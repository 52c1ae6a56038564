"""Batches of sub-trajectories of a dataset's episodes, for sequence models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlox.devices import to_device
from rlox.errors import CheckpointError, ConfigError
from rlox.sources.dataset import BATCHES_PER_BLOCK, DatasetSource
from rlox.sources.dataset_file import COLUMNS, Dataset
from rlox.sources.file_columns import first_rows_of
from rlox.sources.preparation import LoadedDataset, complete_returns
from rlox.sources.store import Store
from rlox.types import Clock, Progress

__all__ = ["SubTrajectories", "SubTrajectorySource"]


@dataclass(frozen=True, slots=True)
class SubTrajectories:
    """n batches of B sub-trajectories of L steps; where `mask` is False there is padding."""

    obs: Tensor  # [n, B, L, obs_dim]
    actions: Tensor  # [n, B, L] or [n, B, L, act_dim]
    returns: Tensor  # [n, B, L], undiscounted returns to go
    timesteps: Tensor  # [n, B, L] int64, counted from the start of the episode
    mask: Tensor  # [n, B, L] bool

    def __len__(self) -> int:
        return len(self.obs)

    def to(self, device: torch.device | str) -> SubTrajectories:
        """Return the same batches on another device (this object if they are there already)."""
        target_device = torch.device(device)
        if self.obs.device == target_device:
            return self
        return replace(
            self, **{f.name: to_device(getattr(self, f.name), target_device) for f in fields(self)}
        )


class SubTrajectorySource(DatasetSource):
    """Samples sub-trajectories of `length` steps that start anywhere; batch k depends on seed and k only.

    `max_timesteps` is the number of time steps that the model distinguishes. The highest return of the
    dataset is written to `target_return`.
    """

    def __init__(self, *arguments: Any, length: int, max_timesteps: int, target_return: Any) -> None:
        super().__init__(*arguments)
        self._length, self._max_timesteps, self._target_return = length, max_timesteps, target_return
        self._complete_episodes: Any = None  # a dataset of the complete episodes

    def _use_dataset(self, loaded: LoadedDataset) -> None:
        super()._use_dataset(loaded)
        columns = loaded.columns
        returns = complete_returns(columns)
        if not len(returns):
            raise ConfigError(
                "no episode of the dataset ends, so there is no return to learn from; add complete episodes"
            )
        self._target_return.dataset_return = float(returns.max())
        ends = np.flatnonzero(columns["terminated"] | columns["truncated"])
        lengths = np.diff(ends, prepend=-1)
        # rows after the end of the last complete episode have no return
        complete_columns = {name: first_rows_of(columns[name], int(ends[-1]) + 1) for name in COLUMNS}
        is_complete = len(complete_columns["rewards"]) == len(columns["rewards"])
        self._complete_episodes = (
            loaded.dataset if is_complete else Dataset(complete_columns, {}, loaded.digest).buffer()
        )
        if lengths.max() > self._max_timesteps:
            raise ConfigError(
                f"algo.max_timesteps={self._max_timesteps}: an episode of the dataset has {lengths.max()} "
                f"steps; set algo.max_timesteps={lengths.max()} or more"
            )

    def next(self, clock: Clock) -> tuple[Any, Progress]:
        """Return the next batches, at most as many as the run has left."""
        self.load()
        first = self.batches
        last = min(
            first - first % BATCHES_PER_BLOCK + BATCHES_PER_BLOCK,
            first + (clock.units_left or BATCHES_PER_BLOCK),
        )
        samples = [
            self._complete_episodes.sample_trajectories(
                self._batch_size, self._length, self._streams.key("dataset", number)
            )
            for number in range(first, last)
        ]
        self.batches = last
        self._rows = {name: np.stack([rows[name] for rows in samples]) for name in samples[0]}
        return self._make_batches(self._rows), Progress()

    def _make_batches(self, rows: Mapping[str, Any]) -> SubTrajectories:
        mask = torch.from_numpy(rows["mask"])
        obs = self._prepare_obs(torch.from_numpy(rows["obs"]).flatten(3))
        bounds, actions = self._preparation.actions, rows["actions"].reshape(*mask.shape, -1)
        action_tensor = (
            torch.from_numpy(actions).long().squeeze(-1)
            if bounds is None
            else torch.from_numpy(bounds.to_unit(actions))
        )
        returns = torch.from_numpy(rows["returns_to_go"]).float()
        return SubTrajectories(obs, action_tensor, returns, torch.from_numpy(rows["timesteps"]), mask)

    def save(self, store: Store) -> dict[str, Any]:
        """Return the dataset source's state and the highest return."""
        return {**super().save(store), **self._target_return.state()}

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from the state that `save` returned."""
        super().restore(state, store)
        dataset_best = self._target_return.dataset_return
        self._target_return.restore(state)
        if self._dataset is not None and self._target_return.dataset_return != dataset_best:
            raise CheckpointError(
                f"the highest return was {self._target_return.dataset_return}, but that of this dataset is "
                f"{dataset_best}"
            )
