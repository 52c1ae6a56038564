"""Tests the errors for wrong names of environments in a user's own modules."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import pytest
from helpers.cli import Cli
from helpers.envs import Countdown

from rlox.envs.ids import find_spec
from rlox.errors import ConfigError, UnknownNameError


@pytest.fixture
def register_envs() -> Iterator[None]:
    """Registers a class of one module under two ids, by its path and as the class itself."""
    gym.register("Down-v0", entry_point="helpers.envs:Countdown")
    gym.register("DownFar-v0", entry_point=Countdown)
    yield
    del gym.registry["Down-v0"], gym.registry["DownFar-v0"]


@pytest.mark.usefixtures("register_envs")
def test_the_error_for_an_environment_class_lists_its_registered_ids() -> None:
    told = (
        r"env=helpers\.envs:Countdown: helpers\.envs\.Countdown exists, but has no argument num_envs: it "
        r"is the class of a single environment; pass its registered id instead: "
        r"env=helpers\.envs:Down-v0, env=.*:DownFar-v0$"
    )
    with pytest.raises(ConfigError, match=told):
        find_spec("helpers.envs:Countdown")


def test_the_error_for_an_unregistered_class_explains_how_to_register_it() -> None:
    told = r"add gymnasium\.register\('Countdown-v0', Countdown\) to helpers\.envs and pass env="
    with pytest.raises(ConfigError, match=told):
        find_spec("helpers.envs:Countdown")


@pytest.mark.usefixtures("register_envs")
def test_the_error_for_an_unknown_id_lists_the_ids_of_its_module(cli: Cli) -> None:
    told = r"'helpers\.envs:Foo-v0' is not .* Gymnasium; helpers\.envs registers Down-v0, DownFar-v0"
    with pytest.raises(UnknownNameError, match=told):
        find_spec("helpers.envs:Foo-v0")
    refused = cli("train", "dry_run=true", "env=helpers.envs:Foo-v0")
    assert refused.code == 2
    assert "helpers.envs registers Down-v0, DownFar-v0" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("./my_env", "; did you mean 'my_env'?"),
        ("./my_env.py", "; did you mean 'my_env'?"),
        ("pkg/my_env", "; did you mean 'pkg.my_env'?"),
        ("my_env.py", "; did you mean 'my_env'?"),
        (".my_env", "; did you mean 'my_env'?"),
        ("../my_env", ""),
    ],
)
def test_a_path_in_place_of_a_module_is_refused_with_the_name_of_the_module(path: str, hint: str) -> None:
    told = f"'{path}' is a path, expected a module that Python can import from the current folder"
    with pytest.raises(ConfigError) as refused:
        find_spec(f"{path}:Foo-v0")
    assert str(refused.value) == f"env={path}:Foo-v0: {told}{hint}"


def test_the_command_line_refuses_a_path_in_place_of_a_module(cli: Cli) -> None:
    refused = cli("train", "dry_run=true", "env=./my_env:Foo-v0")
    assert refused.code == 2
    assert "'./my_env' is a path, expected a module" in " ".join(refused.err.split())
    assert "'package' argument" not in refused.err
