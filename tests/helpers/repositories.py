"""Makes git repositories of folders."""

from __future__ import annotations

from pathlib import Path

from helpers.checkout import git

AUTHOR_OPTIONS = ("-c", "user.name=tests", "-c", "user.email=tests@example.invalid")


def commit_all(folder: Path, message: str = "begun") -> str:
    """Commit all files of a folder to a new repository in it; return the commit's id."""
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, *AUTHOR_OPTIONS, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")
