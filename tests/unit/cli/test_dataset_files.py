"""Tests of `rlox dataset` with files of other programs, and of runs with a dataset and no environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium import spaces
from helpers.foreign_datasets import dataset, spaces_metadata

from rlox.algorithms import IQL
from rlox.errors import ConfigError, ShapeError
from rlox.offline import export_dataset
from rlox.sources.dataset_file import DATA_FILE, DOCUMENT_FILE, read_dataset


@pytest.fixture
def made(cli: Any) -> Path:
    assert cli("dataset", "make", "data", "env=Pendulum-v1", "steps=400", "seed=3").code == 0
    return Path("data")


@pytest.mark.parametrize(
    ("to", "more"), [("x.npz", ()), ("x.parquet", ()), ("x.hdf5", ()), ("mini", ("format=minari",))]
)
def test_a_dataset_goes_to_another_format_and_back(
    cli: Any, made: Path, to: str, more: tuple[str, ...]
) -> None:
    digest = read_dataset(made).digest
    there = cli("dataset", "convert", "data", f"to={to}", *more)
    assert there.code == 0
    assert f"digest       {digest}" in there.out
    assert cli("dataset", "convert", "data", f"to={to}", *more).code == 2
    assert cli("dataset", "convert", "data", f"to={to}", *more, "overwrite=true").code == 0
    shown = cli("dataset", "show", to)
    assert "Pendulum-v1, random" in shown.out
    assert f"digest       {digest}" in shown.out
    assert cli("dataset", "check", to).out == f"{to}: nothing found\n"
    assert cli("dataset", "convert", to, "to=back").code == 0
    assert read_dataset(Path("back")).digest == digest


def test_a_dataset_of_observed_choices_goes_to_minari_and_back(cli: Any) -> None:
    assert cli("dataset", "make", "lake", "env=FrozenLake-v1", "steps=30").code == 0
    assert cli("dataset", "convert", "lake", "to=mini", "format=minari").code == 0
    assert cli("dataset", "convert", "mini", "to=back").code == 0
    assert read_dataset(Path("back")).digest == read_dataset(Path("lake")).digest


def test_rlox_dataset_finds_and_corrects_time_limits_marked_as_terminations(cli: Any) -> None:
    n = 600
    with h5py.File("d4rl.hdf5", "w") as file:
        file["observations"] = np.arange(n * 3.0).reshape(n, 3)
        file["actions"] = np.random.default_rng(0).uniform(-2, 2, (n, 1))
        file["rewards"] = np.ones(n)
        file["terminals"] = np.arange(n) % 200 == 199
        file["timeouts"] = np.zeros(n, bool)
    found = cli("dataset", "check", "d4rl.hdf5")
    assert "time_limit" in found.out
    assert cli("dataset", "check", "d4rl.hdf5", "time_limit=200").code == 0
    right = cli("dataset", "convert", "d4rl.hdf5", "to=right", "time_limit=200", "env=Pendulum-v1")
    assert right.code == 0
    assert "0 terminations, 3 time limits" in right.out
    about = read_dataset(Path("right")).about
    assert (about["env"], about["time_limit"]) == ("Pendulum-v1", 200)


WRONG = {
    "no target": (("convert", "data"), "missing key 'to'"),
    "a key of make": (
        ("convert", "data", "to=x", "steps=5"),
        "steps=5 has no effect with what=convert",
    ),
    "a key of convert": (
        ("make", "x", "env=Pendulum-v1", "to=y"),
        "to=y has no effect with policy=random",
    ),
    "nothing": (("check", "nowhere.npz"), "nowhere.npz is not there"),
    "text": (("show", "text"), "none of HDF5, npz and Parquet; pickled data is not read"),
    "a folder": (("show", "empty"), "expected the folder of a dataset"),
    "another kind": (("convert", "data", "to=empty", "format=minari"), "to=empty is there already"),
    "an ending of nothing": (
        ("convert", "data", "to=x.csv"),
        "its suffix is none of .npz, .parquet, .hdf5",
    ),
    "two formats": (
        ("convert", "data", "to=x.npz", "format=d4rl"),
        "the suffix means npz; change either",
    ),
    "itself": (("convert", "data", "to=./data", "overwrite=true"), "to=data is the dataset that is read"),
    "among other files": (("convert", "data", "to=full"), "is a folder with other files (a.txt)"),
    "a folder to overwrite": (
        ("convert", "data", "to=empty", "format=minari", "overwrite=true"),
        "expected the folder of a dataset",
    ),
}


def test_rlox_dataset_overwrites_a_folder_with_leftovers_of_a_killed_process(cli: Any, made: Path) -> None:
    left = made / ".parts-abc"
    left.mkdir()
    (left / DATA_FILE).write_bytes(b"half")
    assert cli("dataset", "convert", "data", "to=x.npz").code == 0
    assert cli("dataset", "convert", "x.npz", "to=data", "overwrite=true").code == 0
    assert not left.exists()


OTHERS = ("metadata.json", "thesis.tex", "data/metadata.json", "data/main_data.hdf5")


@pytest.mark.parametrize(
    ("there", "named"),
    [(OTHERS[:2], "metadata.json"), (OTHERS[1:], "thesis.tex"), (OTHERS[::2], "metadata.json")],
)
def test_a_folder_with_other_files_than_minaris_is_never_replaced(
    cli: Any, made: Path, there: tuple[str, ...], named: str
) -> None:
    for name in there:
        file = Path("site") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    refused = cli("dataset", "convert", "data", "to=site", "format=minari", "overwrite=true")
    assert refused.code == 2
    assert f"is a folder with other files ({named})" in refused.err
    with pytest.raises(ConfigError, match=rf"is a folder with other files \({named}\)"):
        export_dataset(read_dataset(made), "site", "minari")
    assert all((Path("site") / name).read_text() == "{}" for name in there)


@pytest.mark.parametrize("wrong", WRONG)
def test_rlox_dataset_refuses_wrong_arguments_before_it_writes_a_file(
    cli: Any, made: Path, wrong: str
) -> None:
    Path("text").write_text("hello")
    Path("empty").mkdir()
    Path("full").mkdir()
    Path("full/a.txt").write_text("mine")
    before = sorted(Path().rglob("*"))
    given, said = WRONG[wrong]
    result = cli("dataset", *given)
    assert result.code == 2
    assert said in result.err
    assert sorted(Path().rglob("*")) == before


def test_a_whole_replay_buffer_becomes_a_dataset(cli: Any) -> None:
    train = (
        "train", "algo=sac", "env=Pendulum-v1", "env.max_episode_steps=20", "hydra.run.dir=run",
        "total_steps=90", "algo.learning_starts=40", "algo.net_arch=[8]", "algo.batch_size=8", "tuned=none",
        "eval.episodes=1",
    )  # fmt: skip
    assert cli(*train).code == 0
    refused = cli("dataset", "show", "run")
    assert refused.code == 2
    assert "rlox dataset make FOLDER policy=run quality=full-replay" in refused.err
    made = cli("dataset", "make", "whole", "policy=run", "quality=full-replay")
    assert made.code == 0
    assert "80 in 4 episodes" in made.out
    idle = cli("dataset", "make", "x", "policy=run", "quality=full-replay", "episodes=3")
    assert "episodes=3 has no effect with quality=full-replay, which plays nothing" in idle.err
    idle = cli("dataset", "make", "x", "policy=run", "quality=random", "sampled=false")
    assert "sampled=false has no effect with quality=random, which scores no policy" in idle.err


def test_a_run_needs_no_environment_where_the_dataset_says_its_spaces(cli: Any, made: Path) -> None:
    line = ("train", "algo=iql", "env=none", "total_steps=16", "algo.net_arch=[8]", "tuned=none")
    done = cli(*line, "buffer.path=data", "hydra.run.dir=run")
    assert done.code == 0
    assert "score   none: there is no environment to play in" in done.out
    result = json.loads(Path("run/result.json").read_text())
    assert (result["status"], result["score"], result["updates"]) == ("done", None, 16)
    assert cli("train", "resume=run", "total_steps=20").code == 0
    assert cli("evaluate", "run").code == 2
    assert cli("evaluate", "run", "env=Pendulum-v1", "episodes=1").code == 0
    assert cli("evaluate", "run", "method=fqe", "buffer.path=data", "fqe.updates=5").code == 2  # 2 episodes
    for more, said in {
        "eval.every=5": "eval.every=5: env=none cannot be evaluated",
        "stop.score=-100": "stop.score=-100: env=none cannot be evaluated",
        "algo.act_dim=2": "algo.act_dim=2: the environment or dataset has 1",
    }.items():
        wrong = cli(*line, "buffer.path=data", more)
        assert wrong.code == 2
        assert said in wrong.err
    assert "env=none: sac learns in an environment" in cli("train", "algo=sac", "env=none").err
    about = Path("data") / DOCUMENT_FILE
    about.write_text(json.dumps(json.loads(about.read_text()) | {"action_space": None}))
    asked = cli(*line, "buffer.path=data")
    assert "or at buffer.path a dataset that records observation_space and action_space" in asked.err


def test_bounds_of_actions_are_those_of_the_datasets_space(tmp_path: Path) -> None:
    about = spaces_metadata(spaces.Box(-9, 9, (3,)), spaces.Box(-2.0, 5.0, (2,)))
    dataset(tmp_path, about)
    algorithm = IQL(tmp_path)
    algorithm.train(2)
    bounds: Any = algorithm.components.actor.actions
    assert (bounds.low.tolist(), bounds.high.tolist()) == ([-2.0, -2.0], [5.0, 5.0])
    with pytest.raises(ConfigError, match=r"algo\.act_high=1: the environment's actions have other bounds"):
        IQL(tmp_path, act_high=1.0)
    dataset(tmp_path, {"observation_space": "{", "action_space": "{"})
    with pytest.raises(ShapeError, match="not the JSON of a space"):
        IQL(tmp_path)


def test_evaluate_can_change_the_target_return_of_a_decision_transformer(cli: Any, made: Path) -> None:
    small = ("algo.hidden=8", "algo.n_layers=1", "algo.context_length=4", "algo.max_timesteps=200")
    line = (
        "train",
        "env=Pendulum-v1",
        "buffer.path=data",
        "total_steps=4",
        "tuned=none",
        "eval.episodes=1",
    )
    assert cli(*line, "algo=decision_transformer", "hydra.run.dir=dt", *small).code == 0
    best = read_dataset(made).buffer().stats()["max_return"]
    scores = {}
    for asked in (None, -100.0, -3000.0):
        given = () if asked is None else (f"target_return={asked}",)
        result = cli("evaluate", "dt", "episodes=1", *given)
        assert result.code == 0
        document = json.loads(Path("dt/eval/last.json").read_text())
        assert document["target_return"] == (best if asked is None else asked)
        scores[asked] = document["episodes"]
    assert scores[-100.0] != scores[-3000.0]
    assert len(list(Path("dt/eval").glob("step-*asked-*.json"))) == 2
    assert cli(*line, "algo=bc", "hydra.run.dir=bc", "algo.net_arch=[8]").code == 0
    refused = cli("evaluate", "bc", "target_return=1")
    assert refused.code == 2
    assert "target_return=1: bc takes no target return, only decision_transformer does" in refused.err
    of_fqe = cli("evaluate", "dt", "method=fqe", "buffer.path=data", "target_return=1")
    assert "method=fqe plays no episodes: leave target_return out" in of_fqe.err


def test_rlox_dataset_show_and_check_report_nan_rewards_in_strict_json(
    cli: Any,
) -> None:
    rows = {"observations": np.zeros((6, 2), "f4"), "actions": np.array([0, 1, -1, 0, 1, 1])}
    rewards = np.array([0.0, np.nan, 1, 2, 3, 4], "f4")
    ends = {"terminals": np.arange(6) % 3 == 2, "timeouts": np.zeros(6, bool)}
    np.savez("x.npz", **rows, rewards=rewards, **ends)
    shown = cli("dataset", "show", "x.npz", "json=true").out

    def strict(constant: str) -> None:
        raise ValueError(constant)

    document = json.loads(shown, parse_constant=strict)
    assert document["found"]["returns"]["ci95"] == [None, None]
    found = cli("dataset", "check", "x.npz", "json=true")
    assert found.code == 1
    assert {"not_finite", "negative_choice"} <= {one["code"] for one in json.loads(found.out)}
