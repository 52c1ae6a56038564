"""`python -m rlox`: runs the `rlox` command when its script is not on the PATH."""

import sys
from importlib import import_module

# imported by name: modules of the library do not import the command line
sys.exit(import_module("rlox_cli.start").main())
