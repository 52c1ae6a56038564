"""Training: the loop, learners, actors, evaluation and the choice of backend and device."""
