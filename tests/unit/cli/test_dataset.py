"""Tests that `rlox dataset` makes, shows and checks datasets, and that runs learn from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlox.runs.record import write_dataset
from rlox.sources.dataset_file import Dataset, digest_of, read_dataset


@pytest.fixture
def made(cli: Any) -> Path:
    result = cli("dataset", "make", "data", "env=Pendulum-v1", "steps=500", "seed=3")
    assert result.code == 0
    assert "600 in 3 episodes" in result.out
    assert "steps 500/500  return -" in result.out  # the progress
    return Path("data")


def test_a_dataset_is_made_shown_and_learned_from(cli: Any, made: Path) -> None:
    shown = cli("dataset", "show", str(made))
    assert shown.code == 0
    assert "Pendulum-v1, random" in shown.out
    assert "0 terminations, 3 time limits" in shown.out
    assert read_dataset(made).digest in shown.out
    document = json.loads(cli("dataset", "show", str(made), "json=true").out)
    assert document["found"]["transitions"] == 600
    assert document["about"]["behaviour"]["episodes"] == 3
    assert len(document["coverage"]["obs"]) == 3
    assert document["coverage"]["actions"][0]["max"] <= 2.0
    learned = cli(
        "train", "algo=td3_bc", "env=Pendulum-v1", f"buffer.path={made}", "total_steps=32",
        "algo.net_arch=[8]", "eval.episodes=1", "hydra.run.dir=run", "tuned=none",
    )  # fmt: skip
    assert learned.code == 0
    assert json.loads(Path("run/result.json").read_text())["updates"] == 32


def test_texts_of_a_dataset_are_printed_without_escape_codes(cli: Any, made: Path) -> None:
    document = json.loads((made / "dataset.json").read_text())
    document["algo"] = "random\x1b[2J"
    (made / "dataset.json").write_text(json.dumps(document))
    shown = cli("dataset", "show", str(made))
    assert (shown.code, "random?[2J" in shown.out, "\x1b" in shown.out) == (0, True, False)


def test_a_dataset_that_is_there_is_kept_unless_it_is_to_be_replaced(cli: Any, made: Path) -> None:
    digest = read_dataset(made).digest
    again = ("dataset", "make", "data", "env=Pendulum-v1", "steps=10", "seed=4")
    result = cli(*again)
    assert result.code == 2
    assert "path=data has a dataset already" in result.err
    assert read_dataset(made).digest == digest
    assert cli(*again, "overwrite=true").code == 0
    assert read_dataset(made).digest != digest
    Path("file").write_text("")
    assert "file is a file" in cli("dataset", "make", "file", "env=Pendulum-v1").err


def test_a_dataset_of_one_episode_shows_its_return_in_digits_that_suffice(cli: Any) -> None:
    rows = {"observations": np.zeros((3, 2), "f4"), "actions": np.array([0, 1, 0])}
    ends = {"terminals": np.arange(3) == 2, "timeouts": np.zeros(3, bool)}
    np.savez("one.npz", **rows, rewards=np.full(3, -0.025, "f4"), **ends)
    shown = cli("dataset", "show", "one.npz").out
    assert "  transitions  3 in 1 episode\n" in shown
    assert "  returns      -0.075\n" in shown


def test_checking_ends_with_1_where_there_are_errors(cli: Any, made: Path) -> None:
    sound = cli("dataset", "check", str(made))
    assert (sound.code, sound.out) == (0, "data: nothing found\n")
    read = read_dataset(made)
    columns = {**read.columns, "terminated": read.columns["truncated"]}
    columns["truncated"] = np.zeros(600, bool)
    write_dataset(Dataset(columns, read.about, digest_of(columns)), Path("wrong"))
    found = cli("dataset", "check", "wrong")
    assert found.code == 1
    assert "3 of 3 terminations are at 200 steps, the environment's time limit" in found.out
    assert found.out.endswith("wrong: 1 error, 0 warnings\n")
    listed = json.loads(cli("dataset", "check", "wrong", "json=true").out)
    assert [(one["code"], one["severity"]) for one in listed] == [("time_limit", "error")]


def test_a_dataset_is_made_of_a_run(cli: Any) -> None:
    line = ("total_steps=160", "algo.learning_starts=40", "algo.net_arch=[8]", "algo.batch_size=8")
    saved = ("checkpoint.every=40", "checkpoint.keep=10", "eval.episodes=1", "tuned=none")
    of_run = (
        "train",
        "algo=sac",
        "env=Pendulum-v1",
        "env.max_episode_steps=20",
        "hydra.run.dir=run",
    )
    assert cli(*of_run, *line, *saved).code == 0
    made = cli("dataset", "make", "path=expert", "policy=run", "steps=100", "episodes=2")
    assert made.code == 0
    assert "Pendulum-v1, expert, sac, step-" in made.out
    assert "scores       random " in made.out
    told = re.findall(r"^scored step-(\d+): -", made.out, re.M)
    assert [int(step) for step in told] == [41, 80, 120, 160]
    about = read_dataset(Path("expert")).about
    assert about["quality"] == "expert"
    assert about["transitions"] == 100
    learned = cli(
        "train", "algo=iql", "env=Pendulum-v1", "buffer.path=expert", "total_steps=16",
        "algo.net_arch=[8]", "eval.episodes=1", "hydra.run.dir=iql", "tuned=none",
    )  # fmt: skip
    assert learned.code == 0
    fqe = ("evaluate", "run", "method=fqe", "buffer.path=expert")
    valued = cli(*fqe, "fqe.updates=10", "fqe.members=19", "fqe.net_arch=[8]")
    assert valued.code == 0
    assert "discounted by 0.99 (90% CI " in valued.out
    assert "updates 10/10" in valued.out
    (written,) = Path("run/eval").glob("step-*_fqe_*.json")
    document = json.loads(written.read_text())
    assert document["dataset"] == read_dataset(Path("expert")).digest
    assert document["settings"]["updates"] == 10
    assert len(document["members"]) == 19
    low, high = document["ci90"]
    assert f"{document['value']:.1f} discounted" in valued.out
    assert f"(90% CI {low:.1f} to {high:.1f})" in valued.out
    nowhere = cli("dataset", "make", "x", "policy=nowhere")
    assert nowhere.code == 2
    assert "nowhere" in nowhere.err


def test_resume_accepts_a_moved_dataset_and_refuses_another(cli: Any, made: Path) -> None:
    line = ("algo=iql", "env=Pendulum-v1", "algo.net_arch=[8]", "eval.episodes=1", "tuned=none")
    assert cli("train", *line, f"buffer.path={made}", "total_steps=16", "hydra.run.dir=run").code == 0
    made.rename("moved")
    assert cli("dataset", "make", "other", "env=Pendulum-v1", "steps=200", "seed=9").code == 0
    refused = cli("train", "resume=run", "total_steps=32", "buffer.path=other")
    assert refused.code != 0
    assert "another dataset" in refused.err
    assert cli("train", "resume=run", "total_steps=32", "buffer.path=moved").code == 0
    assert json.loads(Path("run/result.json").read_text())["updates"] == 32


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("step-fails", "raised ZeroDivisionError in step: float division by zero"),
        ("step-length", "step returned a tuple of 4; step must return five values"),
        (
            "reset-no-pair",
            "reset returned an array of shape (2,) and float32; reset must return two",
        ),
    ],
)
def test_dataset_make_ends_with_4_and_names_an_environment_that_raises(cli: Any, env: str, said: str) -> None:
    result = cli("dataset", "make", "data", f"env=helpers.broken_envs.ids:checked/{env}-v0", "steps=50")
    assert result.code == 4
    assert f"checked/{env}-v0 (episode of seed 1000000)" in result.err
    assert said in result.err
    assert not Path("data").exists()
