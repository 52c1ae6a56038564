"""Parameters without torch: their layout in a vector, their initial values, and the cost of encoders."""
