"""Tests that a report's page is one file, runs no code from runs, and is legible in both themes."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.reports import ReportPage, make_run

from rlox_cli.commands.report import ReportConfig
from rlox_cli.report import figures as styles
from rlox_cli.report import figures_plotly, page, tables
from rlox_cli.report.build import report
from rlox_cli.report.figures import Panel, Row
from rlox_cli.report.records import safe_text
from rlox_cli.report.tables import IntervalEstimate, Table

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>$x_1$ \u202e %{x} {{7*7}}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report, with all its files, on runs all of whose strings are attacks."""
    root = tmp_path_factory.mktemp("hostile")
    for seed in range(2):
        for number, method in enumerate((EVIL, "ppo")):
            options = {"algo": method, "env": EVIL, "seed": seed, "unit": "env_steps"}
            folder = root / f"<img src=x onerror=alert(1)>{seed}{number}"
            make_run(folder, 1.0 + seed, **options, provenance={EVIL: EVIL, "command": EVIL})
    make_run(root / "failed", None, status=EVIL, reason=EVIL, env=EVIL)
    assert report(ReportConfig(runs=(str(root),), resamples=100, title=EVIL)) == 0
    return root / "report"


def test_no_string_of_a_run_is_markup(hostile: Path) -> None:
    read = ReportPage(hostile / "report.html")
    assert "img" not in read.tags
    assert read.tags["script"] == 3
    assert read.handlers == []
    assert "<img src=x onerror=alert(1)>" in read.text, "it is shown as it is written"
    assert "\u202e" not in read.source, "nothing turns the direction of the text"


def test_the_policy_of_the_page_runs_its_own_two_scripts_only(hostile: Path) -> None:
    read = ReportPage(hostile / "report.html")
    allowed = re.search(r"script-src ([^;]*);", read.policy)
    assert allowed is not None
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in read.scripts[1:]
    ]
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert "default-src 'none'" in read.policy


def test_the_page_asks_for_nothing_outside_itself(hostile: Path) -> None:
    read = ReportPage(hostile / "report.html")
    assert read.addresses
    assert {address[:1] for address in read.addresses} == {"#"}
    assert "@import" not in read.source.partition("</style>")[0]


def test_plotly_gets_text_without_tags(hostile: Path) -> None:
    panels = ReportPage(hostile / "report.html").data["panels"]
    said = [
        value
        for panel in panels.values()
        for trace in panel["data"]
        for value in (trace.get("name"), *trace.get("text", ()))
        if value
    ]
    said += [a["text"] for p in panels.values() for a in p["layout"].get("annotations", ())]
    assert any("&lt;img" in value for value in said)
    assert not any("<" in value for value in said)
    templates = [t.get("hovertemplate", "") for p in panels.values() for t in p["data"]]
    assert not any("img" in template for template in templates)


def test_every_figure_is_beside_the_page_in_each_format_and_holds_no_markup(hostile: Path) -> None:
    drawn = {path.stem for path in (hostile / "figures").iterdir()}
    shown = {name.split("-")[1] for name in ReportPage(hostile / "report.html").data["panels"]}
    assert drawn == shown
    for name in drawn:
        assert (hostile / f"figures/{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (hostile / f"figures/{name}.pdf").read_bytes()[:4] == b"%PDF"
        assert "<img" not in (hostile / f"figures/{name}.svg").read_text()


def test_tables_beside_the_page_hold_no_markup_and_no_commands(hostile: Path) -> None:
    files = list((hostile / "tables").iterdir())
    assert {path.suffix for path in files} == {".md", ".tex"}
    for path in files:
        assert "<img" not in path.read_text()
        assert not re.search(r"(?<!\\)\$", path.read_text())


def test_plotly_takes_the_figures_as_they_are(hostile: Path) -> None:
    from plotly.graph_objects import Figure

    panels = ReportPage(hostile / "report.html").data["panels"]
    kinds = {trace["type"] for panel in panels.values() for trace in panel["data"]}
    assert kinds == {"scatter", "bar"}
    for panel in panels.values():
        assert len(Figure(panel).data) == len(panel["data"])  # it raises for an unknown name


def test_latex_and_markdown_tables_escape_special_characters() -> None:
    row = ["a_b & 50% #1 ~^\\{}", IntervalEstimate(1.0, 0.5, 2.0)]
    table = Table("x", "T_1", "C & D", ("a|b", "n"), [row])
    assert r"a\_b \& 50\% \#1 \textasciitilde{}\textasciicircum{}\textbackslash{}\{\} & 1.000 {[}0.500" in (
        tables.to_latex(table)
    )
    lines = tables.to_markdown(table).splitlines()
    assert lines[2] == r"| a\|b | n |"
    assert lines[4].startswith(r"| a\_b &amp; 50% \#1 \~^\\{} | 1.000 \[0.500, 2.000\]")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a\nb", "a b"),
        ("\x1b[31m", "\\u001b[31m"),
        ("\ud800", "\\ud800"),
        (None, ""),
        ("x" * 300, "x" * 199 + "\u2026"),
    ],
    ids=["newline", "escape", "surrogate", "nothing", "long"],
)
def test_safe_text_escapes_unprintable_characters_and_shortens_text(given: str | None, said: str) -> None:
    assert safe_text(given) == said


def luminance(colour: str) -> float:
    """Return the relative luminance as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_ground_of_their_theme(theme: str) -> None:
    look = page.THEMES[theme]
    ground = luminance(str(look["ground"]))
    for colour, least in [
        *((c, 3.0) for c in look["colours"]),
        (look["text"], 4.5),
        (look["soft"], 4.5),
    ]:
        bright, dim = sorted((ground, luminance(str(colour))), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= least, colour
    assert styles.BACKGROUND[theme] == look["ground"]


def test_methods_are_told_apart_without_colour() -> None:
    looks = [(styles.dash(place), styles.mark(place)) for place in range(12)]
    assert len(set(looks)) == 12


def test_a_row_with_one_run_has_no_bar() -> None:
    rows = [Row("a", 0, IntervalEstimate(1.0)), Row("b", 1, IntervalEstimate(1.0, 0.5, 2.0))]
    one, two = figures_plotly.panel_spec(Panel("t", "x", rows=rows))["data"]
    assert "error_x" not in one
    assert (two["error_x"]["array"], two["error_x"]["arrayminus"]) == ([1.0], [0.5])


def test_a_report_imports_no_torch(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 5.0)
    code = (
        "import sys; from rlox_cli.main import main; "
        "code = main(['report', 'run', 'formats=[]', 'resamples=100']); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
