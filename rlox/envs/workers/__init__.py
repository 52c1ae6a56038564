"""Environments in supervised subprocesses: shared memory, deadlines, and others in the place of the dead.

`SupervisedVecEnv` (vec_env) is what sources see, `SupervisedEvalEnvs` (eval_envs) what evaluations play on.
Their processes are started by a template process (template), which a handle in the run's process speaks to
(spawner): it has imported what the environments need and is forked, which takes milliseconds. A worker
(worker) steps several environments and writes what they say into memory that all share (shared_memory). A
wire carries a byte each way at a step, and objects for everything else.
"""
