"""Hyperparameter search: Hydra's sweeper `rlox_optuna`, on Optuna's ask-and-tell interface."""
