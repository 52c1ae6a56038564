"""Tests of moves between devices and of waits of the host, and that the pretended device reports waits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from contract.specs import SPECS
from helpers.fake_device import FakeDeviceTensor
from torch import Tensor, nn

from rlox.algorithms import RecurrentPPO
from rlox.devices import to_device
from rlox.errors import ConfigError
from rlox.losses import project_atoms
from rlox.networks import RecurrentLayers
from rlox.types import FinalObs, Rollout, Transitions

from .conftest import OTHER_DEVICES, Place

PRETENDED = pytest.mark.parametrize("place", ["pretended"], indirect=True)
WAITS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "a condition": lambda x: x.sum() > 0 and None,
    "to the CPU": lambda x: x.cpu(),
    "a list": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "a mask as an index": lambda x: x[x > 0],
    "from the CPU": lambda x: torch.ones(3).to(x.device),
    "a copy from the CPU": lambda x: x.copy_(torch.ones(2, 3)),
}


def transitions() -> Transitions:
    rows = torch.arange(24.0).view(2, 3, 4)
    numbers = torch.zeros(2, 3)
    return Transitions(rows, numbers, numbers, rows, numbers, np.zeros((2, 3), np.uint64))


@pytest.mark.parametrize("place", OTHER_DEVICES, indirect=True)
@pytest.mark.parametrize("kind", WAITS)
def test_the_watcher_detects_operations_that_make_the_host_wait(place: Place, kind: str) -> None:
    there = to_device(torch.ones(2, 3), place.device)
    with place.watched() as waits:
        WAITS[kind](there)
    assert waits


@PRETENDED
def test_numbers_of_the_cpu_do_not_mix_with_those_of_a_device(place: Place) -> None:
    there = to_device(torch.ones(2, 3), place.device)
    with pytest.raises(RuntimeError, match="expected all tensors on one device"):
        there + torch.ones(2, 3)
    with pytest.raises((RuntimeError, TypeError), match="numpy"):
        there.numpy()
    assert isinstance(there * 2, FakeDeviceTensor)
    assert torch.equal((there * 2).cpu(), torch.full((2, 3), 2.0))


def test_moved_tensors_are_copies_unless_on_the_same_device(place: Place) -> None:
    here = torch.arange(3.0)
    with place.watched() as waits:
        there = to_device(here, place.device)
    assert waits == []
    assert there.device == place.device
    assert to_device(there, place.device) is there
    if place.name == "cpu":
        assert there is here
    else:
        here.zero_()
        assert there.tolist() == [0.0, 1.0, 2.0]


def test_batches_are_moved_with_all_that_they_have(place: Place) -> None:
    batch = transitions()
    there = batch.to(place.device)
    assert there.indices is batch.indices
    assert there.weights is None
    for name in ("obs", "actions", "rewards", "next_obs", "discounts"):
        column = getattr(there, name)
        assert column.device == place.device
        assert torch.equal(column.cpu(), getattr(batch, name))
    assert (there is batch) == (place.name == "cpu")


def test_rollouts_are_moved_with_all_that_they_have(place: Place) -> None:
    algorithm = SPECS["ppo"].make("masked, normalised", n_steps=64)
    here = algorithm.source.collector.collect_in_arena(algorithm.policy, 64)
    there = here.to(place.device)
    assert here.final_obs is not None
    found = [getattr(there, field.name) for field in fields(Rollout)]
    wanted = [getattr(here, field.name) for field in fields(Rollout)]
    for value, before in zip(found, wanted, strict=True):
        several = isinstance(before, FinalObs)
        pairs = zip(value, before, strict=True) if several else [(value, before)]
        if isinstance(before, dict):
            assert value.keys() == before.keys()
            pairs = [(value[name], before[name]) for name in before]
        for x, y in pairs:
            if isinstance(y, Tensor):
                assert x.device == place.device
                assert torch.equal(x.cpu().nan_to_num(), y.nan_to_num())
            else:
                assert x == y


def test_project_atoms_computes_on_the_device_without_waits(place: Place) -> None:
    rewards, discounts = torch.tensor([0.3, -1.0]), torch.tensor([0.9, 0.0])
    p = torch.softmax(torch.arange(10.0).view(2, 5), -1)
    wanted = project_atoms(rewards, discounts, p, -1.0, 1.0)
    there = [to_device(x, place.device) for x in (rewards, discounts, p)]
    with place.watched() as waits:
        found = project_atoms(*there, -1.0, 1.0)
    assert waits == []
    assert torch.allclose(found.cpu(), wanted)


def test_the_weights_of_recurrent_layers_stay_in_the_vector_of_the_optimizer(place: Place) -> None:
    algorithm = place.make(SPECS["recurrent_ppo"], "discrete")
    algorithm.policy.to(place.device)
    algorithm.learner.optimizer.vector.fill_(0.5)
    for name, parameter in algorithm.policy.named_parameters():
        assert torch.equal(parameter.detach().cpu(), torch.full(parameter.shape, 0.5)), name


def test_recurrent_layers_never_call_flatten_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(layers: nn.RNNBase) -> None:
        raise AssertionError("the weights are no longer parts of the optimizer's vector")

    monkeypatch.setattr(nn.RNNBase, "flatten_parameters", refused)
    for kind in ("lstm", "gru"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            RecurrentLayers(kind, 3, 4).to("cpu")
            warnings.warn(
                "RNN module weights are not part of single contiguous chunk of memory. This means they "
                "need to be compacted at every call",
                stacklevel=1,
            )
        assert told == []


def test_a_checkpoint_is_loaded_on_the_device_that_is_named(tmp_path: Any) -> None:
    spec = SPECS["recurrent_ppo"]
    algorithm = spec.make("discrete", device="cpu")
    algorithm.save(tmp_path / "saved")
    again = RecurrentPPO.from_checkpoint(tmp_path / "saved")
    assert again.config.device == "cpu"
    other = RecurrentPPO.from_checkpoint(tmp_path / "saved", device="auto")
    assert other.config.device == "auto"
    with pytest.raises(ConfigError, match="device=gpu: expected auto, cpu, cuda"):
        RecurrentPPO.from_checkpoint(tmp_path / "saved", device="gpu")
    with pytest.raises(ConfigError, match="device=cuda:99 is not available here, device=cpu is"):
        RecurrentPPO.from_checkpoint(tmp_path / "saved", device="cuda:99")
