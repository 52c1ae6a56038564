"""Tests that PPO with the published hyperparameters reaches the published scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers.seeds import check_learned

from rlox.build import build
from rlox.configs import make_run

PRESETS = Path(__file__).parents[2] / "conf" / "tuned" / "ppo"
ENGINES = [("ppo", "torch"), ("ppo", "native"), ("hybrid_ppo", "cpu")]
STEPS = 100_000


def preset(
    env_id: str, seed: int, total_steps: int, backend: str = "torch", name: str = "ppo"
) -> dict[str, Any]:
    """Return PPO's preset of `env_id` as a run configuration; `1e-3` is a number, as for Hydra."""
    tree = yaml.safe_load((PRESETS / f"{env_id}.yaml").read_text())
    algo = {k: float(v) if k == "learning_rate" else v for k, v in tree["algo"].items()}
    return {
        "algo": {"name": name, **algo, "backend": backend},
        "env": {"id": env_id, **tree["env"]},
        "seed": seed,
        "total_steps": total_steps,
    }


def trained(config: dict[str, Any]) -> tuple[float, float]:
    """Return the mean of the last 100 episodes of training, and of 50 episodes of the final policy."""
    algorithm = build(make_run(config))
    algorithm.fit()
    evaluation = algorithm.evaluate(50)
    algorithm.close()
    assert len(evaluation.returns) == 50
    return algorithm.recent.mean_return, evaluation.mean


@pytest.mark.parametrize(("env_id", "at_least"), [("CartPole-v1", 300.0), ("Pendulum-v1", -400.0)])
def test_ppo_has_learned_a_task_when_its_training_ends(env_id: str, at_least: float) -> None:
    """A random policy scores 22 and -1233; the last 100 episodes measure more than one final policy.

    18 seeds of CartPole-v1: the lowest 431 and 490, the others 500. 20 seeds of Pendulum-v1: the lowest -247,
    -216 and -215, the median -195.
    """
    assert check_learned(lambda seed: trained(preset(env_id, seed, STEPS, "native"))[0], at_least)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), ENGINES)
def test_ppo_solves_cartpole_in_100_000_steps(name: str, backend: str) -> None:
    """The budget is that of the published preset; with half of it two of five seeds scored below 475.

    The final policy of most seeds scores 500. About one in thirty gets worse at the end, once to 116.
    """
    finals = [trained(preset("CartPole-v1", seed, STEPS, backend, name))[1] for seed in range(5)]
    assert np.median(finals) >= 475, finals


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), ENGINES)
def test_ppo_swings_the_pendulum_up_in_100_000_steps(name: str, backend: str) -> None:
    finals = [trained(preset("Pendulum-v1", seed, STEPS, backend, name))[1] for seed in range(3)]
    assert np.median(finals) >= -300, finals
