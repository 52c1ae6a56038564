"""`python -m rlox`: the command `rlox`, where its script is not on the path."""

import sys
from importlib import import_module

# by name, as nothing in the library stands on the command line
sys.exit(import_module("rlox_cli.start").main())
