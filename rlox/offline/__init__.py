"""Datasets for offline learning: creation, description, checks, and conversion of other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from rlox.offline.collect import PlaySettings, make_random_dataset, make_run_dataset
    from rlox.offline.description import ReturnStatistics, describe_dataset
    from rlox.offline.foreign.converting import ConversionOptions, convert_dataset
    from rlox.offline.foreign.exporting import export_dataset

__all__ = [
    "ConversionOptions",
    "PlaySettings",
    "ReturnStatistics",
    "convert_dataset",
    "describe_dataset",
    "export_dataset",
    "make_random_dataset",
    "make_run_dataset",
]

# Lazy, because the process that reads foreign files imports this package and needs no torch.
__getattr__ = lazy_getattr(
    __name__,
    {
        "description": ("ReturnStatistics", "describe_dataset"),
        "foreign.converting": ("ConversionOptions", "convert_dataset"),
        "foreign.exporting": ("export_dataset",),
        "collect": ("PlaySettings", "make_random_dataset", "make_run_dataset"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
