"""The configuration of a run: from the words of the command line to a checked `RunConfig`."""
