"""Tests that named streams are keyed and independent, and leave other generators unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlox.rng import Streams, seeded_default_generators


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
        with Streams(7).seeded_generators("init"):
            drawn.append(torch.rand(3))
        assert torch.equal(torch.get_rng_state(), outside)
    assert torch.equal(*drawn)
    torch.set_rng_state(before)


def test_an_error_inside_the_block_restores_the_generator_too() -> None:
    before = torch.get_rng_state()
    try:
        with Streams(7).seeded_generators("init"):
            torch.rand(3)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)


class Accelerators:
    """Stands in for CUDA devices 0 and 1: their default generators, with a record of the used ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = torch.Generator
        self.generators = [real().manual_seed(100 + i) for i in range(2)]
        self.asked: set[int] = set()
        monkeypatch.setattr(torch, "Generator", lambda device="cpu": real())
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda d: self.of(d).get_state())
        monkeypatch.setattr(torch.cuda, "set_rng_state", lambda s, d: self.of(d).set_state(s))

    def of(self, device: torch.device) -> torch.Generator:
        assert device.index is not None
        self.asked.add(device.index)
        return self.generators[device.index]


def test_a_devices_generator_is_keyed_with_the_cpus_and_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, drawn = Accelerators(monkeypatch), []
    devices = {torch.device("cuda:1"), torch.device("cpu"), torch.device("meta")}
    for seed in (1, 2):
        fake.generators[1].manual_seed(seed)
        before = [torch.get_rng_state(), *(g.get_state() for g in fake.generators)]
        with seeded_default_generators(7, devices):
            drawn.append(torch.cat([torch.rand(3), torch.rand(3, generator=fake.generators[1])]))
        after = [torch.get_rng_state(), *(g.get_state() for g in fake.generators)]
        assert all(map(torch.equal, before, after))
    assert torch.equal(*drawn)
    assert fake.asked == {1}


def test_a_named_block_keys_its_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, drawn = Accelerators(monkeypatch), []
    for counter in (0, 0, 1):
        with Streams(7).seeded_generators("init", counter, torch.device("cuda:0")):
            drawn.append(torch.rand(3, generator=fake.generators[0]).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_real_accelerators_generator_is_keyed_and_put_back(kind: str) -> None:
    module: Any = torch.get_device_module(kind)
    if not module.is_available():
        pytest.skip(f"no {kind} here")
    device, drawn = torch.device(kind, 0), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = module.get_rng_state(device)
        with seeded_default_generators(7, [device]):
            drawn.append(torch.rand(3, device=device).cpu())
        assert torch.equal(module.get_rng_state(device), before)
    assert torch.equal(*drawn)
