"""The loop and what surrounds it: façade, evaluation, checkpoints, sessions."""
