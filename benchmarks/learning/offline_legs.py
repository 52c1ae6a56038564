"""The legs of offline_control.py: datasets of a task, and the algorithms that learn from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "offline_control"
NATIVE_OVERRIDE = "algo.backend=native"

# Overrides by name of the algorithm; the rewards of IQL are scaled as its authors do.
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "BC": ("algo=bc", NATIVE_OVERRIDE),
    "TD3+BC": ("algo=td3_bc", NATIVE_OVERRIDE),
    "IQL": ("algo=iql", "algo.scale_rewards=returns", NATIVE_OVERRIDE),
    "CQL": ("algo=cql",),
    "DT": ("algo=decision_transformer", "algo.warmup_updates=1000"),
    "TD3": ("algo=td3_bc", "algo.alpha=1e9", NATIVE_OVERRIDE),
}
PEER_ALGORITHMS = ("BC", "TD3+BC", "IQL", "CQL", "DT")  # algorithms that d3rlpy also has


@dataclass(frozen=True)
class Leg:
    """Datasets of a task, and the algorithms that learn from them.

    Attributes
    ----------
    env, steps, behaviour : the task, and how SAC learns it
    quality : of the dataset
    transitions : in a dataset that is played; None: the dataset is the SAC run's buffer
    updates : of each algorithm that is compared
    seeds : 0, 1, ... `seeds` - 1
    width : of the networks' two layers, and of a transformer
    dataset_seed : the seed of the dataset that all learn from; None: each seed has its own dataset
    options : further overrides, by algorithm
    """

    env: str
    steps: int
    behaviour: tuple[str, ...]
    quality: str
    transitions: int | None
    updates: dict[str, int]
    seeds: int
    width: int
    dataset_seed: int | None = None
    options: dict[str, tuple[str, ...]] | None = None

    @property
    def name(self) -> str:
        """The name in file names."""
        return f"{self.env}_{self.quality}"

    def dataset_seed_for(self, seed: int) -> int:
        """Return the seed of the dataset that `seed` learns from."""
        return seed if self.dataset_seed is None else self.dataset_seed


PENDULUM = {
    "env": "Pendulum-v1", "steps": 10_000, "updates": dict.fromkeys(ALGORITHMS, 10_000), "seeds": 5,
    "behaviour": ("algo.net_arch=[64,64]", NATIVE_OVERRIDE, "checkpoint.every=250"),
    "options": {"DT": ("algo.context_length=10", "algo.learning_rate=1e-3")}, "width": 64,
}  # fmt: skip
LEGS = (
    Leg(**PENDULUM, quality="medium-replay", transitions=None),
    Leg(**PENDULUM, quality="medium", transitions=20_000),
    Leg(
        "Hopper-v5", 200_000,
        (NATIVE_OVERRIDE, "checkpoint.every=10000", "algo.learning_starts=10000"),  # as in rl-zoo3
        "medium-replay", None,
        {"BC": 100_000, "TD3+BC": 100_000, "IQL": 100_000, "CQL": 30_000, "TD3": 100_000},
        seeds=3, width=256, dataset_seed=1,  # SAC with seed 0 still falls after 96,000 steps: 340
    ),
)  # fmt: skip


def result_path(leg: Leg, system: str, seed: int) -> Path:
    """Return the path of a result."""
    return FOLDER / "results" / f"{leg.name}_{system.replace(' ', '-')}_s{seed}.json"
