"""Tests that rlox accepts every command of README and the pages, and that files named in commands exist.

Commands of `rlox` are composed and checked in this process, with replaced placeholders; they train nothing.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
from helpers.cli import TINY

from rlox_cli import commands
from rlox_cli.config import changes
from rlox_cli.main import main
from rlox_cli.runs import plot
from rlox_cli.runs.resume import ResumePlan, find_run

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    p for pattern in ("*.md", "docs/*.md", "rust/*/*.md", "experiments/*/*.md") for p in ROOT.glob(pattern)
)
Shown = tuple[Path, str]
# Placeholders for a run folder, a sweep, a dataset, a model.
RUN = re.compile(r"^(?:run=|resume=|policy=|init_from=)?(?:RUN|OTHER|runs/[\w/.-]+/NAME)$")
MODULES = {
    "my_pkg": (
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "from helpers.user_code import TenthReward as Shaped, wide_net as Net\n"
        "gym.register('MyEnv-v0', CartPoleEnv, max_episode_steps=500)\n"
    ),
    "my_env": (
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Reach(CartPoleEnv):\n"
        "    def __init__(self, step=0.1, render_mode=None):\n"
        "        super().__init__(render_mode=render_mode)\n"
        "gym.register('Reach-v0', Reach, max_episode_steps=30)\n"
    ),
    "my_module": "def reward(completions, prompts):\n    return [0.0] * len(completions)\n",
}
FILES = {
    "conversations.jsonl": '{"prompt": "1 + 1", "completion": "2"}\n',
    "questions.jsonl": '{"prompt": "1 + 1", "answer": "2"}\n',
    "pairs.jsonl": '{"prompt": "1 + 1", "chosen": "2", "rejected": "3"}\n',
    "test.jsonl": '{"prompt": "1 + 2", "chosen": "3", "rejected": "4"}\n',
}
# Commands that need another package; that test installs it and trains with it.
ELSEWHERE = {
    "rlox train algo=vpg logger=sqlite run.name=NAME": "tests/packaging/test_plugin.py",
    "rlox train algo=sac env=Pendulum-v1 buffer=newest": "tests/unit/cli/test_buffer_plugins.py",
    **dict.fromkeys(
        (
            "rlox train algo=ppo_kl env=CartPole-v1 algo.kl_target=0.02",
            "rlox train algo=ppo env=Set-v0 algo.policy=rlox_extending.attention:Attention "
            "algo.learning_rate=1e-3",
            "rlox train algo=two_ppo env=Meeting-v0 algo.policy=rlox_extending.two_ppo:Team",
            "rlox train algo=dqn env=CartPole-v1 buffer=lambda buffer.lam=0.8 algo.n_step=8",
        ),
        "tests/packaging/test_extending.py",
    ),
}


def blocks(page: Path) -> list[str]:
    """Return the shell blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def lines_of(page: Path) -> Iterator[str]:
    """Yield each command of a page's shell blocks, without comments."""
    for block in blocks(page):
        for line in block.splitlines():
            words = " ".join(re.sub(r"(?:^|\s)#.*", "", line).split())
            parts = re.split(r"; ", words) if words.startswith("(") else words.split(" && ")
            yield from filter(None, parts)


def rlox_of(line: str) -> str | None:
    """Return the `rlox ...` of a line: alone, from the environment, in a substitution, under torchrun."""
    line = re.sub(r"^source <\((.*)\)$|^(.*) \| source$", r"\1\2", line)
    line = re.sub(r"^torchrun .* -m rlox ", "rlox ", line)
    line = line.removeprefix(".venv/bin/")
    return line if re.match(r"rlox(?: |$)", line) else None


ALL: list[Shown] = [(page, line) for page in PAGES for line in lines_of(page)]
# A line that several pages show is tested once.
RLOX: list[Shown] = [(page, x) for x, page in {x: p for p, x in ALL if rlox_of(x)}.items()]
SCRIPTS: list[Shown] = [(p, x) for p, x in ALL if re.search(r"python benchmarks/|python tests/", x)]
CARGO: list[Shown] = [(page, line) for page, line in ALL if re.search(r"\bcargo \w", line)]
TORCHRUN: list[Shown] = [(page, line) for page, line in ALL if line.startswith("torchrun ")]


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a finished run folder, for every placeholder of one."""
    folder = tmp_path_factory.mktemp("shown") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plot, "learning_curve", lambda run: None)
        assert main(["train", "env=CartPole-v1", *TINY, f"hydra.run.dir={folder}"]) == 0
    return folder


@pytest.fixture
def place(run: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working folder with the modules and files of a page's reader."""
    for name, code in MODULES.items():
        (workdir / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    for own in ("MyEnv-v0", "Reach-v0"):
        gym.registry.pop(own, None)
    for name, text in FILES.items():
        (workdir / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")  # as the page exports it
    monkeypatch.syspath_prepend(str(workdir))
    return workdir


def with_run(arguments: list[str], run: Path) -> list[str]:
    """Replace the placeholder of a run folder in the arguments."""
    return [f"{a.rpartition('=')[0]}={run}".removeprefix("=") if RUN.match(a) else a for a in arguments]


def first_values(arguments: list[str]) -> list[str]:
    """Keep the first of several values of a sweep, because a whole sweep has many configurations."""
    found = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        inner = re.sub(r"^(?:tag\(\w+,|range\(|interval\(|choice\()+", "", value)
        several = inner != value or ("," in value and value[0] not in "[{")
        found.append(f"{key}{equals}{inner.split(',')[0]}" if several else argument)
    return found


@pytest.mark.parametrize(("page", "line"), RLOX, ids=name_of)
def test_a_command_that_a_page_shows_is_a_valid_configuration(
    page: Path, line: str, run: Path, place: Path, capsys: pytest.CaptureFixture[str]
):
    if line in ELSEWHERE:
        assert line.split()[2] in (ROOT / ELSEWHERE[line]).read_text(encoding="utf-8")
        return
    arguments = with_run(shlex.split(rlox_of(line) or "")[1:], run)
    if arguments[:1] == ["resume"] or any(a.startswith("resume=") for a in arguments):
        require_resumable(arguments)
        return
    if arguments[:1] == ["sweep"]:
        arguments = first_values(arguments)
    show = [] if {"--cfg", "--help"} & set(arguments) else ["--cfg", "job"]
    code = main([*arguments, *show])
    captured = capsys.readouterr()
    if "needs" in captured.err and "pip install" in captured.err:
        pytest.skip(f"extra not installed: {captured.err.strip()}")
    assert code == 0, captured.err
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key == "env" and value:
            assert f"id: {value}" in captured.out
        elif re.fullmatch(r"(?!hydra|sweep|search|tuned)[\w.]+", key) and value:
            assert f"{key.rpartition('.')[2]}:" in captured.out


def require_resumable(arguments: list[str]) -> None:
    """Require that the run is found and that the line's changes are allowed."""
    command, *rest = arguments
    train = commands.load("train")
    assert train.alias is not None
    name, overrides = changes.split_resume(train.alias.expand(rest) if command == "resume" else rest)
    folder = Path(shutil.copytree(find_run(name), "resumed"))
    if own := [o.partition("=")[2] for o in overrides if o.startswith("env=")]:
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("id: CartPole-v1", f"id: {own[0]}"))
    plan = ResumePlan.read(find_run(str(folder)), overrides)
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "total_steps":
            assert plan.config.total_steps == float(value)


def test_every_command_refuses_a_misspelt_key(run: Path, place: Path, capsys: pytest.CaptureFixture[str]):
    for command in (
        "train",
        "sweep",
        "evaluate",
        "export",
        "report",
        "sync",
        "check",
        "list",
        "bench",
    ):
        named = [str(run)] if command in ("evaluate", "export", "report", "sync") else []
        assert main([command, *named, "spelt.wrong=1", "--cfg", "job"]) == 2, command
        assert "spelt" in capsys.readouterr().err
    with pytest.raises(Exception, match="spelt"):
        require_resumable(["resume", str(run), "spelt.wrong=1"])


def test_the_documentation_pages_show_every_rlox_command():
    shown = {shlex.split(rlox_of(line) or "")[1] for _, line in RLOX}
    aliases = {c.alias.name for c in map(commands.load, commands.names()) if c.alias}
    assert shown == {*commands.names(), *aliases}


@pytest.mark.parametrize(("page", "line"), TORCHRUN, ids=name_of)
def test_torchrun_takes_its_part_of_a_line(page: Path, line: str):
    from torch.distributed.run import get_args_parser

    parsed = get_args_parser().parse_args(shlex.split(line)[1:])
    assert parsed.module is True
    assert parsed.training_script == "rlox"
    assert parsed.nproc_per_node == "2"


@pytest.mark.parametrize(("page", "line"), SCRIPTS, ids=name_of)
def test_scripts_on_pages_exist_and_have_the_shown_options(page: Path, line: str):
    words = shlex.split(line)
    script = next(w for w in words if re.match(r"(?:benchmarks|tests)/.*\.py$", w))
    sources = [ROOT / script, *(ROOT / "benchmarks" / "harness").glob("*.py")]
    sources += [p for p in (ROOT / script).parent.glob("*.py") if p.stem == "classic_control"]
    text = "".join(p.read_text(encoding="utf-8") for p in sources)
    options = [w.partition("=")[0] for w in words[words.index(script) :] if w.startswith("--")]
    assert (ROOT / script).is_file()
    assert [o for o in options if f'"{o}"' not in text] == []
    for given in words[words.index(script) + 1 :]:
        if given.startswith(("rlox/", "tests/")):
            assert (ROOT / given).exists(), given


@pytest.mark.parametrize(("page", "line"), CARGO, ids=name_of)
def test_a_crate_example_or_binary_that_a_page_names_is_there(page: Path, line: str):
    words = shlex.split(line.strip("();"))
    here = page.parent if page.parent.parent.name == "rust" else ROOT
    if (found := re.search(r"\bcd (\S+)", line)) is not None:
        here = ROOT / found[1]
    named = dict(itertools.pairwise(words))
    crate = ROOT / "rust" / named["-p"] if "-p" in named else here
    assert (crate / "Cargo.toml").is_file()
    if "--example" in named:
        assert (crate / "examples" / f"{named['--example']}.rs").is_file()
    if "--bin" in named:
        assert (crate / "src" / "bin" / f"{named['--bin']}.rs").is_file()


def test_the_rust_code_of_the_export_page_equals_the_crates_doctest():
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```rust\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    source = (ROOT / "rust/rlox-nn/src/exported/mod.rs").read_text(encoding="utf-8")
    lines = [x[3:].removeprefix(" ") for x in source.splitlines() if x.startswith("//!")]
    (doctest,) = re.findall(r"^```no_run\n(.*?)^```", "\n".join(lines), re.MULTILINE | re.DOTALL)
    assert block == "".join(f"{x}\n" for x in doctest.splitlines() if not x.startswith("# "))
