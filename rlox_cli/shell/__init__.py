"""The command line as the user sees it: help, messages, output, completion and exit codes."""
