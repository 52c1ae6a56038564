"""Tests that the command line makes environments of engines by their ids."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.cli import TINY, Cli

from rlox.extras import install_command


@pytest.mark.skipif(find_spec("envpool") is None, reason="extra not installed: envpool")
def test_an_environment_only_envpool_has_needs_env_backend_envpool(cli: Cli) -> None:
    given = ("train", "dry_run=true", "env=CheetahRun-v1")
    found = cli(*given, "env.backend=envpool")
    assert (found.code, found.err) == (0, "")
    assert "on CheetahRun-v1" in found.out
    without = cli(*given)
    assert without.code == 2
    assert "'CheetahRun-v1' is not registered in Gymnasium" in without.err


@pytest.mark.skipif(find_spec("envpool") is None, reason="extra not installed: envpool")
def test_a_film_of_an_engine_is_refused_before_anything_is_played(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "env.backend=envpool", "hydra.run.dir=run").code == 0
    refused = cli("evaluate", "run", "video=true")
    assert refused.code == 2
    assert "video=true: CartPole-v1 is stepped by an engine" in refused.err
    assert not list((tmp_path / "run/eval").glob("*"))


@pytest.mark.skipif(find_spec("envpool") is not None, reason="envpool is installed")
def test_env_backend_envpool_without_its_package_prints_the_install_command(cli: Cli) -> None:
    refused = cli("train", "dry_run=true", "env=CartPole-v1", "env.backend=envpool")
    assert refused.code == 2
    assert install_command("envpool") in refused.err


def test_a_refused_env_key_names_the_tuned_preset_that_set_it(cli: Cli, tmp_path: Path) -> None:
    preset = tmp_path / "conf" / "tuned" / "ppo" / "make_counting.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\nenv:\n  action_repeat: 2\n")
    given = ("train", "dry_run=true", f"--config-dir={tmp_path / 'conf'}")
    env = "env=helpers.vectors:make_counting"
    refused = cli(*given, env)
    assert refused.code == 2
    assert (
        "does not support env.action_repeat, which wraps single environments; env.action_repeat came "
        "with the tuned preset ppo/make_counting: leave it out with tuned=null, or use"
    ) in " ".join(refused.err.split())
    typed = cli(*given, env, "env.action_repeat=3")
    assert (typed.code, "tuned" in typed.err) == (2, False)
    assert cli(*given, env, "tuned=null").code == 0


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("envs:Countdown",), 2, "helpers.envs.Countdown exists, but has no argument num_envs"),
        (("vectors:MODES",), 2, "helpers.vectors.MODES exists, but is of type tuple"),
        (("vectors:not_there",), 2, "no such environment in Gymnasium"),
        (("vectors:not_vectors",), 4, "gave a Countdown, expected a gymnasium.vector.VectorEnv"),
        (("vectors:counting", "env.kwargs.mode=5"), 4, "fails when it is made with num_envs=1"),
        (("vectors:counting", "env.kwargs.size=5"), 2, "env.kwargs do not fit: got an unexpected"),
        (("vectors:counting", "env.kwargs.num_envs=5"), 2, "env.kwargs do not fit"),
    ],
)
def test_errors_distinguish_unsuitable_factories_from_missing_names(
    given: tuple[str, ...], code: int, told: str, cli: Cli
) -> None:
    refused = cli("train", "dry_run=true", f"env=helpers.{given[0]}", *given[1:])
    assert refused.code == code
    assert told in " ".join(refused.err.split())
