"""Environments in supervised subprocesses: shared memory, deadlines, and replacement of dead processes.

`SupervisedVecEnv` (vec_env) serves sources, `SupervisedEvalEnvs` (eval_envs) serves evaluations. Their
workers are forks of a template process (template), which has imported the environments' modules; a fork takes
milliseconds. A handle in the run's process (spawner) controls the template. A worker (worker) steps several
environments and writes their results into shared memory (shared_memory). A wire (wire) carries one byte each
way per step, and pickled objects for all other messages.
"""
