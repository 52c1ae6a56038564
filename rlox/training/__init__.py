"""Learning: the loop, evaluation, optimizers; generic over sources and learners."""
