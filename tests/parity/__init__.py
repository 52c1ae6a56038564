"""Gives rlox's updates, the papers' equations and Stable-Baselines3 the same weights, batches and noise."""
