"""Tests `tests/rename.py` on a small repository: its renames, refusals, and the changes its proof detects."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from renaming.apply import make_plan, places_in_text, write
from renaming.draw import KINDS, draw
from renaming.embedded import repair_fstrings
from renaming.proof import compare_all
from renaming.rust import difference
from renaming.sources import Source, read_sources
from renaming.table import Row, read_table

FILES = {
    "pyproject.toml": '[[tool.mypy.overrides]]\nmodule = ["pytest.*"]\nfollow_imports = "skip"\n',
    "docs/page.md": "A `Told` has `found`.\n",
    "rlox/__init__.py": """
TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlox.told import Told
_HOMES = {"told": ["Told"]}


def __getattr__(name): ...
""",
    "rlox/configs/__init__.py": "",
    "rlox/configs/run.py": """
class Settings:
    typed: int = 3

    def looked(self) -> int:
        return self.typed
""",
    "rlox/told.py": '''
"""A `Told` is found."""
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

__all__ = ["Told", "made", "LIMIT"]
LIMIT = 3
Kind = TypeVar("Kind", bound="Told")
Alias = dict["Told", int]


class Speaks(Protocol):
    def said(self, how: int) -> int: ...


@dataclass
class Told:
    found: int
    given: int = 0

    def said(self, how: int) -> int:
        return self.found + how  # found stays in comments

    @property
    def seen(self) -> int:
        return self.given


class Other:
    __slots__ = ("found", "kept")

    def __init__(self, found: int) -> None:
        self.found = found
        self.kept = found


class Sub(Told):
    def said(self, how: int) -> int:
        return super().said(how=how) + self.found


class Pair(NamedTuple):
    one: int


@dataclass
class Saved:
    key: int

    def stored(self) -> object:
        return asdict(self)


class Talker:
    def said(self, how: int) -> int:
        return how


class Child(dict[str, int]):
    def update(self, *many: object) -> None: ...


def made(seen: int) -> Told:
    return replace(Told(found=seen), found=LIMIT)


def counted(given: int) -> object:
    LIMIT_HERE = given

    def inner() -> int:
        nonlocal given
        given += 1
        return given

    squares = [given * number for given in range(3) for number in range(given)]
    try:
        many = (best := inner())
    except ValueError as problem:
        raise problem from None
    text = f"{given:>{best}} {given!r} {{given}} " f"{squares[0]}"
    return lambda given=given: (given, many, text, LIMIT_HERE)


def shadowing(name: int) -> int:
    other = name
    return len([other]) + LIMIT


def hidden(way: int) -> object:
    other = way
    return [way + other for thing in range(3)]
''',
    "rlox/use.py": """
import os
from functools import partial

import rlox.told
from rlox import told
from rlox.told import LIMIT as MOST
from rlox.told import Other, Pair, Speaks, Told, made


def go(speaker: Speaks, other: Other) -> object:
    it = made(seen=3)
    print(it.found, other.found, it.said(how=3), speaker.said(how=2), told.made(MOST))
    match it:
        case Told(found=found):
            print(found)
    print(getattr(it, "found"), Pair(one=1)._replace(one=2), rlox.told.LIMIT, it.seen)
    return partial(made, seen=3)


def unknown(thing, stranger):
    print(thing.kept, thing.found, os.path.kept)
    return stranger.capitalize()


def passing(**options) -> object:
    return made(**options)


def clash() -> int:
    message = 3
    return message + told.LIMIT


passing(seen=4)
HOME = "rlox.told:made"
FILE = "rlox/told.py"
CODE = "from rlox.told import made\\nit = made(seen=3)\\nprint(it.found)"
PART = "from rlox.told import made, {}"
""",
    "tests/test_it.py": """
import pytest
from rlox.use import made


@pytest.fixture
def thing():
    return made(2)


@pytest.mark.parametrize("seen, b", [(1, 2)])
def test_a(thing, seen, b, monkeypatch):
    assert thing.found == seen
    monkeypatch.setattr(thing, "found", 3)
    monkeypatch.setattr("rlox.told.made", 3)
""",
}
TABLE = """kind\tpath\tscope\told\tnew\twhy
module\trlox/told.py\t\ttold\tmessage\tnoun
class\trlox/told.py\t\tTold\tMessage\tnoun
attribute\trlox/told.py\tTold\tfound\tn_found\tcount
property\trlox/told.py\tTold\tseen\tn_given\tcount
method\trlox/told.py\tTold\tsaid\tsay\tverb
parameter\trlox/told.py\tTold.said\thow\tvolume\tnoun
attribute\trlox/told.py\tOther\tkept\tstored\tusual
attribute\trlox/told.py\tPair\tone\tfirst\tusual
function\trlox/told.py\t\tmade\tmake_message\tverb
variable\trlox/told.py\t\tKind\tMessageT\tusual
constant\trlox/told.py\t\tLIMIT\tMAX_FOUND\tplain
parameter\trlox/told.py\tmade\tseen\tcount\tcount
parameter\trlox/told.py\tcounted\tgiven\tstart\tplain
local\trlox/told.py\tcounted\tbest\tn_digits\tplain
local\trlox/told.py\tcounted\tproblem\terror\tplain
local\trlox/told.py\tcounted\tmany\tsquares\tclash
local\trlox/told.py\tshadowing\tother\tlen\thides the builtin
local\trlox/told.py\thidden\tother\tthing\tcaptured
attribute\trlox/told.py\tSaved\tkey\tsaved_key\tis saved
method\trlox/told.py\tChild\tupdate\tadd\toverrides dict
attribute\trlox/configs/run.py\tSettings\ttyped\tn_typed\ta key
method\trlox/configs/run.py\tSettings\tlooked\tlook\tverb
local\trlox/told.py\tgone\ta\tb\tnot there
function\ttests/test_it.py\t\tthing\tmessage\tfixture
parameter\ttests/test_it.py\ttest_a\tseen\tcount\tplain
parameter\ttests/test_it.py\ttest_a\tmonkeypatch\tpatch\tof pytest
rust_fn\trust/x.rs\t\ta\tb\tRust
"""


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return the repository after the renames, its earlier content, and the plan."""
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.removeprefix("\n"), encoding="utf-8")
    (root / "table.tsv").write_text(TABLE, encoding="utf-8")
    git(root, "init", "-q")
    git(root, "add", ".")
    rows = read_table(root / "table.tsv")
    before = read_sources(root)
    program, plan = make_plan(root, rows, root / ".cache")
    write(root, program, plan, root / ".cache" / "record.json")
    git(root, "add", ".")
    texts = {path: source.text for path, source in read_sources(root).items()}
    refused = {(row.old, row.new): reason for row, reason in plan.choice.refused}
    return SimpleNamespace(root=root, rows=rows, before=before, plan=plan, texts=texts, refused=refused)


def lines(text: str, *wanted: str) -> bool:
    return set(wanted) <= {line.strip() for line in text.splitlines()}


def test_a_module_moves_and_its_imports_follow(renamed):
    assert "rlox/told.py" not in renamed.texts
    use = renamed.texts["rlox/use.py"]
    assert lines(use, "import rlox.message")
    assert 'HOME = "rlox.message:make_message"' in use
    assert 'FILE = "rlox/message.py"' in use


def test_classes_functions_and_constants_follow_their_imports(renamed):
    use = renamed.texts["rlox/use.py"]
    assert lines(
        use,
        "from rlox.message import MAX_FOUND as MOST",
        "from rlox.message import Other, Pair, Speaks, Message, make_message",
        "it = make_message(count=3)",
        "return partial(make_message, count=3)",
        "passing(count=4)",
    )
    assert "rlox.message.MAX_FOUND" in use


def test_an_import_whose_new_name_is_taken_is_kept_by_an_as(renamed):
    use = renamed.texts["rlox/use.py"]
    assert lines(use, "from rlox import message as told", "message = 3", "return message + told.MAX_FOUND")
    assert "told.make_message(MOST)" in use
    assert any(note.startswith("kept by an `as`: rlox/use.py:told") for note in renamed.plan.notes)


def test_types_in_quotes_and_names_of_type_variables_follow(renamed):
    text = renamed.texts["rlox/message.py"]
    assert lines(text, 'MessageT = TypeVar("MessageT", bound="Message")', 'Alias = dict["Message", int]')


def test_all_and_tables_of_late_imports_follow(renamed):
    assert '__all__ = ["Message", "make_message", "MAX_FOUND"]' in renamed.texts["rlox/message.py"]
    assert '_HOMES = {"message": ["Message"]}' in renamed.texts["rlox/__init__.py"]


def test_an_attribute_is_renamed_in_its_class_only(renamed):
    assert "print(it.n_found, other.found, it.say(volume=3)" in renamed.texts["rlox/use.py"]
    assert '__slots__ = ("found", "stored")' in renamed.texts["rlox/message.py"]


def test_fields_are_keywords_of_constructors_copies_and_patterns(renamed):
    assert "replace(Message(n_found=count), n_found=MAX_FOUND)" in renamed.texts["rlox/message.py"]
    use = renamed.texts["rlox/use.py"]
    assert "case Message(n_found=found):" in use
    assert "Pair(first=1)._replace(first=2)" in use
    assert 'getattr(it, "n_found")' in use


def test_overrides_and_protocols_follow_with_their_parameters(renamed):
    text = renamed.texts["rlox/message.py"]
    assert text.count("def say(self, volume: int) -> int") == 4
    assert "super().say(volume=volume) + self.n_found" in text
    assert "speaker.say(volume=2)" in renamed.texts["rlox/use.py"]


def test_a_local_follows_closures_comprehensions_and_f_strings(renamed):
    text = renamed.texts["rlox/message.py"]
    assert lines(text, "nonlocal start", "start += 1", "except ValueError as error:", "raise error from None")
    assert 'f"{start:>{n_digits}} {start!r} {{given}} " f"{squares[0]}"' in text
    assert "[start * number for start in range(3) for number in range(start)]" in text
    assert "return lambda start=start: (start, many, text, LIMIT_HERE)" in text


def test_comments_and_docstrings_stay_and_are_listed(renamed):
    text = renamed.texts["rlox/message.py"]
    assert '"""A `Told` is found."""' in text
    assert "# found stays in comments" in text
    listed = places_in_text(renamed.root, renamed.plan)
    assert "docs/page.md:1: `Told` is now Message" in listed


def test_colliding_names_are_refused(renamed):
    assert "already" in renamed.refused["many", "squares"]
    assert "hide" in renamed.refused["other", "len"]
    assert "hide" in renamed.refused["other", "thing"]
    assert "return len([other]) + MAX_FOUND" in renamed.texts["rlox/message.py"]


def test_names_of_other_packages_and_configuration_keys_are_refused(renamed):
    assert "another package" in renamed.refused["update", "add"]
    assert "another package" in renamed.refused["monkeypatch", "patch"]
    assert renamed.refused["typed", "n_typed"] == "a config key"
    assert renamed.refused["key", "saved_key"].startswith("a key of what is made at rlox/told.py:")
    assert "def look(self)" in renamed.texts["rlox/configs/run.py"]


def test_fixtures_and_their_parameters_are_one_name(renamed):
    text = renamed.texts["tests/test_it.py"]
    assert lines(
        text,
        "def message():",
        '@pytest.mark.parametrize("count, b", [(1, 2)])',
        "def test_a(message, count, b, monkeypatch):",
        "assert message.n_found == count",
        'monkeypatch.setattr(message, "n_found", 3)',
        'monkeypatch.setattr("rlox.message.make_message", 3)',
    )


def test_an_attribute_of_an_unknown_type_is_renamed_if_one_class_has_it(renamed):
    assert "print(thing.stored, thing.found, os.path.kept)" in renamed.texts["rlox/use.py"]
    assert any("use.py" in place and "found" in place for place in renamed.plan.unresolved)


def test_programs_in_strings_are_renamed_and_parts_of_them_are_listed(renamed):
    use = renamed.texts["rlox/use.py"]
    assert r"from rlox.message import make_message\nit = make_message(count=3)\nprint(it.n_found)" in use
    assert "from rlox.message import made, {}" in use
    assert any("code in a string imports rlox.told.made" in place for place in renamed.plan.unresolved)


def test_rows_without_a_name_are_skipped_and_rust_is_left_out(renamed):
    assert [(row.old, reason) for row, reason in renamed.plan.choice.skipped] == [("a", "no such name")]
    assert not any(row.kind.startswith("rust") for row in renamed.rows)


def test_the_proof_accepts_the_applied_table(renamed):
    differences, results = compare_all(renamed.before, read_sources(renamed.root), renamed.rows)
    assert differences == []
    assert sum(result.names for result in results.values()) > 50


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("MAX_FOUND = 3", "MAX_FOUND = 4", "became 4"),
        ("return self.n_found + volume", "return self.n_found - volume", "Add"),
        ("    other = way\n", "    other = way; other = 3\n", "became `other = 3`"),
        ("return [way + other for", "return [way + thing for", "means another"),
        ("lambda ", "lambda *more, ", "became"),
        (
            "def hidden(way: int) -> object:\n    other = way\n    return [way",
            "def hidden(p: int) -> object:\n    other = p\n    return [p",
            "no row renames way",
        ),
        ("self.stored = found", "self.n_stored = found", "became 'n_stored'"),
        ("NamedTuple, Protocol,", "NamedTuple,", "Protocol is not imported any more"),
        ('"make_message", "MAX_FOUND"', '"make_message"', "of __all__"),
    ],
)
def test_the_proof_notices_another_change(renamed, old, new, told):
    after = read_sources(renamed.root)
    text = after["rlox/message.py"].text
    assert old in text
    after["rlox/message.py"] = Source.parse("rlox/message.py", text.replace(old, new, 1))
    differences, _ = compare_all(renamed.before, after, renamed.rows)
    assert len(differences) == 1
    assert told in differences[0]


def test_the_proof_notices_files_that_come_and_go(renamed):
    after = read_sources(renamed.root)
    after["rlox/more.py"] = after.pop("rlox/use.py")
    differences, _ = compare_all(renamed.before, after, renamed.rows)
    assert differences == [
        "rlox/use.py: is not there any more",
        "rlox/more.py: was not there before",
    ]


def test_the_proof_allows_sorted_imports_and_a_kept_name():
    rows = [Row("function", "a.py", "", "made", "make")]
    before = {
        "a.py": Source.parse("a.py", "def made(): ...\n"),
        "b.py": Source.parse("b.py", "from a import made, other\nimport os\nmade()\n"),
    }
    after = {
        "a.py": Source.parse("a.py", "def make(): ...\n"),
        "b.py": Source.parse("b.py", "import os\nfrom a import other\nfrom a import make as made\nmade()\n"),
    }
    assert compare_all(before, after, rows)[0] == []
    after["b.py"] = Source.parse(
        "b.py", "import os\nfrom a import other\nfrom a import make as made\nother()\n"
    )
    assert len(compare_all(before, after, rows)[0]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "f'{a}'",
        "f'''x\n {a:>{b}} {{c}}'''",
        "'é' f\"{a['x']!r:^{b}}\" f'{d == e}{g=}'",
        "rf'\\N{{{a}}}' f'\\N{EM DASH}{b}'",
    ],
)
def test_names_in_f_strings_have_their_real_positions(text):
    source = Source.parse("x.py", f"value = {text}\n")
    repair_fstrings(source, source.tree)
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name) and node.id != "value"]
    assert names
    assert all(source.segment(name) == name.id.encode() for name in names)


SMALL_CODE = {
    "rlox/words.py": '''"""Some words."""


class Words:
    """A list of words."""

    size: int = param(3, "number of words", source="measured")

    def check(self, limit):
        size = self.size
        raise ValueError(f"size={size} exceeds {limit + 1}")
''',
    "rust/lib.rs": """// let not_code = 1;
struct Words { size: usize }
fn count(words: &Words) -> usize {
    let Some(mut total) = first() else { panic!("let text = 1") };
    let mut sum = 0;
    module::path()
}
""",
    "tests/not_drawn.py": "drawn = False\n",
}


@pytest.fixture
def small_code(tmp_path):
    for path, text in SMALL_CODE.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (
            "identifiers",
            [
                ("rlox/words.py", 4, "Words"),
                ("rlox/words.py", 7, "size"),
                ("rlox/words.py", 9, "check"),
                ("rlox/words.py", 9, "limit"),
                ("rust/lib.rs", 2, "Words"),
                ("rust/lib.rs", 3, "count"),
                ("rust/lib.rs", 3, "words"),
                ("rust/lib.rs", 5, "sum"),
            ],
        ),
        ("messages", [("rlox/words.py", 11, "size={size} exceeds {limit + 1}")]),
        ("help", [("rlox/words.py", 7, "number of words")]),
        ("docstrings", [("rlox/words.py", 1, "Some words."), ("rlox/words.py", 4, "A list of words.")]),
    ],
)
def test_a_draw_has_each_declared_name_and_sentence_with_its_place(small_code, kind, items):
    assert draw(small_code, kind, None, seed=1, count=100) == items


def test_a_draw_is_the_same_for_a_seed_and_reads_the_commit(small_code):
    git(small_code, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "words")
    (small_code / "rlox/words.py").write_text("", encoding="utf-8")
    draws = [draw(small_code, "identifiers", "HEAD", seed, 3) for seed in (1, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) > 1
    assert {path for d in draws for path, _, _ in d} == {"rlox/words.py", "rust/lib.rs"}
    assert {kind: len(draw(small_code, kind, None, 1, 9)) for kind in KINDS}["docstrings"] == 0


RUST = """
use crate::told::{Told, other};

/// Says it.
fn tell(found: &Told) -> String {
    let Told { x, y: seen } = found; // a comment
    let point = Point { x, y: *seen };
    format!("{found} {{x}} {}", 'a')
}
"""
RUST_PAIRS = {
    ("Told", "Message"), ("told", "message"), ("tell", "describe"), ("found", "message"), ("x", "column"),
    ("seen", "y"), ("point", "corner"),
}  # fmt: skip
RENAMED_RUST = """
use crate::message::{other, Message};

/// Describes the message.
fn describe(message: &Message) -> String {
    let Message { x: column, y } = message;
    let corner = Point {
        x: column,
        y: *y,
    };
    format!("{message} {{x}} {}", 'a')
}
"""


def test_the_rust_proof_accepts_names_of_the_table_and_rustfmt_changes():
    assert difference(RUST, RENAMED_RUST, RUST_PAIRS) == ""
    field = RENAMED_RUST.replace("Message { x: column, y }", "Message { column: x, y }")
    assert difference(RUST, field, RUST_PAIRS) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*y", "y"),
        ("{message} {{x}}", "{message} {{y}}"),
        ("{message}", "{corner}"),
        ("'a'", "'b'"),
        ("let corner", "let corners"),
        ("x: column,", "x: other,"),
        ("Message};", "Message, more};"),
        ("\n}\n", "\n;}\n"),
    ],
)
def test_the_proof_of_rust_notices_another_change(old, new):
    assert old in RENAMED_RUST
    assert difference(RUST, RENAMED_RUST.replace(old, new), RUST_PAIRS) != ""
