"""The Rust engine in Python: policies, learner bases, collector and sources that import no torch."""
