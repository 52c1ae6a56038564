"""The command line in this process, in an empty folder."""

from helpers.cli import cli

__all__ = ["cli"]
