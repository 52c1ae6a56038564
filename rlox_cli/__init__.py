"""The command line: turns arguments into a checked configuration and a run folder."""
