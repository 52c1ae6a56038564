"""The command line in this process, in an empty folder."""

from helpers.cli import cli, logging_restored, registered, template, trained

__all__ = ["cli", "logging_restored", "registered", "template", "trained"]
