"""Generation of completions by a server (vLLM, SGLang, text-generation-inference), behind one class."""

from __future__ import annotations

from rlox.llm.serving.dialects import DIALECTS
from rlox.llm.serving.server import GenerationServer

__all__ = ["DIALECTS", "GenerationServer"]
