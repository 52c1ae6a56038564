"""Tests that README's figures are those that `benchmarks/readme_tables.py` makes from committed results."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import readme_tables
from readme_tables import BLOCK, README, RESULTS, ROOT, main, rewrite_blocks

TEXT = README.read_text(encoding="utf-8")
NAMED = ("training", "ppo_training", "all")


def results_of(name: str) -> Any:
    return json.loads((ROOT / RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def commits() -> dict[str, str]:
    """Return the commit of each committed figure, by its place."""
    found = {f"learning {t['env']}": t["commit"]["id"] for t in results_of("learning")["tasks"]}
    found |= {name: results_of(name)["commit"]["id"] for name in NAMED}
    report = json.loads((ROOT / "benchmarks/reliability/report.json").read_text(encoding="utf-8"))
    return found | {name: entry["commit"]["id"] for name, entry in report.items()}


def test_the_readme_shows_the_figures_of_the_committed_results():
    assert rewrite_blocks(TEXT) == TEXT, "python benchmarks/readme_tables.py writes them"


def test_every_table_of_the_readmes_measurements_stands_in_a_block():
    measured = TEXT[TEXT.index("## Measured") : TEXT.index("## More")]
    assert "\n|" not in BLOCK.sub("", measured)


def test_the_check_finds_one_changed_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "README.md"
    monkeypatch.setattr(readme_tables, "README", page)
    first = next(match[3] for match in BLOCK.finditer(TEXT))
    figure = next(c for c in first if c.isdigit())
    page.write_text(TEXT.replace(first, first.replace(figure, "x", 1)), encoding="utf-8")
    assert main(["--check"]) == 1
    assert "differs" in capsys.readouterr().out
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert page.read_text(encoding="utf-8") == TEXT


def test_a_page_without_one_of_the_blocks_is_refused():
    with pytest.raises(SystemExit, match="expected"):
        rewrite_blocks(TEXT.replace("figures: ppo", "figures: other"))


def test_a_row_that_no_committed_results_have_is_refused(tmp_path: Path):
    report = results_of("all")
    kept = [c for c in report["cases"] if not c["work"].startswith("push of one transition")]
    (tmp_path / RESULTS).mkdir(parents=True)
    document = json.dumps({**report, "cases": kept})
    (tmp_path / RESULTS / "all.json").write_text(document, encoding="utf-8")
    with pytest.raises(SystemExit, match="does not have push of one transition"):
        readme_tables.primitives(tmp_path)


def test_a_ratio_near_one_is_not_rounded_to_one():
    assert [readme_tables.format_ratio(ratio) for ratio in (0.951, 1.049, 2.04)] == [
        "0.95x",
        "1.05x",
        "2.0x",
    ]


def test_a_ratio_whose_interval_is_below_one_is_called_slower():
    fastest = {"ours": "rlox", "peer": "NumPy", "ratio": 0.8, "fastest": True, "low": 0.7}
    case = {"comparisons": [{**fastest, "high": 0.9}], "verdicts": []}
    assert readme_tables.cell(case, "rlox") == ("0.80x (slower)", "NumPy")
    case = {"comparisons": [{**fastest, "high": 1.1}], "verdicts": []}
    assert readme_tables.cell(case, "rlox") == ("0.80x", "NumPy")


def test_the_commits_that_figures_name_are_in_the_history():
    known = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"],
        capture_output=True,
        text=True,
        check=False,
    )
    if known.stdout.strip() != "false":
        pytest.skip("the history is not here")
    asked = sorted(set(commits().values()))
    answer = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "--batch-check"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[:2] for line in answer.stdout.splitlines()] == [
        [commit, "commit"] for commit in asked
    ]
