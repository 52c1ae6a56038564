"""Environments that other engines step many at a time: EnvPool, ALE's own engine, and the user's.

All are `gymnasium.vector.VectorEnv`s. `VectorEngine` (vector) adapts them to the interface that sources read.
An `EngineFactory` makes an engine of any size: `env.n_envs` for training, one for evaluations, which
`SingleEngineEnv` (single) presents as a plain Gymnasium environment. `factories` chooses the factory for a
configuration.
"""
