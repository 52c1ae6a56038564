"""Tests the guarantees of every registered algorithm: seeds, resuming, the command line and the façade."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.oracles import numeric_leaves

from rlox.algorithms import (
    ALGORITHMS,
    DPO,
    SFT,
    DecisionTransformer,
    HybridPPO,
    RecurrentPPO,
)
from rlox.algorithms.assembly.offline import OfflineAlgorithm
from rlox.algorithms.text.facade import GenerationAlgorithm, TextAlgorithm
from rlox.build import build
from rlox.configs import ALGO_CONFIGS
from rlox.errors import ConfigError, RloxError, UnsupportedSpaceError
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import Checkpoint
from rlox.sources.store import InMemoryStore
from rlox.types import Clock
from rlox_cli.main import main

from .specs import CASES, LEAF_CASES, SPECS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "algorithms.md"


def test_specs_and_configurations_match_the_registered_algorithms() -> None:
    assert set(SPECS) == set(ALGORITHMS) == set(ALGO_CONFIGS)
    assert all(spec.facade is ALGORITHMS[name] for name, spec in SPECS.items())
    assert {name: facade.name for name, facade in ALGORITHMS.items()} == {n: n for n in ALGORITHMS}


def test_configurations_and_the_page_list_the_same_action_kinds() -> None:
    said = {name: kind.action_kinds for name, kind in ALGO_CONFIGS.items()}
    kinds = {n: {"Discrete": s.choices, "Box": s.vectors, "factored": s.factored} for n, s in SPECS.items()}
    assert said == {n: tuple(kind for kind in of if of[kind]) for n, of in kinds.items()}
    rows = re.findall(r"^\| (`.*`) \|.*\| ([^|]*) \|$", PAGE.read_text("utf-8").split("\n\n")[2], re.M)
    shown = {name: cell for names, cell in rows for name in re.findall(r"`(\w+)`", names)}
    words = {n: tuple(kind for kind in kinds[n] if kind in cell) for n, cell in shown.items()}
    assert {n: words[n] for n in sorted(words)} == {n: said[n] for n in sorted(said)}


@pytest.mark.parametrize("name", [n for n, s in SPECS.items() if s.choices != s.vectors])
def test_an_algorithm_refuses_the_actions_that_it_does_not_take(name: str) -> None:
    env = "Pendulum-v1" if SPECS[name].choices else "CartPole-v1"
    offline = ALGO_CONFIGS[name].unit == "updates"
    facade: Any = ALGORITHMS[name]
    with pytest.raises(
        UnsupportedSpaceError, match=rf"^{name} needs .*; use algo={'bc' if offline else 'ppo, '}"
    ):
        facade(env_id=env)


def test_algorithm_classes_define_only_what_differs() -> None:
    more_of: dict[Any, set[str]] = {
        RecurrentPPO: {"predict"},
        HybridPPO: {"timing_summary"},
        DecisionTransformer: {"predict", "ask"},
        SFT: {"train_step", "loss"},
        DPO: {"train_step", "compute_loss", "reference_log_probs"},
    }
    families = {
        OfflineAlgorithm,
        TextAlgorithm,
        GenerationAlgorithm,
    }  # text algorithms: `predict` takes prompts
    for facade in ALGORITHMS.values():
        own = {name for name in vars(facade) if not name.startswith("__")} - {"_abc_impl"}
        assert len(facade.__bases__) == 1
        assert facade.__base__ in {Algorithm, *families}
        # `predict` of a recurrent policy takes a state and returns the next one
        more = more_of.get(facade, set())
        assert own <= {"name", "make", "collector", "positional", "object_arguments"} | more
        assert "__init__" not in vars(facade)


def outcome(algorithm: Any, total: int, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Train and return the result of a run: weights, optimizer, metrics rows, episodes, clock.

    With `beside`, training stops where its history differs from that other result.
    """
    history: list[str] = []

    def watch(clock: Any, progress: Any, update: Any) -> None:
        seen = (clock, progress.episodes, dict(update.metrics), algorithm.summary())
        history.append(repr((seen, algorithm.recent.state())))
        if beside is not None and history[-1:] != beside["history"][len(history) - 1 : len(history)]:
            algorithm.stop("it is another one")

    algorithm.fit(total, hooks=(watch,))
    learned = algorithm.learner.state()
    return {
        "history": history,
        "learned": flat(learned),
        "state": flat(algorithm.source.save(InMemoryStore())),
    }


def flat(tree: Any) -> list[Any]:
    leaves = []
    for path in numeric_leaves(tree):
        node = tree
        for key in path:
            node = node[key]
        leaves.append((path, np.asarray(node).tobytes()))
    return leaves


def weights(algorithm: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@pytest.mark.parametrize(("name", "case"), CASES)
def test_runs_repeat_and_resume_bit_for_bit_from_disk_and_memory(
    name: str, case: str, tmp_path: Path
) -> None:
    """The comparisons share two halves of one run."""
    spec = SPECS[name]
    original = spec.make(case)
    whole = outcome(original, spec.total)
    original.save(tmp_path / "saved")
    config, clock = original.config, original.clock
    saved = original.checkpoint()
    kept = copy.deepcopy(saved)
    longer = outcome(original, 2 * spec.total)

    built = build(spec.config(case))
    assert type(built) is type(original)
    assert outcome(built, spec.total) == whole, "the seed gives other bytes by a configuration"
    other = outcome(spec.make(case, seed=original.config.seed + 1), spec.total)
    assert other["learned"] != whole["learned"], "another seed gives the same weights"

    again = spec.make(case)
    again.restore(saved)
    assert outcome(again, 2 * spec.total) == longer, "the run from memory differs"
    for part in ("weights", "optimizer", "state"):
        now, then = flat(getattr(saved, part)), flat(getattr(kept, part))
        assert now == then, f"training, or a run from it, changed the {part} of a checkpoint in memory"

    loaded = spec.facade.from_checkpoint(tmp_path / "saved")
    assert (loaded.config, loaded.clock) == (config, clock)
    assert outcome(loaded, 2 * spec.total) == longer, "the run from disk differs"

    stopped = spec.make(case)

    def stop(clock: Clock, *_: object) -> None:
        if clock.now >= 3 * spec.total // 8:
            stopped.stop("interrupted")

    stopped.fit(spec.total, hooks=(stop,))  # with the schedules of the whole run
    stopped.save(tmp_path / "stopped")
    result = outcome(spec.facade.from_checkpoint(tmp_path / "stopped"), spec.total)
    for part in ("learned", "state"):
        assert result[part] == whole[part], f"{part} of a run that was stopped differs"


@pytest.mark.parametrize("name", SPECS)
def test_training_neither_reads_nor_moves_the_global_generators(name: str) -> None:
    spec, results = SPECS[name], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
        algorithm = spec.make(next(iter(spec.cases)))
        algorithm.train(spec.total)
        algorithm.evaluate(2)
        algorithm.predict(spec.seen(algorithm), deterministic=False)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
        results.append(weights(algorithm))
    assert torch.equal(*results)


@pytest.mark.parametrize("name", SPECS)
def test_a_checkpoint_of_another_algorithm_is_refused_by_name(name: str, tmp_path: Path) -> None:
    SPECS[name].make(next(iter(SPECS[name].cases))).save(tmp_path / "saved")
    for other, spec in SPECS.items():
        if other != name:
            with pytest.raises(ConfigError, match=f"algo={name}, not of {spec.facade.__name__}"):
                spec.facade.from_checkpoint(tmp_path / "saved")


@pytest.mark.parametrize("name", SPECS)
def test_loading_does_not_depend_on_the_global_generators(name: str, tmp_path: Path) -> None:
    spec, results = SPECS[name], []
    original = spec.make(next(iter(spec.cases)))
    original.train(spec.total)
    original.save(tmp_path / "saved")
    for seed in (1, 2):
        torch.manual_seed(seed)
        loaded = spec.facade.from_checkpoint(tmp_path / "saved")
        results.append(outcome(loaded, 2 * spec.total))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", SPECS)
def test_a_resumed_command_line_run_equals_the_facade_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = SPECS[name]
    case = next(iter(spec.cases))
    given = [*spec.overrides(case, **spec.steady), "eval.episodes=2", "hydra.run.dir=run"]
    half = [f"total_steps={spec.total // 2}" if g.startswith("total_steps") else g for g in given]
    assert main(["train", *half]) == 0
    assert main(["train", "resume=run", f"total_steps={spec.total}"]) == 0
    assert main(["evaluate", "run=run", "episodes=3"]) == 0
    facade, ran = spec.make(case, **spec.steady), spec.facade.from_checkpoint(tmp_path / "run")
    facade.train(spec.total)
    assert torch.equal(weights(facade), weights(ran))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["unit"] == ran.clock.unit
    assert result[result["unit"]] == ran.clock.now == facade.clock.now
    played = json.loads((tmp_path / "run" / "eval" / "last.json").read_text())
    assert tuple(played["episodes"]) == ran.evaluate(3).returns


def perturbed(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return the tree with a small change to the leaf at `path`."""
    changed = copy.deepcopy(tree)
    node = changed
    for key in path[:-1]:
        node = node[key]
    value = node[path[-1]]
    if isinstance(value, bool):
        node[path[-1]] = not value
    elif isinstance(value, (int, float)):
        node[path[-1]] = value + 1
    elif isinstance(value, torch.Tensor):
        node[path[-1]] = value.clone() + 0.5
    elif value.dtype.kind in "iu":
        node[path[-1]] = value + np.asarray(1, value.dtype)
    else:
        node[path[-1]] = value + 0.01
    return changed


PARTS = ("clock", "weights", "optimizer", "state")


def without(result: dict[str, Any], part: str, path: tuple[Any, ...]) -> dict[str, Any]:
    """Return the result without the changed number itself: that the run keeps it is no effect."""
    own = {"learned": (part, *path), "state": path[1:]}
    kept = {key: [leaf for leaf in result[key] if leaf[0] != own[key]] for key in own}
    return {**result, **kept}


@pytest.mark.parametrize(("name", "case"), LEAF_CASES)
def test_every_number_of_the_state_matters_to_the_continuation_or_is_refused(name: str, case: str) -> None:
    spec = SPECS[name]
    algorithm = spec.make(case, **spec.tiny)
    algorithm.train(spec.leaf_cases[case])
    saved = algorithm.checkpoint()
    total = algorithm.clock.now + spec.leaf_more

    def continued(checkpoint: Checkpoint, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
        again = spec.make(case, **spec.tiny)
        again.restore(checkpoint)
        return outcome(again, total, beside)

    expected, silent = continued(saved), []
    leaves = [(part, path) for part in PARTS for path in numeric_leaves(getattr(saved, part))]
    assert len(leaves) > 15
    for part, path in leaves:
        changed = replace(saved, **{part: perturbed(getattr(saved, part), path)})
        where = "/".join(map(str, (part, *path)))
        try:
            found = continued(changed, beside=expected)
            same = without(found, part, path) == without(expected, part, path)
        except RloxError:
            continue
        if same:
            silent.append(f"{case}: {where}")
    excused = [entry for entry in spec.without_effect if entry.startswith(f"{case}: ")]
    assert sorted(silent) == sorted(excused)
