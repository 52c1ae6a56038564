"""The Rust engine in Python: policies, collector and sources, which import no torch."""
