"""Writes run folders without a run, and parses the page of a report independently."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


def make_run(
    folder: Path,
    score: float | None,
    *,
    algo: str = "ppo",
    env: str = "CartPole-v1",
    seed: int = 0,
    status: str = "done",
    reason: str = "total_steps",
    settings: Mapping[str, Any] | None = None,
    evaluations: Mapping[int, float] | None = None,
    training: Mapping[int, float] | None = None,
    measures: Mapping[str, Mapping[int, float]] | None = None,
    unit: str = "env_steps",
    seconds: float = 10.0,
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run folder, without `result.json` if `score` is `None`."""
    folder.mkdir(parents=True)
    curves = {"train/return_mean": training or {100: 1.0, 200: 2.0}}
    curves |= {"eval/return_mean": evaluations or {}, **(measures or {})}
    rows = [{unit: s, name: v} for name, points in curves.items() for s, v in points.items()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "status.json").write_text(json.dumps({"status": status, "step": 200, "reason": reason}))
    (folder / "config.yaml").write_text(  # JSON is valid YAML
        json.dumps({"algo": {"name": algo, **(settings or {})}, "env": {"id": env}, "seed": seed})
    )
    (folder / "provenance.json").write_text(json.dumps(provenance or {"python": "3.11.7"}))
    if score is not None:
        result = {
            "algo": algo, "env": env, "seed": seed, "unit": unit, unit: 200, "score": score,
            "episodes": [score], "train_return_last100": 2.0,
            "seconds": {"total": seconds, "collect": seconds / 2, "update": seconds / 4, "evaluate": 1.0},
            "steps_per_second": {"total": 200 / seconds},
        }  # fmt: skip
        (folder / "result.json").write_text(json.dumps(result))
    return folder


@dataclass
class Node:
    """A parsed table: its head, and the text of its cells."""

    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def column(self, name: str) -> list[str]:
        """Return the cells below a head."""
        place = self.head.index(name)
        return [row[place] for row in self.rows]


class ReportPage(HTMLParser):
    """The contents of a page: tags, code in attributes, tables by id, text and data."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.handlers: list[tuple[str, str]] = []
        self.addresses: list[str] = []
        self.tables: dict[str, Node] = {}
        self.text = ""
        self.policy = ""
        self.scripts: list[str] = []
        self._table: Node | None = None
        self._cell: list[str] | None = None
        self._inside = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    @property
    def data(self) -> dict[str, Any]:
        """The data of the figures."""
        data: dict[str, Any] = json.loads(self.scripts[0])
        return data

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.handlers += [(tag, name) for name in attributes if name.startswith("on")]
        self.addresses += [v or "" for k, v in attributes.items() if k in ("href", "src", "action")]
        self._inside = tag
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"] or ""
        if tag == "script":
            self.scripts.append("")
        if tag == "table":
            self._table = self.tables[attributes["id"] or ""] = Node()
        if tag == "tr" and self._table is not None:
            self._table.rows.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag in ("td", "th") and self._table is not None and self._cell is not None:
            cell_text = "".join(self._cell)
            (self._table.head if tag == "th" else self._table.rows[-1]).append(cell_text)
            self._cell = None
        if tag == "table" and self._table is not None:
            self._table.rows = [row for row in self._table.rows if row]
            self._table = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data
            if self._cell is not None:
                self._cell.append(data)


def numbers(cell: str) -> list[float]:
    """Return the numbers in a cell such as `354.0 [216.4, 472.4]`."""
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", cell.replace(",", " "))]
