"""Single runs: their folder, training, resuming, evaluation, export and plots."""
