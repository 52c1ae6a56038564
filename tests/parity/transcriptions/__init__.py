"""The papers' updates, row by row in float64; nothing here calls rlox.

A transcription has `weights` and, where the paper has them, `targets` by name, `kinks`, and
`train(batch)`, which returns the update of one batch as a list of `Step`s.
"""

from parity.transcriptions.a2c import A2C
from parity.transcriptions.dqn import DQN
from parity.transcriptions.ppo import PPO
from parity.transcriptions.pqn import PQN
from parity.transcriptions.sac import SAC
from parity.transcriptions.td3 import TD3
from parity.transcriptions.tqc import TQC

__all__ = ["TRANSCRIPTIONS"]

TRANSCRIPTIONS = {
    "ppo": PPO, "a2c": A2C, "dqn": DQN, "pqn": PQN, "sac": SAC, "tqc": TQC, "td3": TD3,
}  # fmt: skip
