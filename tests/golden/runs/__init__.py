"""Training as earlier versions did it: traces of a few updates, and a checkpoint in the middle."""
