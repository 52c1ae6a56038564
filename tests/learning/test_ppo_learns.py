"""PPO with the published hyperparameters reaches the published scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlox.build import build
from rlox.configs import make_run
from rlox.statistics import iqm

PRESETS = Path(__file__).parents[2] / "conf" / "tuned" / "ppo"

pytestmark = pytest.mark.learning


def preset(
    env_id: str, seed: int, total_steps: int, backend: str = "torch", name: str = "ppo"
) -> dict[str, Any]:
    """PPO's preset of `env_id` as a run configuration; `1e-3` is a number, as it is for Hydra."""
    tree = yaml.safe_load((PRESETS / f"{env_id}.yaml").read_text())
    algo = {k: float(v) if k == "learning_rate" else v for k, v in tree["algo"].items()}
    return {
        "algo": {"name": name, **algo, "backend": backend},
        "env": {"id": env_id, **tree["env"]},
        "seed": seed,
        "total_steps": total_steps,
    }


def score(config: dict[str, Any]) -> tuple[float, float]:
    algorithm = build(make_run(config))
    algorithm.fit()
    evaluation = algorithm.evaluate(50)
    algorithm.close()
    assert len(evaluation.returns) == 50
    return evaluation.mean, evaluation.iqm


@pytest.mark.parametrize(
    ("name", "backend", "seeds"),
    [("ppo", "torch", 3), ("ppo", "native", 5), ("hybrid_ppo", "cpu", 2)],
)
def test_ppo_solves_cartpole_in_100_000_steps(name: str, backend: str, seeds: int) -> None:
    """The budget of the published preset; at half of it two seeds of five were below 475.

    Of twelve seeds of the native engine, eleven end at 500, and the first of them at 116, after 500.
    """
    runs = [preset("CartPole-v1", seed, 100_000, backend, name) for seed in range(seeds)]
    means = np.array([score(run)[0] for run in runs])
    assert iqm(means) >= 475, means
    assert means.min() >= 100, means


@pytest.mark.parametrize(
    ("name", "backend"), [("ppo", "torch"), ("ppo", "native"), ("hybrid_ppo", "cpu")]
)
def test_ppo_swings_the_pendulum_up_in_100_000_steps(name: str, backend: str) -> None:
    mean, _ = score(preset("Pendulum-v1", 0, 100_000, backend, name))
    assert mean >= -300
