"""Tests the exact messages for a new user."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.cli import Cli

TRAIN = {
    ("--env", "CartPole-v1"): "--env: settings are written without dashes: env=CartPole-v1",
    ("--env=CartPole-v1",): "--env: settings are written without dashes: env=CartPole-v1",
    ("--learning-rate", "1e-3"): (
        "--learning-rate: settings are written without dashes: algo.learning_rate=1e-3"
    ),
    ("--total-timesteps=9",): ("--total-timesteps: settings are written without dashes: total_steps=9"),
    ("--seed",): "--seed: settings are written without dashes: seed=...",
    ("--dry-run", "env=CartPole-v1"): ("--dry-run: settings are written without dashes: dry_run=..."),
    ("--frobnicate",): (
        "unrecognized arguments: --frobnicate; settings are written key=value, without dashes; "
        "Hydra's flags: rlox train --hydra-help"
    ),
    ("+exp=classic_control",): (
        "+exp=classic_control: another option is chosen already; to replace it: exp=classic_control"
    ),
    ("sed@seeds=1",): "unknown key 'sed'; did you mean 'seed'?",
    ("env=Unheard-v0",): (
        "env=Unheard-v0: no such environment in Gymnasium\n"
        "  one of your own: env=module:Unheard-v0, with the module that registers it"
    ),
    ("env=CartPol-v1",): (
        "env=CartPol-v1: no such environment in Gymnasium; did you mean 'CartPole-v1' or "
        "'CartPole-v0' or 'phys2d/CartPole-v1'?"
    ),
    ("env=helpers.masked_envs:DoorByMethod",): (
        "env=helpers.masked_envs:DoorByMethod: no such environment in Gymnasium; helpers.masked_envs "
        "registers Doors-v0, DoorsByMethod-v0, DoorsByObservation-v0; did you mean "
        "'helpers.masked_envs:DoorsByMethod-v0'?"
    ),
    ("algo.gamma=interval(0.9,0.99)", "-m"): (
        "an interval is not a list of values: only a search draws from it, e.g. search=auto"
    ),
    ("hydra/launcher=rq", "-m"): (
        "hydra/launcher=rq needs a package that is not installed: pip install hydra-rq-launcher"
    ),
    ("hydra/launcher=submitit_slrm", "-m"): (
        "hydra/launcher=submitit_slrm: no such option; did you mean 'submitit_slurm'?"
    ),
    ("seed=0,1,2",): ("seed=0,1,2 has several values\n  to run each of them: rlox sweep … seed=0,1,2"),
    ("env.kwargs.x=1,2",): (
        "env.kwargs.x=1,2 has several values\n  to run each of them: rlox sweep … env.kwargs.x=1,2"
    ),
    ("env.kwargs.x=[1",): (
        "cannot read the override 'env.kwargs.x=[1': no viable alternative at input '[1'\n"
        "  brackets must close; values with spaces or special characters need quotes: 'key=\"a value\"'"
    ),
}


@pytest.mark.parametrize(("args", "told"), TRAIN.items(), ids=[" ".join(a) for a in TRAIN])
def test_rlox_train_answers_wrong_arguments_with_the_exact_messages(
    cli: Cli, args: tuple[str, ...], told: str
) -> None:
    result = cli("train", *args)
    assert (result.code, result.err, result.out) == (2, f"rlox train: {told}\n", "")


def test_a_file_that_is_not_yaml_is_named_with_line_and_column(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    (tmp_path / "conf" / "exp" / "bad.yaml").write_text("seed: [1\n")
    result = cli("train", "--config-dir", "conf", "exp=bad")
    assert (result.code, result.err) == (
        2,
        "rlox train: not YAML: expected ',' or ']', but got '<stream end>'\n"
        f"  {tmp_path}/conf/exp/bad.yaml, line 2, column 1\n",
    )


def test_a_module_that_fails_when_it_is_imported_is_named_with_file_and_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "half_made.py").write_text("import gymnasium\n\n1 / 0\n")
    result = cli("train", "env=half_made:Env-v0")
    assert (result.code, result.err) == (
        2,
        "rlox train: env=half_made:Env-v0: module 'half_made' fails when it is imported: "
        f"ZeroDivisionError: division by zero ({tmp_path}/half_made.py, line 3)\n",
    )


@pytest.mark.parametrize(("algo", "copies"), [("ppo", 6), ("a2c", 6), ("dqn", 8)])
def test_networks_that_do_not_fit_are_refused_before_they_are_made(
    cli: Cli, algo: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlox.runs.preflight.available_memory", lambda root: 22 << 30)
    result = cli("train", f"algo={algo}", "tuned=null", "algo.net_arch=[65536,65536]")
    parameters = 5 * 65536 + 65537 * 65536 + 65537 * 2
    if algo != "dqn":  # these also have a critic
        parameters += 5 * 65536 + 65537 * 65536 + 65537
    need = 4 * copies * parameters / 2**30
    assert (result.code, result.err) == (
        2,
        f"rlox train: learning networks of {parameters:,} parameters needs {need:.1f} GiB of "
        "memory, but 22.0 GiB are available; lower algo.net_arch\n",
    )


@pytest.mark.parametrize("command", ["train", "evaluate", "sweep", "list"])
def test_commands_report_a_deleted_current_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = cli(command)
    monkeypatch.chdir(tmp_path)
    assert (result.code, result.err) == (
        5,
        f"rlox {command}: the current folder does not exist any more; cd to one that does\n",
    )


def test_an_unknown_command_names_the_nearest_alias_too(cli: Cli) -> None:
    assert cli("resum", "x").err == (
        "rlox: unknown command 'resum'; did you mean 'resume'?\n"
        "  commands: bench, check, completion, dataset, doctor, evaluate, export, list, report, resume, "
        "sweep, sync, train; rlox --help\n"
    )
    assert cli("resume").err == ("rlox resume: name the run folder: rlox resume RUN [key=value ...]\n")
    assert cli("resume", "--cfg", "job", "runs/x").err == (
        "rlox resume: --cfg is not taken by resume; name the run folder: rlox resume RUN [key=value ...]\n"
    )


@pytest.mark.parametrize("given", ["abc", "0", "-3", "2.5", "", "1025", "²"])
def test_rlox_refuses_invalid_values_of_rlox_threads(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("RLOX_THREADS", given)
    refused = cli("list", "algo")
    said = f"rlox list: RLOX_THREADS={given!r}: expected a whole number from 1 to 1,024"
    assert (refused.code, refused.err.startswith(said)) == (2, True), refused.err
    monkeypatch.setenv("RLOX_THREADS", "1024")
    assert cli("list", "algo").code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("sweep", "seed=0,1", "seed=2,3"),
            "seed=0,1 and seed=2,3 both give values of seed, and only the last would count; give one of "
            "them, or one list of all: seed=A,B,...",
        ),
        (("sweep", "seed=0,1", "seed=2"), "seed=0,1 and seed=2 both give values of seed"),
        (("train", "-m", "algo=a2c,ppo", "algo=ppo"), "algo=a2c,ppo and algo=ppo both give values"),
        (
            ("sweep", "--cfg", "job", "seed=0,1"),
            "seed=0,1: --cfg shows one configuration; give one",
        ),
        (("train", "-c", "job", "-p", "nope"), "-p nope: no such package, expected one of "),
        (("train", "-c", "hydra", "-p", "env"), "-p env: no such package, expected one of hydra\n"),
        (("train", "-c", "job", "-p", "env.idd"), "-p env.idd: no such package, expected one of "),
    ],
)
def test_rlox_refuses_values_that_it_would_drop_and_unknown_packages(
    cli: Cli, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    refused = cli(*given, *["dry_run=true"] * ("--cfg" not in given))
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert refused.out == ""


def test_the_last_value_of_a_key_counts_and_cfg_shows_an_existing_package(
    cli: Cli,
) -> None:
    shown = cli("train", "seed=1", "seed=2", "--cfg", "job", "-p", "seed")
    assert (shown.code, shown.out) == (0, "2\n")
    listed = cli("sweep", "seed=0", "seed=1,2", "dry_run=true")  # a script's value, and a typed list
    assert listed.code == 0, listed.err
    grown = cli("sweep", "seed=0,1", "seed=0,1,2", "dry_run=true")  # the earlier values and one more
    assert grown.code == 0, grown.err
    assert cli("train", "--cfg", "hydra", "-p", "hydra.launcher").code == 0


@pytest.mark.parametrize(
    ("file", "data", "given", "said"),
    [
        ("algo/big.yaml", b"gamma: 0.5\n", "algo=big", "is built on no algorithm"),
        ("exp/e.yaml", b"", "exp=e", "has no line '# @package _global_'"),
        ("exp/l.yaml", b"seed: 3 # \xff\n", "exp=l", "is not text in UTF-8"),
        ("exp/k.yaml", b"seed: 3\n", "exp=k", "has no line '# @package _global_'"),
        ("exp/w.yaml", b"# @package _global_\nseed: 3 # \xff\n", "exp=w", "is not text in UTF-8"),
        (
            "tuned/ppo/w.yaml",
            b"# @package _global_\n# \xff\n",
            "tuned=ppo/w",
            "is not text in UTF-8",
        ),
    ],
)
def test_a_mistake_in_a_configuration_file_of_ones_own_names_the_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    file: str, data: bytes, given: str, said: str,
) -> None:  # fmt: skip
    path = tmp_path / "own" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    monkeypatch.setenv("RLOX_CONF_PATH", str(tmp_path / "own"))
    for command in ("train", "sweep"):
        refused = cli(command, given, "dry_run=true")
        assert (refused.code, f"{path} {said}" in refused.err) == (2, True), refused.err
