"""`check_env`: find errors in an environment before hours of training are spent on it."""

from rlox.envs.check.findings import Finding
from rlox.envs.check.run_checks import CheckResult, check_config, check_env
from rlox.envs.check.subject import Limits

__all__ = ["CheckResult", "Finding", "Limits", "check_config", "check_env"]
