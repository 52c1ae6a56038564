"""Searching hyperparameters: Hydra's sweeper `rlox_optuna`, over Optuna by ask and tell."""
