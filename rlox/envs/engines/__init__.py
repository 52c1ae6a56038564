"""Environments that other engines step many at a time: EnvPool, ALE's own, and the user's.

All are `gymnasium.vector.VectorEnv`s, which `VectorEngine` (vector) makes what sources read. An
`EngineFactory` makes one of any size: for training of `env.n_envs`, for evaluations of one, which
`SingleEngineEnv` (single) plays as a plain Gymnasium environment. Which factory a configuration means is
found in `factories`.
"""
