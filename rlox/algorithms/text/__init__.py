"""Construction, learner and class that algorithms on text share."""
