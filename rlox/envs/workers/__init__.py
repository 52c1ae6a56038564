"""Environments in supervised subprocesses: shared memory, deadlines, and replacement of dead processes.

`SupervisedVecEnv` (vec_env) serves sources, `SupervisedEvalEnvs` (eval_envs) serves evaluations. A template
process (template) starts their workers, controlled by a handle in the run's process (spawner): it has
imported the environments' modules and is forked, which takes milliseconds. A worker (worker) steps several
environments and writes their results into shared memory (shared_memory). A wire (wire) carries one byte each
way per step, and pickled objects for all other messages.
"""
