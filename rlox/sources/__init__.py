"""Where batches come from: rollouts, replayed transitions, datasets."""
