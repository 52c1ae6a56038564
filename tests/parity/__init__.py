"""The same weights, batches and noise into our updates, the papers' equations and Stable-Baselines3."""
