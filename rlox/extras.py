"""The install command of an extra, from the requirements in rlox's own metadata."""

from __future__ import annotations

import importlib.metadata
import re

__all__ = ["DISTRIBUTION", "install_command"]

# `rlox` on PyPI is another project, so no hint says `pip install 'rlox[...]'`.
DISTRIBUTION = "rlox-runner"
_EXTRA_REQUIREMENT = re.compile(r"""^(?P<asked>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"]$""")


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of rlox needs: `pip install 'ale-py>=0.11'`.

    A name that is not an extra is a package of a plugin. If rlox was not installed but only put on the path,
    the command is the one for a checkout.
    """
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a checkout of rlox"
    matches = [match for text in requirements if (match := _EXTRA_REQUIREMENT.match(text))]
    packages = [match["asked"] for match in matches if match["extra"] == extra]
    return f"pip install {' '.join(repr(package) for package in packages or [extra])}"
