"""The seeds that the environments of a run are reset with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rlox._core import stream_seed
from rlox.configs.env import KEYED, LEGACY
from rlox.errors import ConfigError

__all__ = ["KEYED", "SEED_LIMIT", "Seeding", "seeded_reset"]

SEED_LIMIT = 1 << 31  # NumPy's RandomState and engines in C++ take seeds below it


@dataclass
class Seeding:
    """The seeds of the `n_envs` copies of a run, each time that one is reset with a seed.

    All copies start together when training begins, after a step that failed, and when a run resumes whose
    environments cannot be saved. One copy starts alone where its process replaced it after a failure.

    Rules:

    - `keyed`: copy i has (b + (k * n_envs + i) * a) mod 2^31 at its start number k, with b and an odd a of
      the run's stream. So all starts of a run differ, and neighbouring runs share none but by chance.
    - `offset`: seed + i at the first start, as Stable-Baselines3 has it; `keyed` afterwards. `ConfigError`
      there where a copy's is not below 2^31, as not every environment would be given what was asked for.
    - `long`, of runs that began before there were rules: seed + i, then keys of 63 bits.
    """

    seed: int
    n_envs: int
    rule: str = KEYED

    def start_seed(self, i: int, starts: int, failures: int = 0) -> int:
        """Of copy i where all start, after `starts` of all and `failures` of its own."""
        if starts == 0 and self.rule != KEYED:
            return self._first_seed() + i
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"restart-{starts}", i)
        return self._keyed(i, starts + failures)

    def restart_seed(self, i: int, starts: int, failures: int) -> int:
        """Of copy i where it starts alone after its failure number `failures`, and `starts` of all."""
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"begun-anew-{failures}", i)
        return self._keyed(i, starts - 1 + failures)

    def engine_seed(self, starts: int) -> int:
        """Of an engine that gives copy i this number plus i, below 2^31, after `starts` of it."""
        if starts == 0 and self.rule != KEYED:
            return self._first_seed() % SEED_LIMIT
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"restart-{starts}", 0) % SEED_LIMIT
        return (self._stream_value(0) + starts * self.n_envs) % (SEED_LIMIT - self.n_envs)

    def state(self) -> dict[str, Any]:
        """The rule, which a resumed run keeps; checkpoints from before there were rules have none."""
        return {} if self.rule == LEGACY else {"seeding": self.rule}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the rule of a state that has what `state()` gave among others."""
        self.rule = str(state.get("seeding", LEGACY))

    def _first_seed(self) -> int:
        """The seed of copy 0 at the first start, where copy i has the one i above it."""
        last_seed = self.seed + self.n_envs - 1
        if self.rule != LEGACY and last_seed >= SEED_LIMIT:
            raise ConfigError(
                f"env.seeding={self.rule} with seed={self.seed}: the last of {self.n_envs} environments "
                f"would be reset with {last_seed}, expected at most {SEED_LIMIT - 1}; take a smaller seed, "
                "or env.seeding=keyed"
            )
        return self.seed

    def _keyed(self, i: int, start: int) -> int:
        step = self._stream_value(1) | 1  # odd: no number comes twice before all 2^31 did
        return (self._stream_value(0) + (start * self.n_envs + i) * step) % SEED_LIMIT

    def _stream_value(self, number: int) -> int:
        return stream_seed(self.seed, "environment-starts", number) % SEED_LIMIT


def seeded_reset(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """What `env.reset(seed=seed)` returns; of a seed that is too long for the environment, its last 31 bits.

    Runs that began before seeds had 31 bits go on with longer ones, which not every environment takes.
    """
    try:
        return env.reset(seed=seed)
    except Exception:
        if seed is None or seed < SEED_LIMIT:
            raise
    return env.reset(seed=seed % SEED_LIMIT)
