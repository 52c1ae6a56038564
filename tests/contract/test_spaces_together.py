"""Tests each kind of observation with each kind of action, on the algorithms that take both, in turn.

test_observation_spaces.py and test_action_spaces.py test each algorithm with each of them, refused spaces
too.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.factored_actions import SPACES, require_form
from helpers.observation_spaces import SPACES as SEEN
from helpers.observation_spaces import Samples
from helpers.selection import each_value_once

from rlox.algorithms import ALGORITHMS, RecurrentPPO
from rlox.envs.actions import ActionCodec
from rlox.envs.check.algorithm_fit import algorithm_obstacles
from rlox.envs.parts_codec import codec_of

TOTAL = 16
ROLLOUT: dict[str, Any] = {"n_envs": 2, "n_steps": 4}
REPLAY: dict[str, Any] = {"learning_starts": 6, "batch_size": 2, "buffer_size": 32, "train_freq": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {**ROLLOUT, "n_epochs": 1, "batch_size": 8},
    "a2c": ROLLOUT,
    "pqn": {**ROLLOUT, "n_epochs": 1, "batch_size": 8},
    "recurrent_ppo": {**ROLLOUT, "n_epochs": 1, "batch_size": 8, "lstm_hidden_size": 4},
    "dqn": REPLAY,
    "rainbow": {**REPLAY, "n_atoms": 3},
    "sac": REPLAY,
    "tqc": {**REPLAY, "n_quantiles": 4},
    "td3": REPLAY,
    "ddpg": REPLAY,
}
ACTIONS = [name for name in SPACES if name not in ("Text", "DictWithSequence")]
PAIRS = list(product(SEEN, ACTIONS))


def takes(seen: Any, done: Any) -> list[str]:
    """Return the algorithms that can train on an environment with these spaces."""
    why = algorithm_obstacles("env", seen, done)
    unbounded = ("sac", "tqc", "td3", "ddpg") if done is SPACES["BoxOneSided"] else ()
    return [name for name in OPTIONS if not why[name] and name not in unbounded]


def test_the_pairs_cover_20_observation_and_10_action_spaces_and_every_algorithm() -> None:
    assert len(SEEN) >= 20
    assert len(ACTIONS) >= 10
    assert {name for name, *_ in turns()} == set(OPTIONS)


def turns() -> list[tuple[str, str, str]]:
    """Return each pair of spaces with the next algorithm among those that take both."""
    able = [takes(SEEN[seen], SPACES[done]) for seen, done in PAIRS]
    return [(names[i % len(names)], *PAIRS[i]) for i, names in enumerate(able)]


@pytest.mark.parametrize(("name", "seen", "done"), each_value_once(turns()))
def test_an_algorithm_takes_each_observation_kind_with_each_action_kind(
    name: str, seen: str, done: str, tmp_path: Path
) -> None:
    options = {"seed": 3, "net_arch": (6,), **OPTIONS[name]}
    if codec_of(SEEN[seen]).images:
        options["encoder_features"] = 5

    def make() -> Samples:
        return Samples(SEEN[seen], SPACES[done])

    facade: Any = ALGORITHMS[name]
    original = facade(make, **options)
    original.train(TOTAL)
    original.save(tmp_path / "saved")
    loaded = facade.from_checkpoint(tmp_path / "saved", env_id=make)
    for algorithm in (original, loaded):
        algorithm.train(2 * TOTAL)
    weights = [torch.nn.utils.parameters_to_vector(a.policy.parameters()) for a in (original, loaded)]
    assert torch.equal(*weights)
    assert loaded.evaluate(1).returns == (15.0,)  # 1 + 2 + 3 + 4 + 5 for any actions
    given = loaded.predict(SEEN[seen].sample())
    given = given[0] if facade is RecurrentPPO else given
    if ActionCodec.of(SPACES[done]).is_discrete:
        assert SPACES[done].contains(given)
    else:
        require_form(SPACES[done], given)
