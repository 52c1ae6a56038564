"""The runner: from a command line to a checked configuration to a run folder."""
