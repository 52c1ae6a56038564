"""Named streams: keyed, independent, and nobody else's business."""

from __future__ import annotations

import torch

from rlox.rng import Streams


def test_a_stream_is_a_function_of_seed_name_and_counter() -> None:
    a, b = Streams(1), Streams(1)
    b.generator("other").initial_seed()
    drawn = torch.rand(5, generator=a.generator("action", 3))
    assert torch.equal(drawn, torch.rand(5, generator=b.generator("action", 3)))
    keys = {Streams(s).key(n, c) for s in (0, 1, 2**53) for n in ("a", "b", "") for c in (0, 1, 9)}
    assert len(keys) == 27
    assert all(0 <= k < 2**63 for k in keys)


def test_a_block_on_the_default_generator_leaves_it_as_it_was() -> None:
    before, drawn = torch.get_rng_state(), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        outside = torch.get_rng_state()
        with Streams(7).default("init"):
            drawn.append(torch.rand(3))
        assert torch.equal(torch.get_rng_state(), outside)
    assert torch.equal(*drawn)
    torch.set_rng_state(before)


def test_an_error_inside_the_block_restores_the_generator_too() -> None:
    before = torch.get_rng_state()
    try:
        with Streams(7).default("init"):
            torch.rand(3)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)
