"""Language models: what they say, what they write, and what that is worth."""

from rlox.llm.codecs import Characters
from rlox.llm.decoding import Completed, Sampling, completions
from rlox.llm.llama import Llama, LlamaSize
from rlox.llm.models import TextModel
from rlox.llm.rewards import group_advantages, leave_one_out_advantages
from rlox.llm.saved import load_llama, save_llama
from rlox.llm.tasks import TASKS, Example, Task, task_of

__all__ = [
    "TASKS",
    "Characters",
    "Completed",
    "Example",
    "Llama",
    "LlamaSize",
    "Sampling",
    "Task",
    "TextModel",
    "completions",
    "group_advantages",
    "leave_one_out_advantages",
    "load_llama",
    "save_llama",
    "task_of",
]
