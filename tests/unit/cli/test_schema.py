"""Tests that the chosen option of a group determines which keys exist."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config import schema, validate
from rlox_cli.config.run_schema import RUN
from rlox_cli.config.schema import REQUIRED, Group, Schema
from rlox_cli.config.sources import SchemaSource


@dataclass(frozen=True)
class Ring:
    name: str = param("ring", "the buffer", choices=("ring",))
    capacity: int = param(100, "rows")


@dataclass(frozen=True)
class Disk:
    path: str = param(doc="the folder")
    name: str = param("disk", "the buffer", choices=("disk",))
    capacity: int = param(10_000, "rows")


@dataclass(frozen=True)
class Whole:
    seed: int = param(0, "the seed")
    buffer: Any = field(default_factory=Ring)
    sink: dict[str, Any] = field(default_factory=dict)


BUFFER = Group("buffer", {"ring": Ring, "disk": Disk})
SINK = Group("sink", {"ring": Ring, "disk": Disk}, is_multiple=True)
SCHEMA = Schema("whole", Whole, "whole", (BUFFER, SINK), presets=("exp",), choosing_presets=("exp",))


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a conf folder in which one file builds on a second file, which builds on an option."""
    monkeypatch.setattr(schema, "CONF", tmp_path)
    files = {
        "whole.yaml": "defaults:\n  - buffer: auto\n  - optional sink: x\n  - sink: []\n  - _self_\n",
        "buffer/auto.yaml": "defaults:\n  - big@_here_\n  - _self_\n",
        "buffer/big.yaml": "defaults:\n  - /schema/buffer/disk@_here_\n  - _self_\ncapacity: 5\n",
        "buffer/circle.yaml": "defaults: [circle]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return [tmp_path]


def chosen(conf: list[Path], *overrides: str) -> list[str]:
    parts = SCHEMA.chosen_options(overrides, conf)
    return [f"{p.group.name}{p.mount and '.' + p.mount}={tag}" for p in parts for tag in p.tags]


def test_the_option_of_the_primary_file_resolves_through_base_files(
    conf: list[Path],
) -> None:
    assert chosen(conf) == ["buffer=disk"]
    assert chosen(conf, "seed=3", "exp=null") == ["buffer=disk"]


def test_the_command_line_chooses_one_option_several_in_a_sweep_or_all(conf: list[Path]) -> None:
    assert chosen(conf, "buffer=ring") == ["buffer=ring"]
    assert chosen(conf, "buffer=big,ring") == ["buffer=disk", "buffer=ring"]
    for unclear in ("buffer=choice(ring,disk)", "buffer=circle", "buffer=nope"):
        assert chosen(conf, unclear) == ["buffer=ring", "buffer=disk"]
    assert chosen(conf, "exp=mine")[:2] == ["buffer=ring", "buffer=disk"]
    assert chosen(conf, "exp=mine", "buffer=disk")[0] == "buffer=disk"


def test_several_options_at_once_stand_under_their_own_names(conf: list[Path]) -> None:
    given = ("buffer=ring", "sink=[ring,disk]")
    assert chosen(conf, *given) == ["buffer=ring", "sink.ring=ring", "sink.disk=disk"]
    names = SCHEMA.names(SCHEMA.keys(SCHEMA.chosen_options(given, conf)))
    assert {"buffer", "sink", "exp", "seed", "sink.disk.path", "buffer.capacity"} <= set(names)
    assert "buffer.path" not in names


def test_a_key_of_another_option_is_owned_by_it() -> None:
    assert SCHEMA.owners("buffer.path") == ["buffer=disk"]
    assert SCHEMA.owners("sink.disk.path") == ["sink=disk"]
    assert SCHEMA.owners("seed") == []
    clipped = ["ppo", "recurrent_ppo", "hybrid_ppo", "grpo", "rloo"]
    assert RUN.owners("algo.clip_eps") == [f"algo={name}" for name in clipped]
    assert RUN.owners("algo.rnn") == ["algo=recurrent_ppo"]


def known(data: dict[str, Any]) -> dict[str, Any]:
    return validate.checked_data(OmegaConf.create(data), SCHEMA)


def test_a_composed_configuration_has_the_keys_of_what_it_chose_and_no_others() -> None:
    disk = {"name": "disk", "path": "here", "capacity": 3}
    data = {"seed": 1, "buffer": disk, "sink": {"mine": {"name": "disk", "path": "there"}}}
    assert known(data) == data
    with pytest.raises(ConfigError, match=r"'buffer.path': it belongs to buffer=disk"):
        known({"buffer": {"name": "ring", "path": "here"}})
    with pytest.raises(ConfigError, match=r"'sink.mine.pth'; did you mean 'sink.mine.path'"):
        known({"sink": {"mine": {"name": "disk", "pth": "here"}}})


@pytest.mark.parametrize("missing", [{}, {"path": REQUIRED}, {"path": None}])
def test_a_key_without_a_default_that_is_not_given_is_named(missing: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"missing key 'buffer.path': the folder; give buffer.pa"):
        known({"buffer": {"name": "disk", **missing}})


def test_hydra_gets_every_option_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchemaSource, "current_schema", SCHEMA, raising=False)
    source = SchemaSource("rlox", "schema://")
    node = source.load_config("schema/buffer/disk").config
    assert node == {"name": "disk", "capacity": 10_000, "path": "???"}
    node.capacity = 5  # Hydra may change the node
    assert source.load_config("schema/buffer/disk.yaml").config.capacity == 10_000
    assert source.load_config("schema/whole").config == {"seed": 0, "sink": {}}
    assert source.list("schema/sink", None) == ["disk", "ring"]
    there = ("schema/buffer/ring", "schema/brings/ring", "schema/other", "buffer/ring", "whole")
    assert [source.is_config(path) for path in there] == [True, False, False, False, False]


def test_the_run_schema_takes_default_options_from_the_primary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLOX_CONF_PATH", raising=False)
    for given, algos in (
        (("algo=a2c",), ["a2c"]),
        (("algo=a2c,ppo",), ["a2c", "ppo"]),
        ((), ["ppo"]),
    ):
        parts = RUN.chosen_options(given)
        assert [t for p in parts if p.group.name == "algo" for t in p.tags] == algos
        assert [t for p in parts if p.group.name == "buffer" for t in p.tags] == ["rollout"]
    assert [p.mount for p in RUN.chosen_options(("logger=[csv]",)) if p.group.name == "logger"] == ["csv"]
