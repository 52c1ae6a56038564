"""Parameters without torch: where they lie in a vector, what they begin as, what encoders have of them."""
