"""Tests the guarantees of every command: help, wrong use, storage errors, signals and closed pipes."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli, Result, assert_explained
from helpers.selection import FULL, each_value_once
from helpers.tree import tree
from helpers.waiting import PATIENCE
from omegaconf import DictConfig, OmegaConf

from rlox.configs import ALGO_CONFIGS
from rlox.configs.params import parse_interval
from rlox.errors import ConfigError
from rlox_cli import commands
from rlox_cli.config import compose
from rlox_cli.config.schema import Key
from rlox_cli.runs.run_folder import is_locked
from rlox_cli.runs.signals import Signals
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import MEANINGS
from rlox_cli.shell.help import value_text
from rlox_cli.shell.messages import MAX_LINES

from .command_specs import SPECS, CommandSpec, keyed

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, 138)]
HEAVY = ("torch", "hydra", "gymnasium", "matplotlib")


def test_every_command_has_a_spec_a_configuration_and_a_line_in_the_docs() -> None:
    assert set(SPECS) == set(commands.names())
    pages = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, spec in SPECS.items():
        assert (spec.command, spec.command.name) == (commands.load(name), name)
        assert (ROOT / "conf" / f"{name}.yaml").is_file()
        assert f"| `rlox {name}" in pages
        assert set(spec.command.codes) <= set(MEANINGS)


def lists_of_commands(source: str, names: set[str]) -> list[str]:
    """Return the places where code compares with a command's name or lists two commands."""
    found = []
    for node in ast.walk(ast.parse(source)):
        children = {n.value for n in ast.iter_child_nodes(node) if isinstance(n, ast.Constant)}
        named = names & {value for value in children if isinstance(value, str)}
        many = isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict) and len(named) > 1
        if many or (isinstance(node, ast.Compare) and named):
            found.append(ast.unparse(node))
    return found


def test_no_other_file_lists_commands_or_compares_their_names() -> None:
    package = ROOT / "rlox_cli"
    files = [p.relative_to(package) for p in package.rglob("*.py")]
    others = sorted(p for p in files if p.parts[0] not in ("commands", "benchmarks"))
    found = {str(p): lists_of_commands((package / p).read_text("utf-8"), set(SPECS)) for p in others}
    assert len(found) > 60
    assert {name: places for name, places in found.items() if places} == {}


def test_the_search_finds_lists_and_comparisons_of_commands() -> None:
    names = {"train", "evaluate"}
    assert lists_of_commands("if command == 'evaluate': pass", names) == ["command == 'evaluate'"]
    assert lists_of_commands("A = {'train': 1, 'evaluate': 2}", names)
    assert lists_of_commands("A = ('total', 'evaluate')", names) == []


# Help


def python(code: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize("name", SPECS)
def test_the_help_of_a_command_imports_nothing_heavy(name: str) -> None:
    done = python(
        "import sys; from rlox_cli.main import main; code = main(sys.argv[1:]); "
        f"print('LOADED', code, *({set(HEAVY)} & set(sys.modules)))",
        name,
        "--help",
    )
    assert done.stdout.splitlines()[-1] == "LOADED 0", done.stderr


def selections(spec: CommandSpec) -> Iterator[tuple[tuple[str, ...], list[Key]]]:
    """For each option of each group: the choice, and all keys that then exist."""
    schema = spec.command.schema
    chosen = [
        (f"{group.name}={'[' * group.is_multiple}{tag}{']' * group.is_multiple}",)
        for group in schema.groups
        if len(group.registry) > 1
        for tag in group.registry
    ]
    for choice in chosen or [()]:
        parts = schema.chosen_options(choice)
        yield choice, schema.with_option_defaults(schema.keys(parts), parts)


@pytest.mark.parametrize("name", SPECS)
def test_every_key_of_every_option_is_listed_with_its_default_and_meaning(cli: Cli, name: str) -> None:
    for choice, keys in selections(SPECS[name]):
        out = " ".join(cli(name, *choice, "--help").out.split())
        algos = [word.removeprefix("algo=") for word in choice if word.startswith("algo=")]
        unused = {f"algo.{field}" for algo in algos for field in ALGO_CONFIGS[algo].drops}
        for key in keys:
            if key.name in unused:
                assert f" {key.name}=" not in out, (choice, key.name)
                continue
            assert f" {key.name}={value_text(key.default)} " in out, (choice, key.name)
            assert key.doc and key.doc in out


@pytest.mark.parametrize("name", SPECS)
def test_the_help_has_the_exit_codes_and_groups_of_the_command(cli: Cli, name: str) -> None:
    out = cli(name, "--help").out
    command = SPECS[name].command
    assert {int(code) for code in re.findall(r"^  (\d+) +\w", out, re.M)} == set(command.codes)
    for group in (*(g.name for g in command.schema.groups), *command.schema.presets):
        assert f"\n  {group:<9}" in out


# Wrong use


@dataclass(frozen=True)
class Mutant:
    """A valid command line with one wrong key or value."""

    base: tuple[str, ...]
    key: str
    value: Any
    says: tuple[str, ...]

    @property
    def override(self) -> str:
        """The override as a user types it."""
        return f"{self.key}={value_text(self.value).replace(chr(39), '')}"


def typo(name: str) -> str:
    """Return the name without the middle letter of its last part."""
    head, dot, last = name.rpartition(".")
    middle = len(last) // 2
    return f"{head}{dot}{last[:middle]}{last[middle + 1 :]}"


def outside(within: str) -> float:
    """Return a number below an interval, or above it if it has no lower end."""
    open_low, low, high, _ = parse_interval(within)
    if low == float("-inf"):
        return high + 1
    return low if open_low else low - 1


def mutants_of(key: Key, base: tuple[str, ...]) -> Iterator[Mutant]:
    """Yield one mutant of each kind that fits the key: a misspelt key, a wrong type, range or name."""
    last, several = key.name.rsplit(".", 1)[-1], "tuple" in str(key.hint)
    if len(last) > 4:
        yield Mutant(base, typo(key.name), 1, (f"unknown key '{typo(key.name)}'", f"'{key.name}'"))
    text = key.hint in (str, str | None)
    yield Mutant(base, key.name, {"a": 1} if text or several else "wat", (key.name, "expected"))
    if key.hint in (int, float, bool):
        yield Mutant(base, key.name, None, (key.name, "expected"))
    within, choices = key.field.metadata["within"], key.field.metadata["choices"]
    if within:
        value = [outside(within)] if several else outside(within)
        yield Mutant(base, key.name, value, (key.name, "expected"))
    if choices:
        value = [f"{choices[0]}x"] if several else f"{choices[0]}x"
        yield Mutant(base, key.name, value, (key.name, "expected", str(choices[0])))


def mutants(spec: CommandSpec) -> list[Mutant]:
    """Return the mutants of every key of every option; options that declare a key alike share its mutants."""
    found: dict[Any, list[Mutant]] = {}
    for choice, keys in selections(spec):
        for key in keys:
            alike = (key.name, str(key.hint), str(key.field.metadata), key.field.default)
            if alike not in found:
                found[alike] = list(mutants_of(key, (*choice, *spec.least)))
    return [mutant for group in found.values() for mutant in group]


@functools.cache
def composed(name: str, base: tuple[str, ...]) -> DictConfig:
    """Return the composed configuration of a command line."""
    found: list[DictConfig] = []
    compose.run(Call(commands.load(name), list(base), Signals()), found.append)
    return found[0]


@pytest.mark.parametrize("name", [spec.command.name for spec in keyed()])
def test_every_command_explains_each_wrong_key_and_value_of_its_config(name: str, workdir: Path) -> None:
    tried = mutants(SPECS[name])
    keys = {key.name for _, keys in selections(SPECS[name]) for key in keys}
    assert {m.key for m in tried} >= keys
    for mutant in tried:
        config = composed(name, mutant.base).copy()
        OmegaConf.update(config, mutant.key, mutant.value, merge=False, force_add=True)
        with pytest.raises(ConfigError) as raised:
            commands.load(name).check(config)
        text = str(raised.value)
        assert all(words in text for words in mutant.says), (mutant, text)
        assert ("unknown key" in text) == ("unknown key" in mutant.says[0]), (mutant, text)
        assert len(text.splitlines()) <= MAX_LINES
    assert list(workdir.iterdir()) == []


def typed(spec: CommandSpec) -> list[Mutant]:
    """Return one mutant of each kind for each part of the configuration, to be typed at the command line.

    Only RLOX_FULL types them under every option: all options share the path from words to the check,
    and another test gives every mutant to the check itself.
    """
    found: dict[Any, Mutant] = {}
    keys = {key.name: key for _, keys in selections(spec) for key in keys}
    for mutant in mutants(spec):
        if mutant.key in keys and keys[mutant.key].field.metadata["verbatim"]:
            continue  # every text is a valid value when it is typed
        kind = "typo" if "unknown" in mutant.says[0] else type(mutant.value).__name__
        part = mutant.key.split(".")[0] if "." in mutant.key else ""
        found.setdefault((mutant.base if FULL else (), part, kind), mutant)
    return list(found.values())


TYPED = [(spec.command.name, mutant) for spec in keyed() for mutant in typed(spec)]


@pytest.mark.parametrize(("name", "mutant"), TYPED, ids=lambda v: getattr(v, "override", v))
def test_a_wrong_key_or_value_ends_the_command_with_2_and_leaves_nothing(
    cli: Cli, tmp_path: Path, name: str, mutant: Mutant
) -> None:
    result = cli(name, *mutant.base, mutant.override)
    assert_explained(result, mutant.says[0], tmp_path)
    assert all(words in result.err for words in mutant.says)


CONFLICTS = [(name, args, hint) for name, spec in SPECS.items() for args, hint in spec.conflicts]


@pytest.mark.parametrize(("name", "args", "hint"), CONFLICTS)
def test_a_command_explains_conflicting_arguments_and_writes_no_files(
    cli: Cli, tmp_path: Path, name: str, args: tuple[str, ...], hint: str
) -> None:
    assert_explained(cli(name, *args), hint, tmp_path)


# Errors and events from outside


@pytest.fixture
def run(request: pytest.FixtureRequest, name: str) -> Path | None:
    """Return a run folder if the command needs one."""
    return request.getfixturevalue("trained") if SPECS[name].needs_run else None


def ended(spec: CommandSpec, result: Result, code: int) -> None:
    assert result.code == code, result.err
    assert code in spec.command.codes
    assert "Traceback" not in result.err + result.out


@pytest.mark.parametrize("name", SPECS)
def test_an_unwritable_path_exits_with_5_and_leaves_no_files(
    cli: Cli, tmp_path: Path, run: Path | None, name: str
) -> None:
    spec = SPECS[name]
    for args, place in spec.unwritable:
        blocked = Path(place.replace("RUN", str(run)))
        blocked.write_text("")
        before = tree(tmp_path)
        result = cli(name, *spec.given(run, *args))
        ended(spec, result, 5)
        assert "cannot be written" in result.err
        assert len(result.err.strip().splitlines()) <= MAX_LINES
        assert tree(tmp_path) == before
        blocked.unlink()


@pytest.mark.parametrize(
    ("name", "number", "code"),
    each_value_once([(name, *ended) for name in SPECS for ended in SIGNALS]),
)
def test_a_signal_ends_a_busy_command_with_the_exit_code_of_the_signal(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Path | None,
    name: str,
    number: int,
    code: int,
) -> None:
    spec, left = SPECS[name], [1]
    module, _, place = spec.busy.partition(":")
    owner, _, method = place.partition(".")

    def send(*args: Any, **options: Any) -> None:
        if left.pop() if left else 0:
            os.kill(os.getpid(), number)

    found = importlib.import_module(module)
    monkeypatch.setattr(*((getattr(found, owner), method) if method else (found, owner)), send)
    before = signal.getsignal(number)
    result = cli(name, *spec.given(run))
    assert not left, "the signal was never sent"
    ended(spec, result, code)
    assert signal.getsignal(number) == before
    assert not any(is_locked(lock.parent) for lock in tmp_path.rglob(".lock"))


class NobodyReads:
    """A standard output whose reader is closed."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.asked = 0

    def write(self, text: str) -> int:
        self.asked += 1
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        self.write("")

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("name", SPECS)
def test_a_closed_standard_output_does_not_end_the_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path | None, name: str
) -> None:
    spec = SPECS[name]
    written = [str(p.relative_to(tmp_path)) for p in works(cli, spec, run, tmp_path)]
    pipe = NobodyReads()
    monkeypatch.setattr(sys, "stdout", pipe)
    again = works(cli, spec, run, tmp_path)
    assert pipe.asked == 1, "what has failed once is not asked again"
    assert len(again) == len(written)
    assert bool(written) == bool(spec.unwritable)


def works(cli: Cli, spec: CommandSpec, run: Path | None, folder: Path) -> list[Path]:
    """Run the command; return the result files that it wrote."""
    since = {p: p.stat().st_mtime_ns for p in folder.rglob("*.json")}
    result = cli(spec.command.name, *spec.given(run))
    ended(spec, result, 0)
    return [p for p in folder.rglob("*.json") if since.get(p) != p.stat().st_mtime_ns]


@pytest.mark.parametrize("look", ["--help", "--cfg=job"])
@pytest.mark.parametrize("name", SPECS)
def test_output_into_a_closed_pipe_is_no_error(tmp_path: Path, name: str, look: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rlox_cli.main", name, look],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
