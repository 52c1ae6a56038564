"""What installs the packages of an extra: the requirements that rlox's own metadata has of it."""

from __future__ import annotations

import importlib.metadata
import re

__all__ = ["DISTRIBUTION", "install_command"]

# The package `rlox` of the index is another project, so no hint says `pip install 'rlox[...]'`.
DISTRIBUTION = "rlox-runner"
_EXTRA_REQUIREMENT = re.compile(r"""^(?P<asked>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"]$""")


def install_command(extra: str) -> str:
    """`pip install 'ale-py>=0.11'`: the line that installs what an extra of rlox needs.

    A name that is no extra is a package of a plugin. Where rlox was not installed, only put on the path, it
    is the line of its checkout.
    """
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a checkout of rlox"
    matches = [match for text in requirements if (match := _EXTRA_REQUIREMENT.match(text))]
    packages = [match["asked"] for match in matches if match["extra"] == extra]
    return f"pip install {' '.join(repr(package) for package in packages or [extra])}"
