"""Tests of messages that new users see: names of variants, sources of weights, mistakes and signals."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from helpers.cli import TINY, Cli, only_run

from rlox.configs import make_run
from rlox_cli.config.changeable_keys import CHANGEABLE_KEYS
from rlox_cli.runs import run_training, summary
from rlox_cli.runs.run_folder import read_config
from rlox_cli.runs.signals import signal_name
from rlox_cli.shell import messages
from rlox_cli.shell.messages import strip_frames

DRY = ("train", "dry_run=true", "tuned=null")


def own_file(path: str, text: str) -> None:
    """Write a file into the user's folder `conf`."""
    file = Path("conf") / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_name_of_a_variant_stays_in_header_and_config(cli: Cli, tmp_path: Path) -> None:
    own_file("algo/ppo_big.yaml", "defaults: [ppo]\nnet_arch: [16]\n")
    own_file("exp/mine.yaml", "# @package _global_\nseed: 7\n")
    words = ("algo=ppo_big", "exp=mine", "--config-dir", "conf")
    result = cli("train", *TINY, "total_steps=128", *words)
    assert result.code == 0, result.err
    head = "ppo (exp=mine algo=ppo_big) on CartPole-v1, seed 7"
    assert head in result.out
    run = tmp_path / only_run(tmp_path / "runs")
    assert read_config(run)["run"]["variant"] == "exp=mine algo=ppo_big"
    again = cli("resume", str(run), "total_steps=256")
    assert again.code == 0, again.err
    assert head in again.out


def test_a_run_of_shipped_options_has_no_variant(cli: Cli) -> None:
    assert "ppo on CartPole-v1, seed 0" in cli(*DRY).out


def test_an_error_names_the_package_line_that_a_preset_lacks(cli: Cli) -> None:
    own_file("exp/bad.yaml", "algo: {gamma: 0.9}\n")
    result = cli(*DRY, "exp=bad", "--config-dir", "conf")
    assert result.code == 2
    assert "exp/bad.yaml has no line '# @package _global_'" in result.err


def test_a_run_says_whose_weights_it_begins_with(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "total_steps=128").code == 0
    run = only_run(tmp_path / "runs")
    result = cli("train", *TINY, "total_steps=128", f"init_from={run}", "seed=5")
    assert result.code == 0, result.err
    expected = f"  init    weights of step-000000000128 in {run} (ppo on CartPole-v1)\n"
    assert expected in result.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("train", "algo", "ppo"), "'algo' is a key without a value; write algo=NAME"),
        (("train", "-cn", "foo"), "--config-name foo: no folder of configurations has a foo.yaml"),
        (("train", "tuned=ppo/Foo"), "tuned=ppo/Foo: no such option; rlox list tuned shows"),
        (("train", "tuned=ppo/CartPol-v1"), "did you mean 'ppo/CartPole-v1'?"),
        (("train", "env.wrappers=[helpers.user_code:Nope]"), "has no Nope\n"),
        (("train", "callbacks=[helpers.user_code:Tenth]"), "did you mean 'TenthReward'?"),
    ],
)
def test_error_messages_explain_common_mistakes(args: tuple[str, ...], says: str, cli: Cli) -> None:
    result = cli(*args)
    assert result.code == 2
    assert says in result.err


def test_several_values_are_a_list_only_for_keys_that_take_one(cli: Cli) -> None:
    seeds, widths = cli(*DRY, "seed=0,1"), cli(*DRY, "algo.net_arch=8,8")
    assert seeds.code == widths.code == 2
    assert "to run each of them: rlox sweep … seed=0,1" in seeds.err
    assert "for one list" not in seeds.err
    assert "for one list: algo.net_arch=[8,8]" in widths.err


def test_help_of_resume_is_about_resuming(cli: Cli) -> None:
    text = cli("resume", "--help").out
    assert text.startswith("usage: rlox resume RUN [key=value ...]\n\ngo on with a run")
    flat = " ".join(text.split())
    assert all(key in flat for key in CHANGEABLE_KEYS)
    assert cli("train", "--help").out.startswith("usage: rlox train [key=value ...]")


def test_errors_of_resume_begin_with_what_was_typed(cli: Cli) -> None:
    assert cli("resume", "nowhere").err.startswith("rlox resume: ")
    assert cli("train", "resume=nowhere").err.startswith("rlox train: ")


def test_help_has_the_exit_codes_of_its_command_alone(cli: Cli) -> None:
    assert "1    something became slower" in cli("bench", "--help").out
    text = cli("train", "--help").out
    assert "something became slower" not in text and "an error was found" not in text


def test_a_class_that_is_no_callback_is_named_without_an_address(cli: Cli) -> None:
    result = cli(*DRY, "callbacks=[pathlib:PurePath]")
    assert result.code == 2
    assert re.search(
        r"callbacks: a PurePosixPath lacks .*; derive it from rlox.callbacks.Callback", result.err
    )
    assert "0x" not in result.err and "not its class" not in result.err


def test_an_error_of_a_callback_names_the_callback(cli: Cli) -> None:
    Path("hooks.py").write_text(
        "from rlox.callbacks import Callback\n"
        "class Boom(Callback):\n"
        "    def on_step(self, **_):\n"
        "        raise ValueError('boom')\n"
    )
    result = cli("train", *TINY, "callbacks=[hooks:Boom]")
    assert result.code == 1
    assert "ValueError: boom (raised by the callback Boom)" in result.err


def test_strip_frames_keeps_the_innermost_frame() -> None:
    text = (
        "MyEnv-v0 (copy 1) raised ValueError in step: no\n"
        "Traceback (most recent call last):\n"
        '  File "rlox/envs/workers/worker.py", line 146, in step\n    env.step(a)\n'
        '  File "my_env.py", line 98, in step\n    raise ValueError("no")\nValueError: no\n'
    )
    assert strip_frames(text).splitlines() == [
        "MyEnv-v0 (copy 1) raised ValueError in step: no",
        '  File "my_env.py", line 98, in step',
        '    raise ValueError("no")',
        "ValueError: no",
    ]
    assert strip_frames("no frames") == "no frames"
    assert messages.shorten(strip_frames(text), 4) == strip_frames(text)


@pytest.mark.parametrize(
    ("threads", "load", "warned"),
    [(1, 9.0, False), (2, 0.1, False), (2, 3.5, True), (8, 0.0, True)],
)
def test_more_torch_threads_than_cpus_are_free_are_warned_of(
    threads: int, load: float, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_training.provenance, "cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    found = run_training.thread_warnings(make_run({"torch_threads": threads}))
    assert bool(found) == warned
    if warned:
        assert f"torch_threads={threads}, but only {4 - load:.1f} of 4 CPUs are free" in found[0]
        assert "set torch_threads=1" in found[0]


def test_the_summary_prints_the_command_that_sends_offline_wandb_files() -> None:
    offline, online = (
        make_run({"logger": {"wandb": {"name": "wandb", "mode": mode}}}) for mode in ("offline", "online")
    )
    place = Path("runs/my run")
    told = summary.offline_message(offline, place)
    assert told == "  wandb   offline, in runs/my run/wandb; to send it: rlox sync 'runs/my run'"
    assert summary.offline_message(online, place) == summary.offline_message(make_run({}), place) == ""


def test_a_signal_has_the_name_that_people_give_it() -> None:
    assert [signal_name(s) for s in (signal.SIGINT, signal.SIGTERM)] == ["Ctrl-C", "SIGTERM"]


def test_evaluate_of_a_checkpoint_folder_names_the_right_command(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "total_steps=128").code == 0
    run = only_run(tmp_path / "runs")
    result = cli("evaluate", str(run / "checkpoints" / "step-000000000128"), "episodes=1")
    assert result.code == 2
    assert f"rlox evaluate {run} checkpoint=step-000000000128" in result.err
    assert cli("evaluate", str(run), "checkpoint=step-000000000128", "episodes=1").code == 0
