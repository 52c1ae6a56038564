"""Construction of the components of a run, and what the learners of a family share."""
