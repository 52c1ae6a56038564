"""Language models: what their completions are worth."""

from rlox.llm.rewards import group_advantages, leave_one_out_advantages

__all__ = ["group_advantages", "leave_one_out_advantages"]
