"""`rlox check`: check an environment and print the findings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rlox.envs.check.findings import Finding
from rlox.envs.check.run_checks import CheckResult
from rlox.envs.check.subprocess_check import check_in_subprocess
from rlox_cli.commands.check import CheckConfig

WIDTH = 100


def check_environment(config: CheckConfig) -> int:
    """Check the environment, print each finding as soon as it is known, and return the number of errors."""
    on_finding = (lambda finding: None) if config.json else _print_finding
    result = check_in_subprocess(config.env, config.steps, config.seed, on_finding)
    if config.json:
        print(json.dumps(_document(config, result), indent=2))
    else:
        print("\n".join(_closing_lines(config, result)))
    return result.errors


def _print_finding(finding: Finding) -> None:
    print(f"{finding.severity:<7}  {finding.code}")
    print(textwrap.indent("\n".join(textwrap.wrap(finding.message, WIDTH - 9)), " " * 9), flush=True)


def _closing_lines(config: CheckConfig, result: CheckResult) -> Iterator[str]:
    """Yield the spaces, the suitable algorithms and the counts of findings, steps and episodes."""
    if result.observation_space:
        yield f"observations  {result.observation_space}"
        yield f"actions       {result.action_space}"
        suitable_algorithms = [name for name, reason in result.algorithms.items() if not reason]
        yield f"algorithms    {', '.join(suitable_algorithms) or 'none'}"
    warnings = len(result.findings) - result.errors
    counts_text = ", ".join(
        f"{n} {noun}{'s' * (n > 1)}" for n, noun in ((result.errors, "error"), (warnings, "warning")) if n
    )
    played_text = (
        f"{_count_text(result.steps, 'step')}, {_count_text(result.episodes, 'episode')}, seed {config.seed}"
    )
    yield (
        f"{config.env.id}: {counts_text or 'nothing found'} ({played_text if result.steps else 'not played'})"
    )


def _count_text(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _document(config: CheckConfig, result: CheckResult) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "env": config.env.id,
        "seed": config.seed,
        "steps": result.steps,
        "episodes": result.episodes,
        "errors": result.errors,
        "warnings": len(result.findings) - result.errors,
        "observation_space": result.observation_space or None,
        "action_space": result.action_space or None,
        "algorithms": {name: reason or None for name, reason in result.algorithms.items()},
        "findings": [asdict(finding) for finding in result.findings],
    }
