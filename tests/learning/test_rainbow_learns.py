"""Tests that Rainbow with the shipped preset learns in fewer steps than the preset has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.seeds import check_learned, mean_return

from rlox.algorithms import Rainbow

PRESET = Path(__file__).parents[2] / "conf" / "tuned" / "rainbow" / "CartPole-v1.yaml"
STEPS = 9_000


def recipe() -> dict[str, Any]:
    """Return the preset of CartPole-v1; `2.0e-3` is text to YAML readers other than Hydra's."""
    tree = yaml.safe_load(PRESET.read_text())
    tree["algo"]["learning_rate"] = float(tree["algo"]["learning_rate"])
    return {**tree["algo"], "buffer_size": tree["buffer"]["capacity"]}


def score(seed: int) -> float:
    """Return the larger mean return: of the last 100 episodes of training, or of the final policy."""
    algorithm = Rainbow("CartPole-v1", seed=seed, **recipe())
    training = algorithm.train(STEPS)["mean_reward"]
    final = mean_return(algorithm, "CartPole-v1", 10)
    algorithm.close()
    return max(training, final)


@pytest.mark.slow
def test_rainbow_balances_the_pole_after_9_000_steps() -> None:
    """A random policy scores 22; a policy that learned the wrong thing scores 9 to 20."""
    assert check_learned(score, at_least=60.0)
