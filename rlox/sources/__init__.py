"""Sources of batches: rollouts, replayed rows, datasets and texts."""
