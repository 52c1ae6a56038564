"""Tests every algorithm with every kind of observation: it trains, evaluates and resumes bit for bit."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.observation_probes import EYE
from helpers.observation_spaces import REFUSED_SPACES, SPACES, Samples, image
from helpers.selection import each_value_once

from rlox import OfflineDatasetBuffer
from rlox.algorithms import ALGORITHMS
from rlox.configs import ALGO_CONFIGS
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, UnsupportedSpaceError
from rlox.runs.record import record
from rlox_cli.main import main

TOTAL = 22  # ends within episodes and, off-policy, after learning starts
ROLLOUTS: dict[str, Any] = {"n_envs": 2, "n_steps": 4}
REPLAYS: dict[str, Any] = {
    "learning_starts": 12,
    "batch_size": 4,
    "buffer_size": 40,
    "train_freq": 2,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": ROLLOUTS | {"n_epochs": 1, "batch_size": 8},
    "a2c": ROLLOUTS,
    "pqn": ROLLOUTS | {"n_epochs": 1, "batch_size": 8},
    "recurrent_ppo": ROLLOUTS | {"n_epochs": 1, "batch_size": 8, "lstm_hidden_size": 4},
    "dqn": REPLAYS,
    "rainbow": REPLAYS | {"n_atoms": 5, "train_freq": 4},
    "sac": REPLAYS,
    "tqc": REPLAYS | {"n_quantiles": 4},
    "td3": REPLAYS,
    "ddpg": REPLAYS,
    "bc": {"batch_size": 4, "learning_rate": 1e-2},
    "td3_bc": {"batch_size": 4, "learning_rate": 1e-2, "standardize_obs": False},
    "iql": {"batch_size": 4, "learning_rate": 1e-2},
    "cql": {"batch_size": 4, "learning_rate": 1e-2, "n_random_actions": 1},
    "decision_transformer": {"batch_size": 4, "context_length": 3, "hidden": 6, "n_layers": 1},
}
VECTORS = {"sac", "tqc", "td3", "ddpg", "td3_bc", "iql", "cql"}
OF_VECTORS = "decision_transformer"  # takes no images
FROM_DATASETS = {name for name in ALGORITHMS if ALGO_CONFIGS[name].unit == "updates"}
ANYWHERE = [
    name
    for name, kind in ((n, ALGO_CONFIGS[n]) for n in ALGORITHMS)
    if kind.action_kinds and not kind.is_native_only
]
SMALL: dict[str, Any] = {"seed": 3, "net_arch": (6,)}


def actions_of(name: str) -> Any:
    return spaces.Box(-1, 1, (2,)) if name in VECTORS else spaces.Discrete(3)


def world(name: str, space: spaces.Space[Any]) -> Callable[[], Samples]:
    return lambda: Samples(space, actions_of(name))


@functools.cache
def dataset(kind: str, vectors: bool) -> OfflineDatasetBuffer:
    make = world("td3_bc" if vectors else "bc", SPACES[kind])
    player = ALGORITHMS["ppo"](make, **SMALL, **OPTIONS["ppo"])  # type: ignore[arg-type]
    return record(player, 3, env=make).buffer()


def weights(algorithm: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@pytest.mark.parametrize(("name", "kind"), each_value_once(list(product(ANYWHERE, SPACES))))
def test_an_algorithm_learns_plays_and_goes_on_in_these_observations(
    name: str, kind: str, tmp_path: Path
) -> None:
    space, facade = SPACES[kind], ALGORITHMS[name]
    make, options = world(name, space), SMALL | OPTIONS[name]
    held = {"dataset": dataset(kind, name in VECTORS)} if name in FROM_DATASETS else {}
    if name == OF_VECTORS:
        options.pop("net_arch")
    if codec_of(space).images:
        if name == OF_VECTORS:
            with pytest.raises(UnsupportedSpaceError, match="learns from vectors"):
                facade(env_id=make, **options, **held)  # type: ignore[call-arg]
            return
        options |= {"encoder_features": 5}
    original: Any = facade(env_id=make, **options, **held)  # type: ignore[call-arg]
    begun = weights(original)
    original.train(TOTAL)
    assert not torch.equal(weights(original), begun)
    original.save(tmp_path / "saved")
    loaded: Any = facade.from_checkpoint(tmp_path / "saved", env_id=make, **held)
    assert loaded.source.resume_grade == "exact"
    assert loaded.evaluate(2).returns == original.evaluate(2).returns
    rows = [algorithm.train(2 * TOTAL) for algorithm in (original, loaded)]
    assert {k: v for k, v in rows[0].items() if v == v} == {k: v for k, v in rows[1].items() if v == v}
    assert torch.equal(weights(original), weights(loaded))
    space.seed(1)
    several = [space.sample() for _ in range(3)]
    one_by_one = [first(original.predict(one)) for one in several]
    together = first(original.predict(batch_of(space, several)))
    # A batch sums in another order: at most 1.2e-7 apart with AVX-512, a hundredth of the tolerance, so the
    # CPU's kernels do not matter. The action of another row differs by 1e-2 or more in most cases.
    np.testing.assert_allclose(together, one_by_one, rtol=1e-4, atol=1e-5)


def first(predicted: Any) -> Any:
    """Return the actions without the states that a recurrent policy adds."""
    return predicted[0] if isinstance(predicted, tuple) else predicted


def batch_of(space: spaces.Space[Any], several: list[Any]) -> Any:
    """Batch observations like Gymnasium's vector environments."""
    if isinstance(space, spaces.Dict):
        return {k: batch_of(part, [one[k] for one in several]) for k, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(part, [one[i] for one in several]) for i, part in enumerate(space))
    return np.stack(several)


@pytest.mark.parametrize(("name", "kind"), each_value_once(list(product(ANYWHERE, REFUSED_SPACES))))
def test_algorithms_refuse_observations_of_no_fixed_size_with_an_explanation(name: str, kind: str) -> None:
    space, told = REFUSED_SPACES[kind]
    with pytest.raises(UnsupportedSpaceError, match=told):
        ALGORITHMS[name](env_id=world(name, space), **OPTIONS[name])  # type: ignore[call-arg]


def test_train_prints_how_it_reads_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = [f"env={EYE}", "env.n_envs=2", "algo.n_steps=8", "algo.batch_size=16", "total_steps=16"]
    assert main(["train", *line, "eval.episodes=1", "tuned=null"]) == 0
    said = "eye: 8x8, 3 channels (shape (8, 8, 3), channels last), divided by 255, encoder small"
    assert f"  image   {said}\n" in capsys.readouterr().out
    (provenance,) = tmp_path.rglob("provenance.json")
    assert json.loads(provenance.read_text())["images"] == [said]


def test_init_from_refuses_weights_with_another_channel_order(tmp_path: Path) -> None:
    make = world("ppo", image((8, 8, 8)))
    first = ALGORITHMS["ppo"](make, **SMALL, **OPTIONS["ppo"], image_channels="first")  # type: ignore[arg-type]
    first.save(tmp_path / "saved")
    last = {**SMALL, **OPTIONS["ppo"], "image_channels": "last", "init_from": tmp_path / "saved"}
    with pytest.raises(ConfigError, match=r"algo.image_channels=first, but this run has last"):
        ALGORITHMS["ppo"](make, **last)  # type: ignore[arg-type]
