"""One spec per registered algorithm, with the facts that the contract tests need.

`tests/contract/specs/<name>.py` has `SPEC`. A spec is enough to have a new algorithm tested;
`test_algorithms.py` reports algorithms without a spec.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlox.configs import ALGO_CONFIGS, RunConfig, make_run
from rlox.runs.algorithm import Algorithm
from rlox_cli.shell.help import value_text

Options = Mapping[str, Any]
# Arguments of a façade that are keys of a replay buffer.
REPLAY = {"buffer_size": "capacity", "beta": "beta"}


def observed(algorithm: Any, seed: int = 0) -> Any:
    """Sample an observation for the algorithm's `predict`."""
    space = algorithm.components.actor.observations.space
    space.seed(seed)
    return space.sample()


@dataclass(frozen=True)
class AlgorithmSpec:
    """A small run of an algorithm, in several variants."""

    facade: type[Algorithm]
    small: Options  # arguments of every case
    cases: Mapping[str, Options]  # changes of each case
    total: int  # length of a run of several batches, in the algorithm's unit
    # Arguments that keep schedules constant, so that a continued half run equals the whole run.
    steady: Options = field(default_factory=dict)
    # Sizes for the test that changes every number of the state, one by one.
    tiny: Options = field(default_factory=dict)
    # The cases of that test, with the steps before the change.
    leaf_cases: Mapping[str, int] = field(
        default_factory=lambda: {"discrete normalised": 180, "box normalised": 540}
    )
    leaf_more: int = 480  # steps after the change: enough for every running episode to end
    # Arguments that learn the probes of helpers/probes.py in `probe_total`; empty: no environment is stepped.
    probe: Options = field(default_factory=dict)
    probe_total: int = 4_000
    # Makes an input of `predict`.
    seen: Callable[[Any, int], Any] = observed
    value: Callable[[Any, Tensor], Tensor] = lambda policy, obs: policy.get_value(obs)
    action: Callable[[Any, Any], Any] = lambda algorithm, obs: algorithm.predict(obs)
    vectors: bool = True  # whether the algorithm takes Box actions
    choices: bool = True  # whether it takes Discrete actions
    factored: bool = False  # whether it takes actions of several parts with choices
    # Parts of the state whose change has no effect on a continuation, each with the reason.
    without_effect: Mapping[str, str] = field(default_factory=dict)

    def make(self, case: str, **options: Any) -> Any:
        """Make the façade of a case."""
        facade: Any = self.facade
        return facade(**{**self.small, **self.cases[case], **options})

    def tree(self, case: str, **options: Any) -> dict[str, Any]:
        """Return the same run as plain data."""
        given = {**self.small, **self.cases[case], **options}
        env = {"id": given.pop("env_id", "text"), "n_envs": given.pop("n_envs", 1)}
        others = ("normalize_obs", "normalize_reward", "action_mask")
        env |= {k: given.pop(k) for k in others if k in given}
        tree = {"seed": given.pop("seed"), "env": env, "total_steps": self.total}
        tree |= {key: given.pop(key) for key in ("task", "model") if key in given}
        if "dataset" in given:
            tree["buffer"] = {"name": "offline", "path": given.pop("dataset")}
        if "buffer_size" in given:
            kept = {key: given.pop(name) for name, key in REPLAY.items() if name in given}
            tree["buffer"] = {"name": "auto", **kept}
        return {**tree, "algo": {"name": self.name, **given}}

    def config(self, case: str) -> RunConfig:
        """Return the same run as a configuration."""
        return make_run(self.tree(case))

    def overrides(self, case: str, **options: Any) -> list[str]:
        """Return the same run as a command line."""
        tree = self.tree(case, **options)
        flat = {"seed": tree["seed"], "total_steps": self.total}
        flat |= {key: tree[key] for key in ("task", "model") if key in tree}
        for group in ("algo", "env", "buffer"):
            rest = {k: v for k, v in tree.get(group, {}).items() if k not in ("name", "id")}
            flat |= {f"{group}.{key}": value for key, value in rest.items()}
        named = [f"algo={self.name}", f"env={tree['env']['id']}", "tuned=null"]
        return named + [f"{key}={value_text(value)}" for key, value in flat.items()]

    @property
    def native_only(self) -> bool:
        """Whether the algorithm runs only on native environments and the CPU."""
        return ALGO_CONFIGS[self.name].is_native_only

    @property
    def name(self) -> str:
        """The registered name."""
        return self.facade.name


class TEXT:
    """Settings that the specs of text algorithms share."""

    small: ClassVar[Options] = {"seed": 2, "batch_size": 4, "learning_rate": 1e-3}
    rest: ClassVar[dict[str, Any]] = {
        "seen": lambda _, seed=0: [torch.tensor([3, 4, 2 + seed])],
        "action": lambda algorithm, prompts: algorithm.predict(prompts)[0],
        "steady": {"anneal_lr": False},
        "leaf_cases": {"copy": 8},
        "leaf_more": 8,
        "vectors": False,
        "choices": False,
    }


SPECS: dict[str, AlgorithmSpec] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").SPEC
    for module in pkgutil.iter_modules(__path__)
}
LEAF_CASES = [(name, case) for name, spec in SPECS.items() for case in spec.leaf_cases]
CASES = [(name, case) for name, spec in SPECS.items() for case in spec.cases]
