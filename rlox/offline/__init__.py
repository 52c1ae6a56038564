"""Datasets for offline learning: how they are made, what is in them and what is wrong with them."""

from rlox.offline.described import Returns, described
from rlox.offline.making import Play, of_random_actions, of_run

__all__ = ["Play", "Returns", "described", "of_random_actions", "of_run"]
