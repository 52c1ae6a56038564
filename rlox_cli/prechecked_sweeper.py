"""Hydra's own sweeper, of jobs that have been composed and checked already.

Hydra loads the modules of its plugins anew when it looks for them, so this is imported after it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper


class PrecheckedSweeper(BasicSweeper):
    """Composes no job before it is launched."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """They are."""
