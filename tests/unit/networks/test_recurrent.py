"""Tests that recurrent layers over cut sequences equal single steps whose state the test resets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.networks import RecurrentLayers
from rlox.networks.recurrent import split_sequences

T, N, INPUTS, HIDDEN = 9, 4, 3, 5
KINDS = [("lstm", 1), ("lstm", 2), ("gru", 1), ("gru", 3)]


def starts(seed: int = 0) -> NDArray[np.bool_]:
    """Return the first rows of episodes, which begin often, rarely, never and in the first row."""
    rng = np.random.default_rng(seed)
    is_first = rng.random((T, N)) < np.array([0.6, 0.2, 0.0, 0.3])
    is_first[0] = [False, True, False, True]
    return is_first


def drawing(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(kind: str, layers: int, seed: int = 0) -> tuple[RecurrentLayers, Tensor, Tensor]:
    """Return layers in float64, inputs `[T*N, INPUTS]` and states."""
    rnn, generator = RecurrentLayers(kind, INPUTS, HIDDEN, layers).double(), drawing(seed)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.uniform_(-(HIDDEN**-0.5), HIDDEN**-0.5, generator=generator)  # as torch does
    x, state = (
        torch.randn(rows, size, generator=generator).double()
        for rows, size in ((T * N, INPUTS), (N, rnn.state_size))
    )
    return rnn, x, state


def stepped(
    rnn: RecurrentLayers, x: Tensor, state: Tensor, is_first: NDArray[np.bool_]
) -> tuple[Tensor, list[Tensor]]:
    """Step row by row; return the outputs `[T*N, HIDDEN]` and the states after each of the T steps."""
    outputs, states = [], []
    for t, row in enumerate(x.view(T, N, INPUTS)):
        state = torch.where(torch.from_numpy(is_first[t])[:, None], torch.zeros(()).double(), state)
        out, state = rnn.step(row, state)
        outputs.append(out)
        states.append(state)
    return torch.cat(outputs), states


@pytest.mark.parametrize(("kind", "layers"), KINDS)
def test_a_pass_over_sequences_equals_single_steps(kind: str, layers: int) -> None:
    rnn, x, state = made(kind, layers)
    is_first = starts()
    pieces = split_sequences(is_first)
    outputs, ends = rnn(x, state, pieces)
    expected, states = stepped(rnn, x, state, is_first)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)
    assert len(ends) == len(pieces.last_rows) == int(is_first[1:].sum()) + N
    for row, end in zip(pieces.last_rows.tolist(), ends, strict=True):
        torch.testing.assert_close(end, states[row // N][row % N], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "layers"), KINDS)
def test_gradients_flow_as_through_single_steps(kind: str, layers: int) -> None:
    rnn, x, state = made(kind, layers)
    weights = torch.randn(T * N, HIDDEN, generator=drawing(1)).double()
    gradients = [
        torch.autograd.grad((outputs * weights).sum(), list(rnn.parameters()))
        for outputs in (
            rnn(x, state, split_sequences(starts()))[0],
            stepped(rnn, x, state, starts())[0],
        )
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_nothing_before_the_first_row_of_an_episode_reaches_it(kind: str) -> None:
    rnn, x, state = made(kind, 2)
    is_first = np.zeros((T, N), np.bool_)
    is_first[5, 1] = True
    changed = x.clone()
    changed.view(T, N, INPUTS)[:5, 1] += 10
    for cuts, isolated in ((is_first, True), (np.zeros_like(is_first), False)):
        outputs = [
            rnn(seen, state, split_sequences(cuts))[0].view(T, N, HIDDEN)[5:, 1] for seen in (x, changed)
        ]
        assert torch.equal(*outputs) == isolated


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_the_state_of_one_sequence_reaches_no_other(kind: str) -> None:
    rnn, x, state = made(kind, 1)
    changed = state.clone()
    changed[2] += 1
    outputs = [rnn(x, s, split_sequences(starts()))[0].view(T, N, HIDDEN) for s in (state, changed)]
    same = [bool(torch.equal(outputs[0][:, n], outputs[1][:, n])) for n in range(N)]
    assert same == [True, True, False, True]


def test_a_state_is_forgotten_where_an_episode_begins_in_the_first_row() -> None:
    rnn, x, state = made("lstm", 1)
    begins = np.zeros((T, N), np.bool_)
    begins[0] = True
    outputs = [rnn(x, s, split_sequences(begins))[0] for s in (state, torch.zeros_like(state))]
    assert torch.equal(*outputs)


def test_cutting_two_short_sequences_gives_the_pieces_computed_by_hand() -> None:
    """Sequence 0: rows 0, 2, 4 and 6 in one piece; sequence 1: row 1, then 3 and 5, then 7."""
    is_first = np.array([[0, 1], [0, 1], [0, 0], [0, 1]], np.bool_)
    pieces = split_sequences(is_first)
    assert pieces.batch_sizes.tolist() == [4, 2, 1, 1]
    assert pieces.source_rows.tolist() == [0, 3, 1, 7, 2, 5, 4, 6]
    assert pieces.source_rows[pieces.packed_rows].tolist() == list(range(8))
    assert pieces.envs.tolist() == [0, 1, 1, 1]
    assert pieces.is_continued.flatten().tolist() == [True, False, False, False]
    assert pieces.last_rows.tolist() == [6, 5, 1, 7]


def test_weights_begin_orthogonal_with_gain_one_and_biases_at_zero() -> None:
    rnn = RecurrentLayers("lstm", 3, 8, 2)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(0.5)
    rnn.orthogonal_init()
    named = dict(rnn.rnn.named_parameters())
    weights = [named[f"weight_{of}_l{layer}"] for layer in (0, 1) for of in ("ih", "hh")]
    biases = [named[f"bias_{of}_l{layer}"] for layer in (0, 1) for of in ("ih", "hh")]
    assert len(named) == len(weights) + len(biases)
    for weight in weights:  # taller than wide: its columns are orthonormal
        product = weight.T @ weight
        torch.testing.assert_close(product, torch.eye(len(product)), rtol=0, atol=1e-5)
    assert not any(bias.any() for bias in biases)
