"""Arguments of `rlox bench`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlox.configs import make
from rlox.configs.params import param
from rlox.errors import ConfigError

PASSES = "processes one after another, each of which measures every case"
ROUNDS = "rounds in a pass; in each, the compared libraries take turns"
SAMPLE = "shortest time of a sample, in milliseconds; the timed work is repeated for that long"


@dataclass(frozen=True)
class SuiteConfig:
    """Each kind of work once, in about a minute, compared with packages that come with rlox."""

    name: str = param("ci", "the suite", choices=("ci",))
    passes: int = param(9, PASSES, within="[1, 1000]")
    rounds: int = param(8, ROUNDS, within="[2, 1000]")
    sample_ms: float = param(3.0, SAMPLE, within="(0, 60000]")


@dataclass(frozen=True)
class PrimitivesConfig(SuiteConfig):
    """Advantages, buffers and language-model arithmetic, compared with every peer."""

    name: str = param("primitives", "the suite", choices=("primitives",))
    passes: int = param(3, PASSES, within="[1, 1000]")


@dataclass(frozen=True)
class RolloutConfig(SuiteConfig):
    """Environment steps and whole rollouts, compared with every peer."""

    name: str = param("rollout", "the suite", choices=("rollout",))
    passes: int = param(3, PASSES, within="[1, 1000]")


@dataclass(frozen=True)
class TrainingConfig(SuiteConfig):
    """Whole training runs, compared with Stable-Baselines3; one run per round."""

    name: str = param("training", "the suite", choices=("training",))
    passes: int = param(3, PASSES, within="[1, 1000]")
    rounds: int = param(2, ROUNDS, within="[2, 1000]")
    sample_ms: float = param(300.0, SAMPLE, within="(0, 60000]")


SUITES: Mapping[str, type[SuiteConfig]] = {
    "ci": SuiteConfig,
    "primitives": PrimitivesConfig,
    "rollout": RolloutConfig,
    "training": TrainingConfig,
}


@dataclass(frozen=True)
class BenchConfig:
    """Configuration of one `rlox bench`."""

    suite: SuiteConfig = param(doc="which cases", default_factory=SuiteConfig)
    baseline: str | None = param(
        None, "an earlier bench.json; cases that became slower are named, with exit code 1", verbatim=True
    )
    out: str = param("bench.json", "the file with everything measured", verbatim=True)
    summary: str | None = param(
        None, "a file to which the table is appended, e.g. $GITHUB_STEP_SUMMARY", verbatim=True
    )
    only: str | None = param(None, "only the cases that have this text in their name", verbatim=True)
    tolerance: float = param(
        0.15, "the smallest relative increase in time that counts; noise raises it", within="(0, 10]"
    )
    instructions: bool = param(True, "count instructions too, where valgrind is installed")
    cases: bool = param(False, "name the cases of the suite and measure none")


def bench_config(data: Mapping[str, Any]) -> BenchConfig:
    """Check plain data and return the configuration."""
    rest = {key: value for key, value in data.items() if key != "suite"}
    suite = data["suite"]
    name = suite.get("name") if isinstance(suite, Mapping) else suite
    if not isinstance(name, str) or name not in SUITES:
        raise ConfigError(f"suite.name={name}: expected one of {', '.join(SUITES)}")
    return replace(make(BenchConfig, rest), suite=make(SUITES[name], suite, "suite"))
