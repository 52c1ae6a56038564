"""What `rlox check` shows of an environment."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rlox.envs.check.apart import check_apart
from rlox.envs.check.examination import Checked
from rlox.envs.check.findings import Finding
from rlox_cli.commands.check import CheckConfig

WIDTH = 100


def check_environment(config: CheckConfig) -> int:
    """Check it and print what was found, each thing as soon as it is known; the number of errors."""
    shown = (lambda finding: None) if config.json else _show
    checked = check_apart(config.env, config.steps, config.seed, shown)
    if config.json:
        print(json.dumps(_document(config, checked), indent=2))
    else:
        print("\n".join(_closing(config, checked)))
    return checked.errors


def _show(finding: Finding) -> None:
    print(f"{finding.severity:<7}  {finding.code}")
    print(
        textwrap.indent("\n".join(textwrap.wrap(finding.message, WIDTH - 9)), " " * 9), flush=True
    )


def _closing(config: CheckConfig, checked: Checked) -> Iterator[str]:
    """What was looked at, and the sum of it."""
    if checked.observation_space:
        yield f"observations  {checked.observation_space}"
        yield f"actions       {checked.action_space}"
        fit = [name for name, reason in checked.algorithms.items() if not reason]
        yield f"algorithms    {', '.join(fit) or 'none'}"
    warnings = len(checked.findings) - checked.errors
    found = ", ".join(
        f"{n} {word}{'s' * (n > 1)}"
        for n, word in ((checked.errors, "error"), (warnings, "warning"))
        if n
    )
    played = f"{_count(checked.steps, 'step')}, {_count(checked.episodes, 'episode')}, seed {config.seed}"
    yield f"{config.env.id}: {found or 'nothing found'} ({played if checked.steps else 'not played'})"


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"


def _document(config: CheckConfig, checked: Checked) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "env": config.env.id,
        "seed": config.seed,
        "steps": checked.steps,
        "episodes": checked.episodes,
        "errors": checked.errors,
        "warnings": len(checked.findings) - checked.errors,
        "observation_space": checked.observation_space or None,
        "action_space": checked.action_space or None,
        "algorithms": {name: reason or None for name, reason in checked.algorithms.items()},
        "findings": [asdict(finding) for finding in checked.findings],
    }
