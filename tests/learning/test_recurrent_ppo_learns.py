"""Recurrent PPO remembers what PPO cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.probes import Recall

from rlox.algorithms import PPO, RecurrentPPO

pytestmark = pytest.mark.learning
OPTIONS: dict[str, Any] = {
    "n_envs": 16,
    "n_steps": 20,
    "batch_size": 160,
    "learning_rate": 5e-3,
    "net_arch": (16,),
    "ent_coef": 0.01,
}


@pytest.mark.parametrize("rnn", ["lstm", "gru"])
def test_a_sign_of_the_first_step_is_said_in_the_last(rnn: str) -> None:
    algorithm = RecurrentPPO(Recall, seed=1, rnn=rnn, lstm_hidden_size=16, **OPTIONS)
    algorithm.train(6_400)
    assert algorithm.evaluate(50).mean == 1.0


def test_without_a_memory_the_sign_is_guessed() -> None:
    algorithm = PPO(Recall, seed=1, **OPTIONS)
    algorithm.train(6_400)
    assert abs(algorithm.evaluate(100).mean) < 0.5
    returns = np.array(algorithm.evaluate(100, deterministic=False).returns)
    assert abs(returns.mean()) < 0.5
