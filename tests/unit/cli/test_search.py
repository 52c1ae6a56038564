"""Tests of searches: trials, failed and pruned trials, and a search that is continued."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import optuna
import pytest
import yaml
from helpers.cli import TINY, Cli

from rlox.runs import progress
from rlox_cli.runs.run_folder import read_status
from rlox_cli.search.sweeper import _lock_folder

PLACE = "hydra.sweep.dir=place"
SEARCH = (
    "sweep", *TINY, "hydra/sweeper=rlox_optuna", PLACE, "algo.net_arch=[8]", "algo.backend=torch",
    "search.seed=3",  # with this seed a later trial is worse than the median and is pruned
)  # fmt: skip
RATE = "algo.learning_rate=tag(log,interval(1e-4,1e-2))"


def trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    url = f"sqlite:///{folder}/study.db"
    study = optuna.load_study(study_name=optuna.get_all_study_names(url)[0], storage=url)
    return study.get_trials()


def score_of(run: Path) -> float:
    return float(json.loads((run / "result.json").read_text())["score"])


def test_a_trial_averages_its_seeds_and_the_best_command_reproduces_its_scores(
    cli: Cli, tmp_path: Path
) -> None:
    result = cli(*SEARCH, RATE, "algo.gamma=choice(0.9)", "seed=3,4", "search.n_trials=2")
    assert result.code == 0, result.err
    place = tmp_path / "place"
    found = trials(place)
    assert [t.state.name for t in found] == ["COMPLETE", "COMPLETE"]
    for trial in found:
        runs = [place / run for run in trial.user_attrs["runs"]]
        heads = [f"{trial.number + 1}_seed-{seed}_" for seed in (3, 4)]
        assert [run.name[: len(head)] for run, head in zip(runs, heads, strict=True)] == heads
        assert trial.value == sum(map(score_of, runs)) / 2
        assert trial.user_attrs["scores"] == [score_of(run) for run in runs]
        configs = [yaml.safe_load((run / "config.yaml").read_text()) for run in runs]
        assert [config["seed"] for config in configs] == [3, 4]
        assert {c["algo"]["learning_rate"] for c in configs} == {trial.params["algo.learning_rate"]}
    best = yaml.safe_load((place / "best.yaml").read_text())
    assert best["score"] == max(t.value for t in found)
    assert best["values"] == {"algo.learning_rate": ANY, "algo.gamma": 0.9}
    assert best["command"] in result.out and "optuna" not in best["command"]
    again = cli(*shlex.split(best["command"])[1:], "hydra.sweep.dir=again")
    assert again.code == 0, again.err
    assert [score_of(run.parent) for run in sorted(tmp_path.glob("again/*/result.json"))] == best["scores"]


def test_a_failed_trial_reports_its_reason_and_the_search_continues(cli: Cli, tmp_path: Path) -> None:
    more = ("algo.learning_rate=1e-3,1e30", "search.n_trials=4", "search.sampler=random")
    result = cli(*SEARCH, *more)
    assert result.code == 1
    found = trials(tmp_path / "place")
    assert {(t.params["algo.learning_rate"], t.state.name) for t in found} == {
        ("0.001", "COMPLETE"),
        ("1e+30", "FAIL"),
    }
    reasons = [t.user_attrs["reason"] for t in found if t.state.name == "FAIL"]
    assert all(reason.startswith("exit code 3: ") for reason in reasons)
    assert re.search(r"^trial \d of 4: failed: exit code 3: ", result.out, re.MULTILINE)
    again = cli(*SEARCH, *more)
    assert again.code == 1 and len(trials(tmp_path / "place")) == 4  # failed trials count


def test_a_run_that_is_worse_is_pruned_and_not_done(cli: Cli, tmp_path: Path) -> None:
    # The pruner first sees rates of 1e-3. From the second trial on it sees others.
    more = (
        RATE, "eval.every=64", "search.n_startup_trials=1", "search.warmup=0", "search.n_trials=4",
        "checkpoint.every=64",
    )  # fmt: skip
    result = cli(*SEARCH, *more)
    assert result.code == 0, result.err
    place = tmp_path / "place"
    pruned = [t for t in trials(place) if t.state.name == "PRUNED"]
    assert pruned, result.out
    complete = [t for t in trials(place) if t.state.name == "COMPLETE"]
    for trial in pruned:
        (run,) = (place / name for name in trial.user_attrs["runs"])
        assert read_status(run)["status"] == "pruned"
        data = json.loads((run / "result.json").read_text())
        assert (data["status"], data["reason"], data["score"]) == ("pruned", "pruned", None)
        last = trial.last_step
        assert data["env_steps"] == last and last < 256
        others = sorted(t.intermediate_values[last] for t in complete if t.number < trial.number)
        middle = len(others) // 2
        median = (others[middle] + others[~middle]) / 2
        assert max(trial.intermediate_values.values()) < median
    listing = cli("list", "runs", "run_root=place").out
    assert len(re.findall("^pruned ", listing, re.M)) == len(pruned)
    (run,) = (place / name for name in pruned[0].user_attrs["runs"])
    overrides = yaml.safe_load((run / ".hydra" / "overrides.yaml").read_text())
    refused = cli("sweep", *overrides, "seed=0,1", PLACE)
    assert refused.code == 2 and "place is the folder of a search (study.db" in refused.err
    assert not list(place.glob("*.attempt1"))


def test_a_pruned_run_can_be_taken_to_its_end(cli: Cli, tmp_path: Path) -> None:
    more = (RATE, "eval.every=64", "search.n_startup_trials=1", "search.warmup=0")
    assert cli(*SEARCH, *more, "search.n_trials=4").code == 0
    run = next(p.parent for p in tmp_path.glob("place/*/status.json") if "pruned" in p.read_text())
    assert cli("resume", str(run.relative_to(tmp_path))).code == 0
    assert read_status(run)["status"] == "done" and score_of(run) > 0


def test_a_stopped_search_prints_the_command_that_continues_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def interrupt(self: Any, now: Any) -> None:
        nonlocal seen
        seen += now.now == 128
        if seen == 2 and now.now == 128:
            os.kill(os.getpid(), signal.SIGINT)

    more = (RATE, "search.n_trials=3")
    with monkeypatch.context() as patch:
        patch.setattr(progress.LineReporter, "__call__", interrupt)
        stopped = cli(*SEARCH, *more)
    assert stopped.code == 130
    assert "1 of 3 trials: 1 done" in stopped.out
    (line,) = re.findall(r"^to go on: rlox (.*)$", stopped.out, re.MULTILINE)
    states = [(t.state.name, t.user_attrs.get("killed")) for t in trials(tmp_path / "place")]
    assert states == [("COMPLETE", None), ("FAIL", True)]
    again = cli(*shlex.split(line))
    assert again.code == 0, again.err
    assert "resumed at step 128 of 256 (exact)" in again.out
    found = trials(tmp_path / "place")
    assert [t.state.name for t in found] == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert found[1].params == found[2].params and found[2].user_attrs["again_of"] == 1
    assert len(list(tmp_path.glob("place/*/result.json"))) == 3


def test_more_trials_go_on_and_another_search_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert cli(*SEARCH, RATE, "search.n_trials=1").code == 0
    (result,) = tmp_path.glob("place/1_*/result.json")
    text = result.read_text()
    result.write_text("")
    more = cli(*SEARCH, RATE, "search.n_trials=2")
    assert (more.code, "unreadable: 1 run, which the summary names" in more.out) == (1, True)
    assert "result.json is damaged" in (tmp_path / "place" / "summary.csv").read_text()
    result.write_text(text)
    assert cli(*SEARCH, RATE, "search.n_trials=2").code == 0
    assert len(trials(tmp_path / "place")) == 2
    fewer = cli(*SEARCH, RATE, "search.n_trials=1")
    assert "\n2 trials: 2 done (search.n_trials=1 asks for no more)\n" in f"\n{fewer.out}"
    for more, said in (
        ((RATE, "algo.gamma=0.9,0.99"), "algo.gamma differs"),
        ((RATE, "algo.gamma=0.9"), "algo.gamma differs"),
        ((RATE, "seed=1"), "seed"),
        (("algo.learning_rate=interval(1e-4,1e-2)",), "algo.learning_rate differs"),
    ):
        refused = cli(*SEARCH, *more)
        assert refused.code == 2
        assert "is of another search" in refused.err and said in refused.err
    assert len(trials(tmp_path / "place")) == 2


def test_one_process_searches_in_a_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with _lock_folder(tmp_path / "place"):
        refused = cli(*SEARCH, RATE)
    assert refused.code == 2
    assert "is being searched by another process" in refused.err


@pytest.mark.parametrize(
    ("left", "args", "said"),
    [
        (
            ["study.db", "0_a/config.yaml"],
            ("sweep", *TINY, PLACE, "seed=0,1"),
            "place is the folder of a search (study.db, 1 run); a sweep needs one of its own",
        ),
        (
            ["summary.csv", "0_a/config.yaml", "1_b/config.yaml"],
            (*SEARCH, RATE),
            "place is the folder of a sweep (2 runs); a search needs one of its own",
        ),
    ],
)
def test_a_search_and_a_sweep_do_not_share_a_folder(
    cli: Cli, tmp_path: Path, left: list[str], args: tuple[str, ...], said: str
) -> None:
    for name in left:
        (tmp_path / "place" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "place" / name).touch()
    refused = cli(*args)
    assert refused.code == 2
    assert said in refused.err and "hydra.sweep.dir=FOLDER" in refused.err
    there = [p.relative_to(tmp_path / "place").as_posix() for p in tmp_path.glob("place/**/*")]
    assert sorted(set(left)) == sorted(name for name in there if "." in name)


def test_the_same_values_twice_are_trained_once(cli: Cli, tmp_path: Path) -> None:
    result = cli(*SEARCH, "algo.gamma=choice(0.9)", "search.n_trials=3", "search.n_jobs=2")
    assert result.code == 0, result.err
    first, second, third = trials(tmp_path / "place")
    assert first.value == second.value == third.value
    assert len(list(tmp_path.glob("place/*/result.json"))) == 1
