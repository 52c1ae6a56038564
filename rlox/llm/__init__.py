"""Language models: log-probabilities, generation, and rewards of completions."""

from rlox.llm.advantages import group_advantages, leave_one_out_advantages
from rlox.llm.codecs import CharacterCodec
from rlox.llm.decoding import GeneratedTokens, Sampling, generate_completions
from rlox.llm.llama import Llama, LlamaSize
from rlox.llm.llama_files import load_llama, save_llama
from rlox.llm.models import TextModel
from rlox.llm.tasks import TASKS, Example, Task, task_of

__all__ = [
    "TASKS",
    "CharacterCodec",
    "Example",
    "GeneratedTokens",
    "Llama",
    "LlamaSize",
    "Sampling",
    "Task",
    "TextModel",
    "generate_completions",
    "group_advantages",
    "leave_one_out_advantages",
    "load_llama",
    "save_llama",
    "task_of",
]
