"""Riddles that need every part of an observation are answered: keys, integers, images, frames."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.riddles import RIDDLES, Riddle

from rlox.algorithms import DQN, PPO, SAC
from rlox.envs.spaces import ObservationCodec

pytestmark = pytest.mark.learning

NETS: dict[str, Any] = {"net_arch": (32,), "gamma": 0.0, "seed": 1}
SETTINGS: dict[Any, dict[str, Any]] = {
    PPO: {
        "n_envs": 16, "n_steps": 16, "n_epochs": 4, "batch_size": 64, "learning_rate": 2e-3,
        "activation": "relu",
    },
    DQN: {
        "learning_rate": 1e-3, "batch_size": 64, "learning_starts": 256, "train_freq": 4,
        "buffer_size": 5_000,
        "target_update_interval": 1_000, "exploration_fraction": 0.5, "n_envs": 4,
    },
    SAC: {
        "learning_rate": 2e-3, "batch_size": 64, "learning_starts": 256, "train_freq": 4,
        "buffer_size": 5_000,
        "ent_coef": "0.01", "n_critics": 1, "n_envs": 4,
    },
}  # fmt: skip
# Steps for vectors, and for images.
TOTALS = {PPO: (6_144, 6_144), DQN: (3_000, 3_000), SAC: (8_000, 6_000)}
# A policy of tanh that is thrown to its bounds early has no slope to come back by.
OF_IMAGES: dict[Any, dict[str, Any]] = {PPO: {}, DQN: {}, SAC: {"learning_rate": 5e-4}}
# SAC takes minutes for images alone.
SLOW = [(SAC, kind) for kind in ("a small image", "an image", "the movement between frames")]
CASES = [(facade, kind) for facade in SETTINGS for kind in RIDDLES if (facade, kind) not in SLOW]


@pytest.mark.parametrize(("facade", "kind"), CASES)
def test_a_riddle_is_answered_by_who_sees_all_of_it(facade: Any, kind: str) -> None:
    space, ask = RIDDLES[kind]
    images = bool(ObservationCodec.of(space).images)
    options = NETS | SETTINGS[facade]
    if images:
        options |= {"encoder_features": 32, **OF_IMAGES[facade]}
    algorithm = facade(lambda: Riddle(space, ask, facade is SAC), **options)
    algorithm.train(TOTALS[facade][images])
    assert algorithm.evaluate(100).mean >= 0.8
