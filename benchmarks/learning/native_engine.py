"""The native engine beside torch, and hybrid PPO beside PPO: the missing runs, table and figure of
experiments/native_engine.

The runs with torch are those of experiments/classic_control_suite: the same presets, steps, seeds and
episodes.

    pip install . && python benchmarks/learning/native_engine.py
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import classic_control_suite
from classic_control import ROOT, Campaign, Leg, System, main
from omegaconf import OmegaConf

SUITE = classic_control_suite.CAMPAIGN
TORCH, NATIVE = System("torch"), System("native", options=("algo.backend=native",))

# The returns that count as solved for these algorithms and budgets: Gymnasium's threshold of CartPole-v1
# (DQN's mean of ten seeds is below it with either engine), and the thresholds of the learning tests for the
# others.
SOLVED = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "Pendulum-v1": -300.0}
ENGINE_LEGS = ("PPO_CartPole-v1", "A2C_CartPole-v1", "DQN_CartPole-v1", "PPO_Acrobot-v1",
          "SAC_Pendulum-v1", "TD3_Pendulum-v1")  # fmt: skip
HYBRID_LEGS = ("PPO_CartPole-v1", "PPO_Pendulum-v1")


@dataclass(frozen=True)
class EngineCampaign(Campaign):
    """A campaign whose torch runs are in the suite."""

    def path(self, leg: Leg, system: str, seed: int) -> Path:
        """Return the path of a run's result."""
        if system != TORCH.name:
            return super().path(leg, system, seed)
        (same,) = (
            suite_leg for suite_leg in SUITE.legs if (suite_leg.algo, suite_leg.env) == (leg.algo, leg.env)
        )
        return SUITE.path(same, "rlox", seed)


def hybrid(env: str) -> System:
    """Return hybrid PPO with PPO's preset, because it has no preset of its own."""
    preset: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/tuned/ppo" / f"{env}.yaml"))
    settings = {
        group: settings_of_group
        for group, settings_of_group in preset.items()
        if isinstance(settings_of_group, dict)
    }
    return System("hybrid", algo="hybrid_ppo", settings=settings, options=("algo.backend=cpu",))


def legs() -> tuple[Leg, ...]:
    """Return each leg with its two systems, torch first."""
    suite = {leg.name: leg for leg in SUITE.legs}
    engines = [
        replace(suite[name], systems=(TORCH, NATIVE), solved=SOLVED[suite[name].env]) for name in ENGINE_LEGS
    ]
    hybrids = [
        replace(
            leg,
            label=f"hybrid_{leg.name}",
            task=f"hybrid {leg.task}",
            systems=(TORCH, hybrid(leg.env)),
            solved=SOLVED[leg.env],
        )
        for leg in map(suite.__getitem__, HYBRID_LEGS)
    ]
    return *engines, *hybrids


CAMPAIGN = EngineCampaign("native_engine", "", legs())

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)
