"""Tests that the nightly tier runs stages one by one, records each at once, and continues after a stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import nightly
import pytest
from helpers.checkout import code, git
from helpers.repositories import commit_all
from helpers.waiting import until
from nightly import REPORT, REPORTS, Stage, main, run

TESTS = Path(nightly.__file__).parent
JUNIT = (
    "<testsuites><testsuite>"
    "<testcase classname='a' name='test_one'/><testcase classname='a' name='test_two'/>"
    "<testcase classname='b' name='test_three'><failure/></testcase>"
    "<testcase classname='b' name='test_four'><skipped/></testcase>"
    "</testsuite></testsuites>"
)


def python(name: str, source: str) -> Stage:
    """Make a stage that appends its name to `ran` and then runs `source`."""
    note = f"from pathlib import Path; open('ran', 'a').write('{name} '); {source}"
    return Stage(name, f"what {name} shows", ("{python}", "-c", note))


GOOD = python("good", "Path(r'{junit}').write_text(" + repr(JUNIT.replace("<failure/>", "")) + ")")
BAD = python("bad", f"Path(r'{{junit}}').write_text({JUNIT!r}); print('see a/b in=/some/folder/x'); exit(3)")
COUNTED = python("counted", """Path(r'{record}').write_text('{{"caught": 7}}')""")
ABSENT = python("absent", "print('not available: no such Python'); exit(69)")
TABLE = (GOOD, BAD, COUNTED, ABSENT)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with one commit."""
    (tmp_path / REPORT).parent.mkdir(parents=True)
    (tmp_path / ".gitignore").write_text(".cache/\nran\ngate\ngroup\n", encoding="utf-8")
    (tmp_path / "code.py").write_text("A = 1\n", encoding="utf-8")
    commit_all(tmp_path)
    return tmp_path


def report(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / REPORT).read_text(encoding="utf-8"))
    return found


def ran(root: Path) -> list[str]:
    """Return the stages that have run, in order."""
    path = root / "ran"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def test_a_failing_stage_stops_no_other_and_the_exit_code_tells_it(root: Path) -> None:
    assert main([], TABLE, root) == 1
    assert ran(root) == ["good", "bad", "counted", "absent"]
    outcomes = {name: entry["outcome"] for name, entry in report(root).items()}
    assert outcomes == {
        "good": "passed", "bad": "failed", "counted": "passed", "absent": "not available",
    }  # fmt: skip
    assert main(["good", "absent"], TABLE, root) == 0


def test_the_report_has_counts_the_commit_and_the_machine(root: Path) -> None:
    main(["good", "bad", "absent"], TABLE, root)
    found = report(root)
    kinds = ("passed", "failed", "skipped")
    assert [found["good"][kind] for kind in kinds] == [3, 0, 1]
    assert [found["bad"][kind] for kind in kinds] == [2, 1, 1]
    assert found["bad"]["failures"] == ["b::test_three"]
    assert found["bad"]["why"] == "see a/b in=x"
    assert found["absent"]["why"] == "not available: no such Python"
    head = git(root, "rev-parse", "HEAD")
    for entry in found.values():
        assert (entry["commit"], entry["changed"]) == (head, False)
        assert entry["machine"]["cores"] == os.cpu_count()
        assert entry["date"].endswith("+00:00")


def test_the_nightly_report_contains_the_counts_that_a_script_prints(root: Path) -> None:
    main(["counted"], TABLE, root)
    assert report(root)["counted"]["counts"] == {"caught": 7}


def test_a_second_call_runs_only_stages_that_have_not_ended_with_this_code(root: Path) -> None:
    main(["good", "bad"], TABLE, root)
    assert main([], TABLE, root) == 1  # because of the recorded outcome
    assert ran(root) == ["good", "bad", "counted", "absent"]
    main(["--again"], (GOOD, BAD), root)
    main(["good"], TABLE, root)  # a stage that is named runs again
    assert ran(root)[4:] == ["good", "bad", "good"]
    (root / "code.py").write_text("A = 2\n", encoding="utf-8")
    main([], (GOOD,), root)
    assert report(root)["good"]["changed"] is True
    main([], (GOOD,), root)
    assert ran(root)[7:] == ["good"]


def test_a_second_nightly_call_repeats_unavailable_stages_and_those_of_another_machine(root: Path) -> None:
    main([], (GOOD, ABSENT), root)
    main([], (GOOD, ABSENT), root)
    assert ran(root) == ["good", "absent", "absent"]
    entry = report(root)["good"]
    nightly.add(root, "good", {**entry, "machine": {**entry["machine"], "cpu": "another"}})
    main([], (GOOD,), root)
    assert ran(root)[3:] == ["good"]


def test_a_commit_of_the_report_alone_repeats_no_stage(root: Path) -> None:
    main([], (GOOD,), root)
    before = code(root, REPORTS)
    commit_all(root, "report")
    after = code(root, REPORTS)
    assert (after["tree"], after["changed"]) == (before["tree"], False)
    assert after["commit"] != before["commit"]
    main([], (GOOD,), root)
    assert ran(root) == ["good"]


def test_reading_the_code_leaves_the_index_as_it_was(root: Path) -> None:
    (root / "fresh.py").write_text("B = 1\n", encoding="utf-8")
    assert code(root, REPORTS)["changed"] is True
    assert git(root, "status", "--porcelain") == "?? fresh.py"


def test_the_report_has_the_processor_seconds_of_a_stage_and_its_children(root: Path) -> None:
    work = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c',"
        "'import time' + chr(10) + 'while time.process_time() < 0.3: pass'])"
    )
    entry = run(python("busy", work), root)
    assert entry["cpu_seconds"] >= 0.3
    assert entry["seconds"] >= 0.3


def test_a_stage_that_hangs_is_stopped_and_has_failed(root: Path) -> None:
    entry = run(python("hanging", "import signal; signal.pause()"), root, seconds=0.5)
    assert (entry["outcome"], entry["why"]) == ("failed", "stopped after 0.5 s")


def gone(group: int) -> bool:
    """Return whether no process of the group runs; an unreaped zombie does not count."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return False
    return True


def test_a_stopped_nightly_run_continues_with_the_interrupted_stage(root: Path) -> None:
    # The waiting process ends with this test, even if the test fails.
    (root / "wait.py").write_text(
        "import time\nfrom pathlib import Path\n"
        f"while Path('/proc/{os.getpid()}').exists() and not Path('gate').exists(): time.sleep(0.01)\n"
    )
    waits = python(
        "waits",
        "import os, subprocess, sys; Path('group').write_text(f'{{os.getpid()}} ');"
        "subprocess.run([sys.executable, 'wait.py'])",
    )
    table = (GOOD, waits, COUNTED)
    for number, expected in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)):
        child = started(table, root)
        group = int(until(lambda: noted(root / "group"), "stage that waits"))
        child.send_signal(number)
        assert child.wait() == expected
        if number == signal.SIGKILL:  # the killed run could not stop its stage
            os.killpg(group, signal.SIGKILL)
        until(partial(gone, group), "end of the stage and its child")
        assert set(report(root)) == {"good"}
        (root / "group").unlink()
    assert ran(root) == ["good", "waits", "waits"]
    (root / "gate").touch()
    assert main([], table, root) == 0
    assert ran(root)[3:] == ["waits", "counted"]


def noted(path: Path) -> str:
    """Return the text that a stage has written, once it is complete."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text.strip() if text.endswith(" ") else ""


def started(table: tuple[Stage, ...], root: Path) -> subprocess.Popen[bytes]:
    """Run all stages of a table in a process."""
    source = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from pathlib import Path\nfrom nightly import Stage, main\n"
        f"sys.exit(main([], {table!r}, Path({str(root)!r})))"
    )
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)


def test_the_list_option_prints_stages_and_outcomes_and_runs_none(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["good"], TABLE, root)
    capsys.readouterr()
    assert main(["--list"], TABLE, root) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split(maxsplit=1) == ["good", "what good shows"]
    assert told[1].split()[:3] == ["passed", "3", "passed"]
    assert told[3].strip() == "not run"
    assert ran(root) == ["good"]


def test_a_stage_that_is_not_in_the_table_is_refused_by_name(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["god"], TABLE, root)
    assert refused.value.code == 2
    assert "no stage god: expected good, bad, counted, absent" in capsys.readouterr().err


def test_the_nightly_stages_name_existing_paths_and_cover_every_test_folder() -> None:
    words = {word for stage in nightly.STAGES for word in stage.command}
    named = {word for word in words if word.startswith("tests/")}
    assert all((TESTS.parent / word).exists() for word in named)
    with_tests = {p.relative_to(TESTS).parts[0] for p in TESTS.rglob("test_*.py")}
    assert {f"tests/{name}" for name in with_tests} <= named
    assert len({stage.name for stage in nightly.STAGES}) == len(nightly.STAGES)


def test_the_nightly_script_installs_with_the_command_in_contributing() -> None:
    script = (TESTS.parent / ".ci" / "nightly").read_text(encoding="utf-8")
    line = next(line for line in script.splitlines() if line.startswith("python3 -m venv"))
    page = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert line in page.splitlines()
