"""`python -m rlox`: the command `rlox`, where its script is not on the path."""

import runpy

runpy.run_module("rlox_cli.main", run_name="__main__", alter_sys=True)
