"""Recurrent layers over whole sequences that contain ends of episodes."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rlox.devices import to_device

__all__ = ["RNNS", "RecurrentLayers", "SubSequences", "split_sequences"]

# torch's warning about weights that cuDNN has to copy into one block at each call.
WEIGHTS_WARNING = "RNN module weights are not part of single contiguous chunk of memory"


class _FixedWeightsRNN(nn.RNNBase):
    """Recurrent layers whose weights stay in the memory of the optimizer's vector."""

    def flatten_parameters(self) -> None:
        """Do nothing: torch's method, called when a module is moved, would reallocate weights on a GPU."""


class _LSTM(_FixedWeightsRNN, nn.LSTM):
    """`torch.nn.LSTM`."""


class _GRU(_FixedWeightsRNN, nn.GRU):
    """`torch.nn.GRU`."""


RNNS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": _LSTM, "gru": _GRU}


class SubSequences(NamedTuple):
    """The division of `N` sequences of `T` rows into `K` sub-sequences without an episode start inside.

    Rows are numbered in time-major order, t*N + n. Packed rows are the first steps of all sub-sequences,
    then their second steps, and so on, the longest sub-sequence first. This is the order in which torch's
    recurrent layers process them without padding.
    """

    source_rows: Tensor  # [T*N] int64: the row of each packed row
    packed_rows: Tensor  # [T*N] int64: the packed position of each row
    batch_sizes: Tensor  # [L] int64, on the CPU: how many sub-sequences have a step l
    envs: Tensor  # [K] int64: the sequence that each sub-sequence belongs to
    is_continued: Tensor  # [K, 1] bool: begins with its sequence's state, not with a new episode's
    last_rows: Tensor  # [K] int64: the last row of each sub-sequence


def split_sequences(is_first: NDArray[np.bool_], device: torch.device | str = "cpu") -> SubSequences:
    """Split sequences where `is_first` `[T, N]` marks the first row of each episode."""
    n_steps, n_envs = is_first.shape
    is_start = is_first.T.copy()
    is_start[:, 0] = True
    envs, starts = np.nonzero(is_start)
    lengths = np.diff(np.append(envs * n_steps + starts, n_envs * n_steps))
    longest_first = np.argsort(-lengths, kind="stable")
    envs, starts, lengths = envs[longest_first], starts[longest_first], lengths[longest_first]
    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]
    steps = np.repeat(np.arange(len(batch_sizes)), batch_sizes)
    subsequence = np.arange(n_steps * n_envs) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    source_rows = (starts[subsequence] + steps) * n_envs + envs[subsequence]
    packed_rows = np.empty_like(source_rows)
    packed_rows[source_rows] = np.arange(len(source_rows))
    is_continued = (starts == 0) & ~is_first[0, envs]
    last_rows = (starts + lengths - 1) * n_envs + envs

    def index_to_device(index: NDArray[np.int64] | NDArray[np.bool_]) -> Tensor:
        return to_device(torch.from_numpy(index), torch.device(device))

    return SubSequences(
        index_to_device(source_rows),
        index_to_device(packed_rows),
        torch.from_numpy(batch_sizes),
        index_to_device(envs),
        index_to_device(is_continued[:, None]),
        index_to_device(last_rows),
    )


class RecurrentLayers(nn.Module):
    """LSTM or GRU layers of torch, with a state of one row of numbers per sequence.

    A state is `[N, state_size]` float32; zeros begin an episode. A row has the hidden values of all
    layers, followed by the cells of an LSTM.

    Parameters
    ----------
    kind : `lstm` or `gru`
    inputs : length of the input at each step
    hidden : width of each layer
    layers : number of stacked layers
    """

    def __init__(self, kind: str, inputs: int, hidden: int, layers: int = 1) -> None:
        super().__init__()
        warnings.filterwarnings("ignore", WEIGHTS_WARNING)  # flatten_parameters, its remedy, does nothing
        self.rnn = RNNS[kind](inputs, hidden, layers)
        self._parts = (2 if kind == "lstm" else 1, layers, hidden)
        self.state_size = self._parts[0] * layers * hidden

    def orthogonal_init(self) -> None:
        """Set orthogonal weights (gain 1) and zero biases.

        As in "The 37 implementation details of PPO" (Huang et al. 2022), LSTM 1.
        """
        for name, parameter in self.rnn.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter, 1.0)
            else:
                nn.init.zeros_(parameter)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute one step of every sequence: `x` `[N, inputs]` -> `[N, hidden]`, and the next states."""
        out, next_state = self.rnn(x.unsqueeze(0), self._to_rnn_state(state))
        return out.squeeze(0), self._to_row(next_state)

    def forward(self, x: Tensor, state: Tensor, subsequences: SubSequences) -> tuple[Tensor, Tensor]:
        """Process whole sequences: `x` `[T*N, inputs]` -> `[T*N, hidden]`, both in the order of the rows.

        Sequence n begins with `state[n]`, unless an episode begins there; every episode that begins
        later starts from zeros. Also returns the states `[K, state_size]` at the end of each sub-sequence.
        """
        initial_state = state.index_select(0, subsequences.envs) * subsequences.is_continued
        packed = PackedSequence(x.index_select(0, subsequences.source_rows), subsequences.batch_sizes)
        out, end_state = self.rnn(packed, self._to_rnn_state(initial_state))
        return out.data.index_select(0, subsequences.packed_rows), self._to_row(end_state)

    def _to_rnn_state(self, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Convert `[N, state_size]` to torch's form: `[layers, N, hidden]`, two of them for an LSTM."""
        parts = state.view(len(state), *self._parts).permute(1, 2, 0, 3).contiguous()
        return (parts[0], parts[1]) if len(parts) == 2 else parts[0]

    def _to_row(self, state: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        parts = torch.stack(state) if isinstance(state, tuple) else state.unsqueeze(0)
        return parts.permute(2, 0, 1, 3).reshape(parts.shape[2], self.state_size)
