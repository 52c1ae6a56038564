"""Tests that the documents' commands, outputs, Python examples and links work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from rlox_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(
    p
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "rust/*/*.md",
        "experiments/**/*.md",
        "benchmarks/**/*.md",
        "tests/*.md",
        "tests/faults/*.md",
        "tests/golden/*.md",
    )
    for p in ROOT.glob(pattern)
)


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


SETUPS = [line for b in blocks("sh") for line in b.splitlines() if line.startswith("python3 ")]


def rlox(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the rlox command of this environment."""
    return subprocess.run(
        [Path(sys.executable).with_name("rlox"), *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_readme_begins_with_one_command_each_to_train_and_to_test():
    assert len(SETUPS) == 2
    assert "rlox train" in SETUPS[0]
    assert SETUPS[1].endswith("pytest -n 2")


@pytest.mark.parametrize("command", SETUPS)
def test_ci_runs_the_readmes_command_as_written(command):
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_readme_names_the_command_and_the_cost_of_the_setup():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "you can run `.venv/bin/rlox`, or `rlox` after `source .venv/bin/activate`" in text
    assert re.search(r"It needs .*`cargo`.*, \d+ GB of disk .* and about \w+ minutes", text)
    assert "https://pytorch.org/get-started" in text


def test_output_in_the_readme_equals_that_of_the_command(workdir):
    dialogues = [b.partition("\n") for b in blocks("text") if b.startswith("$ rlox")]
    assert dialogues
    for command, _, shown in dialogues:
        assert rlox(shlex.split(command)[2:], workdir).stdout == shown


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_a_python_block_of_the_readme_runs(number, workdir):
    # 50,000 steps take half a minute; the printed numbers are not checked here
    code = blocks("python")[number].replace("50_000", "4_096")
    names: dict[str, object] = {}
    exec(compile(code, f"README.md, python block {number}", "exec", dont_inherit=True), names)
    assert {"trainer", "collector"} & names.keys()


def shown_in(page: Path, language: str) -> list[str]:
    """Return the code blocks of one language on a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


TESTS_PAGE = ROOT / "tests" / "README.md"  # its blocks are tests
OTHERS = [p for p in PAGES if p != ROOT / "README.md" and p.relative_to(ROOT).parts[0] != "tests"]
# Its blocks are parts of files; tests/packaging/test_extending.py checks them.
PARTS_PAGE = ROOT / "docs" / "extending.md"
PYTHON = [(p, number) for p in OTHERS if p != PARTS_PAGE for number in range(len(shown_in(p, "python")))]


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(("page", "number"), PYTHON, ids=name_of)
def test_a_python_block_of_a_page_runs(page, number, workdir):
    names: dict[str, object] = {}
    block = shown_in(page, "python")[number]
    # without the future imports of this file, which turn annotations into text
    exec(compile(block, f"{page}, python block {number}", "exec", dont_inherit=True), names)
    assert len(names) > 1, "a block that makes nothing"


# Settings of the files that pages show, as `--cfg all` prints them.
SETS = {
    "five_seeds": "seed: range(0,5)",
    "ppo_big": "net_arch:\n  - 256\n  - 256\n",
    "mine": "algo.net_arch: choice([64,64],[256,256])\n",
}


@pytest.mark.parametrize(
    ("page", "block"), [(p, b) for p in OTHERS for b in shown_in(p, "yaml")], ids=name_of
)
def test_a_file_that_a_page_shows_composes(page, block, workdir, capsys):
    place = re.search(r"^# FOLDER/(\w+)/(\w+)\.yaml$", block, re.MULTILINE)  # the file's path
    assert place is not None
    group, name = place.groups()
    (workdir / "conf" / group).mkdir(parents=True)
    (workdir / "conf" / group / f"{name}.yaml").write_text(block, encoding="utf-8")
    code = main(["sweep", "--config-dir", "conf", f"{group}={name}", "--cfg", "all"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert SETS[name] in captured.out


@pytest.mark.parametrize("number", range(len(shown_in(TESTS_PAGE, "python"))))
def test_an_example_of_the_page_on_tests_passes(number, request):
    names: dict[str, object] = {}
    block = shown_in(TESTS_PAGE, "python")[number]
    exec(compile(block, f"{TESTS_PAGE.name}, block {number}", "exec", dont_inherit=True), names)
    (example,) = [value for name, value in names.items() if name.startswith("test_")]
    wanted = signature(example).parameters
    assert example(**{name: request.getfixturevalue(name) for name in wanted}) is None


def test_the_checked_python_blocks_include_the_readme_and_buffers_page():
    assert {page.name for page, _ in PYTHON} >= {"buffers.md", "README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [t for t in targets if t and not re.match(r"\w+:", t)]
    assert [t for t in local if not (page.parent / t).exists()] == []
