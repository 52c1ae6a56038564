"""Tests of every algorithm on another device: equal updates, no waits between steps, portable checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract.specs import SPECS

from rlox.devices import to_device
from rlox.state_tree import pack
from rlox.training.learner import UpdateNoise
from rlox.types import NO_UPDATE, Clock, Rollout, Update

from .conftest import OTHER_DEVICES, STEP, WHERE_GENERATORS_ARE, Place

pytestmark = pytest.mark.filterwarnings("ignore:.*from a non-meta parameter:UserWarning")

# The interval of updates and the number of environments make no difference on a device.
CADENCES = ("one update at a time", "one at a time", "replay ratio, many environments")
CASES = [
    (name, case)
    for name, spec in SPECS.items()
    for case in spec.cases
    # native engines run on the CPU
    if not (case.endswith(CADENCES) or case.startswith("native") or spec.native_only)
]
FIRST = [(name, next(iter(spec.cases))) for name, spec in SPECS.items() if not spec.native_only]
SHORT = {"ppo": {"n_steps": 32}, "recurrent_ppo": {"n_steps": 4, "batch_size": 8}}
RELATIVE = 1e-4  # norm of the difference over the norm, for each tensor


def updates(algorithm: Any, total: int) -> Iterator[tuple[Any, Clock, Update]]:
    """Yield batch, clock and update of an algorithm; a batch is valid until the next one."""
    clock = Clock(unit=algorithm.clock.unit, horizon=total)
    while True:
        batch, progress = algorithm.source.next(clock)
        update = NO_UPDATE
        if batch is not None:
            update = algorithm.learner.update(batch, clock)
            yield batch, clock, update
        algorithm.source.feedback(update)
        clock = clock.tick(progress, update)


def learn(algorithm: Any, batch: Any, clock: Clock, place: Place) -> Any:
    """Update with a batch of the CPU: the collector moves a rollout, the learner moves transitions."""
    given = batch.to(place.device) if isinstance(batch, Rollout) else batch
    return algorithm.learner.update(given, clock)


def learned(algorithm: Any) -> dict[str, Any]:
    """Return the learner's state as arrays by their path."""
    arrays: dict[str, Any] = {}
    pack(algorithm.learner.state(), arrays)
    return arrays


def noise_of_the_cpu(learner: Any) -> None:
    """Make the learner draw its noise on the CPU, so that it does not depend on the device."""
    own = getattr(learner, "noise", None)
    if isinstance(own, UpdateNoise):

        def drawn(update: int, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
            return to_device(own(update, shape, torch.empty(0, dtype=like.dtype)), like.device)

        learner.noise = drawn


def between(waits: list[str]) -> list[str]:
    """Return the waits of the host between the first step and the last."""
    steps = [i for i, found in enumerate(waits) if found == STEP]
    assert steps, "nothing was learned"
    return [found for found in waits[steps[0] : steps[-1]] if found != STEP]


@pytest.mark.parametrize("place", OTHER_DEVICES, indirect=True)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_three_updates_on_a_device_are_those_of_the_cpu(place: Place, name: str, case: str) -> None:
    spec = SPECS[name]
    short = SHORT.get(name, {})
    here, there = spec.make(case, **short), place.make(spec, case, **short)
    noise_of_the_cpu(there.learner)
    before, found = learned(here), learned(there)
    assert all(np.array_equal(before[path], found[path]) for path in before)
    same = place.rounds_as_the_cpu(name)
    rounding = {"rtol": 0.0 if same else 1e-3, "atol": 0.0 if same else 1e-4}
    for batch, clock, expected in islice(updates(here, spec.total), 3):
        update = learn(there, batch, clock, place)
        assert (update.count, update.samples) == (expected.count, expected.samples)
        told, wanted = ({**made.metrics, **made.columns} for made in (update, expected))
        for key, value in wanted.items():
            np.testing.assert_allclose(told[key], value, err_msg=key, **rounding)
    wanted, found = learned(here), learned(there)
    assert wanted.keys() == found.keys()
    assert not all(np.array_equal(before[path], wanted[path]) for path in before)
    for path, array in wanted.items():
        if same:
            np.testing.assert_array_equal(found[path], array, err_msg=path)
        elif "exp_avg" not in path and "square_avg" not in path:  # moments of gradients, which may cancel out
            apart = np.linalg.norm(found[path] - array)
            assert apart <= RELATIVE * np.linalg.norm(array), path


@pytest.mark.parametrize("place", OTHER_DEVICES, indirect=True)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_host_waits_for_nothing_between_the_steps_of_an_update(
    place: Place, name: str, case: str
) -> None:
    spec = SPECS[name]
    short = SHORT.get(name, {})
    here, there = spec.make(case, **short), place.make(spec, case, **short)
    batch, clock, _ = next(updates(here, spec.total))
    with place.watched() as waits:
        learn(there, batch, clock, place)
    assert between(waits) == []


@pytest.mark.parametrize("place", OTHER_DEVICES, indirect=True)
def test_a_limit_of_the_kl_divergence_is_read_before_each_step(place: Place) -> None:
    spec = SPECS["ppo"]
    here, there = spec.make("discrete"), place.make(spec, "discrete", target_kl=10.0)
    batch, clock, _ = next(updates(here, spec.total))
    with place.watched() as waits:
        learn(there, batch, clock, place)
    assert len(between(waits)) == waits.count(STEP) - 1 > 0


@pytest.mark.parametrize("place", OTHER_DEVICES, indirect=True)
@pytest.mark.parametrize(("name", "case"), FIRST)
def test_a_checkpoint_of_another_device_resumes_on_the_cpu_and_back(
    place: Place, name: str, case: str, tmp_path: Path
) -> None:
    spec, total, short = SPECS[name], SPECS[name].total // 6, SHORT.get(name, {})
    there = place.make(spec, case, **short)
    there.train(total)
    there.save(tmp_path / "there")
    here = spec.facade.from_checkpoint(tmp_path / "there", device="cpu")
    kept, found = learned(there), learned(here)
    assert all(np.array_equal(kept[path], found[path]) for path in kept)
    if place.rounds_as_the_cpu(name):
        alone = spec.make(case, **short)
        alone.train(total)
        assert all(np.array_equal(kept[path], array) for path, array in learned(alone).items())
    for obs in [spec.seen(here, seed) for seed in range(5)]:
        np.testing.assert_allclose(spec.action(there, obs), spec.action(here, obs), 1e-4, 1e-5)
    here.train(2 * total)
    here.save(tmp_path / "here")
    back = spec.facade.from_checkpoint(tmp_path / "here", device=place.option)
    kept, found = learned(here), learned(back)
    assert all(np.array_equal(kept[path], found[path]) for path in kept)
    done = back.clock
    back.train(done.now + 16)
    assert {p.device for p in back.policy.parameters()} == {place.device}
    assert back.clock.updates > done.updates


@contextmanager
def one_order(place: Place) -> Iterator[None]:
    """Use kernels that sum in one order; on a GPU torch needs a setting for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if place.name == "cuda":
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            if place.name == "cuda":
                torch.use_deterministic_algorithms(False)


def generators(place: Place) -> list[torch.Tensor]:
    """Return the states of torch's default generators."""
    own = [torch.cuda.get_rng_state(place.device)] if place.name == "cuda" else []
    return [torch.get_rng_state(), *own]


@pytest.mark.parametrize("place", WHERE_GENERATORS_ARE, indirect=True)
@pytest.mark.parametrize(("name", "case"), FIRST)
def test_the_same_seed_gives_the_same_bytes_and_no_default_generator_moves(
    place: Place, name: str, case: str
) -> None:
    spec, results = SPECS[name], []
    before = generators(place)
    for _ in range(2):
        algorithm = place.make(spec, case, **SHORT.get(name, {}))
        with one_order(place):
            algorithm.train(spec.total // 6)
        results.append({path: array.tobytes() for path, array in learned(algorithm).items()})
    assert results[0] == results[1]
    assert all(map(torch.equal, before, generators(place)))
