"""Measure every row, or the chosen ones: rlox beside every installed peer, in one run.

pip install -c constraints.txt -e '.[peers]'
python benchmarks/run_all.py --install-original
python benchmarks/run_all.py --rows P1,P9 --quick
python benchmarks/run_all.py --gate
"""

from __future__ import annotations

import sys

import bench_buffer_ops
import bench_e2e_rollout
import bench_env_stepping
import bench_env_workers
import bench_gae
import bench_llm_ops
import bench_training
import bench_trl_comparison
from harness.cli import run

ROWS = {
    **bench_gae.ROWS,
    **bench_buffer_ops.ROWS,
    **bench_env_stepping.ROWS,
    **bench_env_workers.ROWS,
    **bench_llm_ops.ROWS,
    **bench_e2e_rollout.ROWS,
    **bench_training.ROWS,
    **bench_trl_comparison.ROWS,
}

if __name__ == "__main__":
    sys.exit(run(ROWS, "all", __doc__))
