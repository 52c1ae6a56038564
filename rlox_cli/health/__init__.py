"""Checks of the installation and of environments: `rlox doctor`, `rlox check`."""
