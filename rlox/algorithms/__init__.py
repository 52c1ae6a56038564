"""Algorithms: the class of each, which users import, its learners, and the construction of its runs.

The classes are those of `rlox.configs.builtin_algorithms`. `__init__.pyi` lists them for type checkers;
`python tests/helpers/package_stubs.py` writes it.
"""

from rlox.algorithms.registry import ALGORITHMS
from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS
from rlox.lazy_imports import lazy_getattr

_FACADES = ["best_of_n:BestOfN", *(o.facade.rpartition(".")[2] for o in BUILTIN_ALGORITHMS.values())]
_CLASSES = {module: (name,) for module, name in (facade.split(":") for facade in _FACADES)}

__all__ = ["ALGORITHMS", *sorted(name for (name,) in _CLASSES.values())]

__getattr__ = lazy_getattr(__name__, _CLASSES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
