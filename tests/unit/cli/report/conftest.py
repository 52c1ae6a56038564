from helpers.cli import cli, logging_restored

__all__ = ["cli", "logging_restored"]  # fixtures
