"""Tests that rlox uses values of environment variables and writes them to no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from helpers.cli import TINY, Cli, assert_explained, only_run

from rlox.configs.secrets import EnvVarRef, mask_command, redact

SECRET = "hunter2-and-more"
GIVEN: list[Any] = []


class Locked(CartPoleEnv):
    """An environment that takes a token."""

    def __init__(self, token: Any = None, more: Any = None, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        GIVEN.append((token, more))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", SECRET)
    monkeypatch.setitem(gym.registry, "Locked-v0", gym.envs.registration.EnvSpec(
        "Locked-v0", Locked, max_episode_steps=50
    ))  # fmt: skip
    GIVEN.clear()


ASKED = (
    "env.kwargs.token=${oc.env:TEST_TOKEN}",
    "env.kwargs.more.header=Bearer ${oc.env:TEST_TOKEN}",
)


@pytest.fixture
def run(cli: Cli) -> Path:
    ended = cli("train", *TINY, "env=Locked-v0", *ASKED, "logger=[csv,tensorboard]")
    assert ended.code == 0, ended.err
    assert SECRET not in ended.out + ended.err
    return only_run(Path("runs"))


def files_with(text: str, folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def test_a_secret_variable_reaches_its_argument_but_no_file(run: Path) -> None:
    assert GIVEN[-1] == (SECRET, {"header": f"Bearer {SECRET}"})
    assert files_with(SECRET, Path()) == []
    assert (run / "config.yaml").read_text().count("${oc.env:TEST_TOKEN}") == 2


def test_resume_looks_up_variables_of_a_run_folder_only_with_trust_or_when_repeated(
    cli: Cli, run: Path
) -> None:
    refused = cli("resume", str(run), "total_steps=512", ASKED[0])
    assert (refused.code, refused.err) == (
        2,
        f"rlox resume: {run}/config.yaml names a value of the environment: {ASKED[1]}\n"
        "  a run folder is data: nothing it names is imported or looked up unless you say so\n"
        f"  if it is yours: rlox resume {run} trust=true\n",
    )
    # permission to look a variable up for one argument does not hold for another argument
    refused = cli("resume", str(run), "total_steps=512", ASKED[0], "env.kwargs.x=${oc.env:TEST_TOKEN}")
    assert refused.code == 2
    GIVEN.clear()
    ended = cli("resume", str(run), "total_steps=512", *ASKED)
    assert ended.code == 0, ended.err
    ended = cli("evaluate", str(run), "episodes=1", *ASKED)
    assert ended.code == 0, ended.err
    ended = cli("evaluate", str(run), "episodes=1", "trust=true")
    assert ended.code == 0, ended.err
    assert {token for token, _ in GIVEN} == {SECRET}
    assert files_with(SECRET, Path()) == []


def test_a_variable_that_is_not_there_is_named(cli: Cli, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_TOKEN")
    refused = cli("evaluate", str(run), "trust=true")
    assert (refused.code, refused.err) == (
        2,
        "rlox evaluate: env.kwargs.token: the environment has no variable TEST_TOKEN; set it\n",
    )


@pytest.mark.parametrize("asked", ["${env.kwargs.token}", "${oc.env:NO_SUCH,${oc.env:TEST_TOKEN}}"])
def test_a_detour_to_the_environment_is_refused(cli: Cli, asked: str) -> None:
    """A resumed run could not look up such a reference again."""
    ended = cli("train", *TINY, "env=Locked-v0", ASKED[0], f'env.kwargs.more="{asked}"')
    assert (ended.code, ended.err) == (
        2,
        f"rlox train: {asked}: an indirect reference to an environment variable; write "
        "${oc.env:NAME} itself\n",
    )


def test_the_saved_config_contains_resolved_interpolations_of_config_keys(cli: Cli) -> None:
    ended = cli("train", *TINY, "env=Locked-v0", ASKED[0], "env.kwargs.more=${seed}")
    assert ended.code == 0, ended.err
    assert GIVEN[-1] == (SECRET, 0)
    assert "more: 0" in (only_run(Path("runs")) / "config.yaml").read_text()


def test_a_secret_that_is_typed_is_warned_of_and_masked_in_the_provenance(cli: Cli) -> None:
    ended = cli("train", *TINY, "env=Locked-v0", "env.kwargs.token=abc")
    assert ended.code == 0
    assert ended.err == (
        "rlox train: warning: env.kwargs.token is written to the run's files as it was typed; to keep it "
        "out of them, give 'env.kwargs.token=${oc.env:TOKEN}'\n"
    )
    command = json.loads((only_run(Path("runs")) / "provenance.json").read_text())["command"]
    assert "env.kwargs.token=***" in command
    assert "abc" not in command


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("env.kwargs.api_key=abc", "env.kwargs.api_key=***"),
        ("env.kwargs.key=abc", "env.kwargs.key=***"),
        ("env.kwargs.accessToken=a=b", "env.kwargs.accessToken=***"),
        ("env.kwargs.password=${oc.env:P}", "env.kwargs.password=${oc.env:P}"),
        ("env.kwargs={g: 9, secret: abc}", "env.kwargs={g: 9, secret: ***"),
        ("env.kwargs={token: ['a,b', c]}", "env.kwargs={token: ***"),
        ("env.kwargs.key=${oc.env:A,abc}", "env.kwargs.key=***"),
        ("env.kwargs.max_tokens=5", "env.kwargs.max_tokens=5"),
        ("env.kwargs={token: ${oc.env:T}}", "env.kwargs={token: ${oc.env:T}}"),
        ("env.kwargs.monkey=3", "env.kwargs.monkey=3"),
        ("env=my_keys:Env-v0", "env=my_keys:Env-v0"),
        ("algo.policy={name:tokens:Net,hidden:3}", "algo.policy={name:tokens:Net,hidden:3}"),
        ("--config-dir=conf", "--config-dir=conf"),
    ],
)  # fmt: skip
def test_values_of_keys_that_are_named_like_secrets_are_masked(typed: str, kept: str) -> None:
    assert mask_command(["rlox", typed]) == ["rlox", kept]


def test_an_error_that_quotes_its_arguments_does_not_show_them(cli: Cli) -> None:
    asked = "env.kwargs.token=${oc.env:TEST_TOKEN}"
    ended = cli("sweep", *TINY, "env=CartPole-v1", asked, "seed=0,1", "hydra.sweep.dir=sweep")
    assert ended.code == 2  # refused before the first job
    assert "CartPoleEnv.__init__() got an unexpected keyword argument 'token'" in ended.err
    assert SECRET not in ended.out + ended.err
    assert files_with(SECRET, Path()) == []


def test_an_error_in_a_step_does_not_show_the_secret_that_it_quotes(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Locked, action: Any) -> Any:
        raise ValueError(f"{SECRET} is not accepted")

    monkeypatch.setattr(Locked, "step", broken)
    ended = cli("train", *TINY, "env=Locked-v0", ASKED[1])  # the variable is only a part of the value
    assert ended.code == 4
    assert "${oc.env:TEST_TOKEN} is not accepted" in ended.err
    assert SECRET not in ended.out + ended.err
    assert files_with(SECRET, Path()) == []


def test_redact_ignores_short_and_constant_values_of_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, word in enumerate(("true", "False", "null", "abc")):
        monkeypatch.setenv(f"WORD_{number}", word)
        EnvVarRef(f"${{oc.env:WORD_{number}}}", None)
    text = "true False null None True abc"
    assert redact(text) == text
    monkeypatch.setenv("WORD_0", "a-longer-word")
    EnvVarRef("x ${oc.env:WORD_0}", "x a-longer-word")
    assert redact("no a-longer-word, please") == "no ${oc.env:WORD_0}, please"


@pytest.mark.parametrize(
    "override",
    [
        "search.storage=postgresql://me:hunter2@host/db",
        "logger.mlflow.tracking_uri=http://me:hunter2@host",
    ],
)
def test_rlox_refuses_an_address_with_a_password_and_does_not_show_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter2@host")
    more = ["search=ppo"] if override.startswith("search") else ["logger=mlflow"]
    result = cli("sweep" if more == ["search=ppo"] else "train", *more, override)
    assert_explained(result, f"{override.partition('=')[0]} has a password", tmp_path)
    assert "hunter2" not in result.err
