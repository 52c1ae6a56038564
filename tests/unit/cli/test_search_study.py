"""Tests that a search asks its study by position, so a kill at any moment does not change the values."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from rlox.configs import make_run
from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox_cli.runs.identity import result_config
from rlox_cli.search.optimizer import (
    Optimizer,
    best_trial,
    counted_trials,
    open_study,
    require_optuna,
)
from rlox_cli.search.settings import SearchOptions
from rlox_cli.search.sweeper import OptunaSweeper, require_same_search

SPACE = {"x": FloatDistribution(0, 1), "y": CategoricalDistribution(("a", "b"))}
OPTIONS = SearchOptions(n_trials=6, n_startup_trials=3, seed=5)


def optimizer(folder: Path, options: SearchOptions = OPTIONS) -> Optimizer:
    """Return the optimizer as a new process opens it."""
    folder.mkdir(exist_ok=True)
    return Optimizer(open_study(options, folder, create=True), options, folder)


def value(params: dict[str, Any]) -> float:
    return float(params["x"]) + (params["y"] == "a")


def go_on(folder: Path, jobs: int = 1, batches: int = 99) -> None:
    """Search to the end, or for at most `batches` batches."""
    mine = optimizer(folder)
    mine.fail_abandoned()
    while batches and (positions := mine.next_positions(jobs)):
        batches -= 1
        asked = [mine.ask(p, SPACE, constant_liar=jobs > 1) for p in positions]
        for trial in asked:
            state = "PRUNED" if trial.params["x"] < 0.3 else "COMPLETE"
            told = value(trial.params) if state == "COMPLETE" else None
            mine.tell(trial, state, told, [(10, trial.params["x"])])


def found(folder: Path) -> list[tuple[Any, ...]]:
    study = open_study(OPTIONS, folder)
    return [(t.state, t.params, t.value, t.intermediate_values) for t in counted_trials(study)]


@pytest.mark.parametrize("jobs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_study_killed_while_asking_asks_the_same_values_again(tmp_path: Path, jobs: int) -> None:
    go_on(tmp_path / "whole", jobs)
    killed = tmp_path / "killed"
    go_on(killed, jobs, batches=1)
    mine = optimizer(killed)
    asked = [
        mine.ask(p, SPACE, constant_liar=jobs > 1) for p in mine.next_positions(jobs)
    ]  # the process is killed before it tells the results
    go_on(killed, jobs)
    assert found(killed) == found(tmp_path / "whole")
    assert len(found(killed)) == OPTIONS.n_trials
    again = [t.user_attrs["again_of"] for t in mine.study.get_trials() if "again_of" in t.user_attrs]
    assert again == [trial.number for trial in asked]


def test_a_study_that_was_killed_between_telling_two_trials_keeps_its_batches(
    tmp_path: Path,
) -> None:
    go_on(tmp_path / "whole", 3)
    killed = tmp_path / "killed"
    mine = optimizer(killed)
    first, *_ = [mine.ask(p, SPACE, constant_liar=True) for p in mine.next_positions(3)]
    pruned = first.params["x"] < 0.3
    told = None if pruned else value(first.params)
    mine.tell(first, "PRUNED" if pruned else "COMPLETE", told, [(10, first.params["x"])])
    go_on(killed, 3)
    assert found(killed) == found(tmp_path / "whole")


def test_a_study_that_was_killed_before_a_value_was_chosen_loses_no_position(
    tmp_path: Path,
) -> None:
    go_on(tmp_path / "whole")
    killed = tmp_path / "killed"
    go_on(killed, batches=2)
    mine = optimizer(killed)
    mine.study.enqueue_trial({}, user_attrs={"position": 2, "folder": mine.folder})  # killed here,
    go_on(killed, batches=1)
    mine.study.enqueue_trial({}, user_attrs={"position": 3, "folder": mine.folder})
    mine.study.ask()  # and here
    go_on(killed)
    assert found(killed) == found(tmp_path / "whole")


def test_trials_of_a_killed_runner_do_not_count(tmp_path: Path) -> None:
    mine = optimizer(tmp_path / "s")
    trial = mine.ask(0, SPACE, constant_liar=False)
    assert mine.fail_abandoned() == 1
    (left,) = mine.study.get_trials()
    assert left.state == optuna.trial.TrialState.FAIL and left.user_attrs["killed"]
    assert counted_trials(mine.study) == [] and mine.next_positions(1) == [0]
    assert mine.ask(0, SPACE, constant_liar=False).params == trial.params


def test_a_failed_trial_advances_the_search_to_the_next_position(tmp_path: Path) -> None:
    mine = optimizer(tmp_path / "s")
    mine.tell(mine.ask(0, SPACE, constant_liar=False), "FAIL", None, [])
    assert mine.next_positions(1) == [1]


def test_a_trial_that_somebody_put_into_the_study_is_asked_first(tmp_path: Path) -> None:
    mine = optimizer(tmp_path / "s")
    mine.study.enqueue_trial({"x": 0.5, "y": "b"})
    assert mine.ask(0, SPACE, constant_liar=False).params == {"x": 0.5, "y": "b"}
    mine.study.tell(0, 1.0)
    assert [t.user_attrs["position"] for t in counted_trials(mine.study)] == [0]


def test_batches_begin_at_multiples_of_their_size(tmp_path: Path) -> None:
    mine = optimizer(tmp_path / "s")
    assert mine.next_positions(3) == [0, 1, 2]
    mine.tell(mine.ask(0, SPACE, constant_liar=True), "COMPLETE", 1.0, [])
    assert mine.next_positions(3) == [1, 2]


def test_the_study_of_a_folder_that_was_renamed_goes_on(tmp_path: Path) -> None:
    go_on(tmp_path / "s", batches=2)
    (tmp_path / "s").rename(tmp_path / "t")
    go_on(tmp_path / "t")
    assert len(found(tmp_path / "t")) == OPTIONS.n_trials
    assert optuna.get_all_study_names(f"sqlite:///{tmp_path}/t/study.db") == ["s"]


def test_a_shared_storage_names_a_study_by_its_folder_or_study_name(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/all.db"
    for name, folder in ((None, "a"), (None, "b"), ("mine", "c")):
        optimizer(tmp_path / folder, SearchOptions(storage=url, study_name=name))
    assert sorted(optuna.get_all_study_names(url)) == ["a", "b", "mine"]


def test_two_searches_at_once_on_one_study_are_refused(tmp_path: Path) -> None:
    options = SearchOptions(storage=f"sqlite:///{tmp_path}/all.db", study_name="s")
    optimizer(tmp_path / "a", options).ask(0, SPACE, constant_liar=False)
    with pytest.raises(ConfigError, match=r"runs in .*/a: one search at a time"):
        optimizer(tmp_path / "b", options).fail_abandoned()


@pytest.mark.parametrize(("there", "said"), [("2.10.1", "2.10.1 is installed"), (None, "needs the")])
def test_an_optuna_that_is_missing_or_too_old_is_told_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, there: str | None, said: str
) -> None:
    def version(name: str) -> str:
        if there is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return there

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(MissingExtraError, match=said) as raised:
        require_optuna()
    assert str(raised.value).endswith(install_command("optuna"))


@pytest.mark.parametrize(
    ("env", "space", "rule"),
    [
        ({}, {}, "relative"),
        ({"normalize_obs": True}, {}, "sb3"),
        ({}, {"env.normalize_obs": "true or false"}, "sb3"),
    ],
)
def test_a_study_without_rule_keys_continues_only_with_its_old_rule(
    tmp_path: Path, env: dict[str, Any], space: dict[str, str], rule: str
) -> None:
    base = result_config(make_run({"env": env}))
    del base["env"]["seeding"], base["env"]["normalize_rule"]
    saved = {"rlox": {"space": space, "seeds": [0], "base": base}}
    study: Any = SimpleNamespace(study_name="old", user_attrs=saved)
    dimensions = [SimpleNamespace(name=n, signature=lambda d=d: d) for n, d in space.items()]
    for asked in ("relative", "sb3"):
        config = make_run({"env": {**env, "normalize_rule": asked}})
        searched = SimpleNamespace(dimensions=dimensions, seeds=[0])
        plan: Any = SimpleNamespace(folder=tmp_path, base=config, space=searched)
        if asked == rule:
            require_same_search(study, plan)
        else:
            with pytest.raises(ConfigError, match=r"another search: env\.normalize_rule differs"):
                require_same_search(study, plan)


def test_of_equal_scores_the_first_trial_is_the_best_and_is_named(tmp_path: Path) -> None:
    search = optimizer(tmp_path)
    for position, score in enumerate((1.0, 2.0, 2.0, 0.5)):
        search.tell(search.ask(position, SPACE, constant_liar=False), "COMPLETE", score, ())
    sweeper = OptunaSweeper()
    sweeper.study, sweeper.plan = search.study, SimpleNamespace(options=OPTIONS)  # type: ignore[assignment]
    best = best_trial(counted_trials(search.study))
    assert best is not None and best.user_attrs["position"] == 1
    assert [sweeper._closing_line(position) for position in (1, 2, 3)] == [
        "trial 2 of 6: score 2.000 (the best so far)",
        "trial 3 of 6: score 2.000 (best 2.000 of trial 2)",
        "trial 4 of 6: score 0.500 (best 2.000 of trial 2)",
    ]
