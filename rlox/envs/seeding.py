"""The seeds with which the environments of a run are reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rlox._core import stream_seed
from rlox.configs.env import KEYED, LEGACY
from rlox.errors import ConfigError

__all__ = ["KEYED", "SEED_LIMIT", "Seeding", "seeded_reset"]

SEED_LIMIT = 1 << 31  # NumPy's RandomState and C++ engines need seeds below this


@dataclass
class Seeding:
    """The seeds of the `n_envs` copies of an environment, for each reset with a seed.

    All copies start together when training begins, after a step that raised an error, and on resume if the
    environments cannot be saved. One copy starts alone when it was made again after a failure.

    Rules:

    - `keyed`: at its start number k, from 0, copy i gets the seed (b + (k * n_envs + i) * a) mod 2^31. The
      numbers b and a (a is odd) are drawn from the run's stream. So all seeds of a run differ, and runs with
      neighbouring seeds have common seeds only by chance.
    - `offset`: seed + i at the first start, as in Stable-Baselines3; `keyed` afterwards. `ConfigError` if a
      copy's seed is not below 2^31, because some environments would not receive the requested seed.
    - `long`, in runs from before there were rules: seed + i at the first start, 63-bit keys afterwards.
    """

    seed: int
    n_envs: int
    rule: str = KEYED

    def start_seed(self, i: int, n_starts: int, n_failures: int = 0) -> int:
        """Return the seed of copy i when all copies start together.

        `n_starts` such starts and `n_failures` failures of copy i came before.
        """
        if n_starts == 0 and self.rule != KEYED:
            return self._first_seed() + i
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"restart-{n_starts}", i)
        return self._keyed_seed(i, n_starts + n_failures)

    def restart_seed(self, i: int, n_starts: int, n_failures: int) -> int:
        """Return the seed of copy i when it starts alone, after it has failed `n_failures` times.

        `n_starts` counts the times that all copies started together.
        """
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"begun-anew-{n_failures}", i)
        return self._keyed_seed(i, n_starts - 1 + n_failures)

    def engine_seed(self, n_starts: int) -> int:
        """Return an engine's seed after `n_starts` starts; the engine adds i to it for copy i."""
        if n_starts == 0 and self.rule != KEYED:
            return self._first_seed() % SEED_LIMIT
        if self.rule == LEGACY:
            return stream_seed(self.seed, f"restart-{n_starts}", 0) % SEED_LIMIT
        return (self._stream_value(0) + n_starts * self.n_envs) % (SEED_LIMIT - self.n_envs)

    def state(self) -> dict[str, Any]:
        """Return the rule, which a resumed run keeps; checkpoints from before there were rules have none."""
        return {} if self.rule == LEGACY else {"seeding": self.rule}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the rule in a state that contains the entries of `state()`."""
        self.rule = str(state.get("seeding", LEGACY))

    def _first_seed(self) -> int:
        """Return the seed of copy 0 at the first start; copy i gets this seed plus i."""
        last_seed = self.seed + self.n_envs - 1
        if self.rule != LEGACY and last_seed >= SEED_LIMIT:
            raise ConfigError(
                f"env.seeding={self.rule} with seed={self.seed}: the last of {self.n_envs} environments "
                f"would be reset with {last_seed}, expected at most {SEED_LIMIT - 1}; take a smaller seed, "
                "or env.seeding=keyed"
            )
        return self.seed

    def _keyed_seed(self, i: int, start: int) -> int:
        stride = self._stream_value(1) | 1  # odd: no number repeats before all 2^31 have occurred
        return (self._stream_value(0) + (start * self.n_envs + i) * stride) % SEED_LIMIT

    def _stream_value(self, number: int) -> int:
        return stream_seed(self.seed, "environment-starts", number) % SEED_LIMIT


def seeded_reset(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """Call `env.reset(seed=seed)`; if it rejects a seed of more than 31 bits, use the last 31 bits.

    Runs from before seeds had 31 bits continue with longer ones, which some environments reject.
    """
    try:
        return env.reset(seed=seed)
    except Exception:
        if seed is None or seed < SEED_LIMIT:
            raise
    return env.reset(seed=seed % SEED_LIMIT)
