"""The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out.

    from binlog_merge import MergeConfig, merge

    result = merge(spark, MergeConfig.load("cluster.yaml"), "merged/")

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlog_merge import errors
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.errors import MergeError
    from binlog_merge.spark.job import MergeResult, merge

__all__ = ["MergeConfig", "MergeError", "MergeResult", "errors", "merge"]

_HOMES = {
    "MergeConfig": "binlog_merge.config.merge_config",
    "MergeError": "binlog_merge.errors",
    "MergeResult": "binlog_merge.spark.job",
}
_MODULES = ("errors", "merge")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _MergePackage(ModuleType):
    """The package `binlog_merge.merge`, which can be called as the function of the same name."""

    def __call__(self, *args: Any, **options: Any) -> "MergeResult":
        from binlog_merge.spark.job import merge

        return merge(*args, **options)


class _Package(ModuleType):
    """This package. The import system sets a subpackage on it by name, which would hide the function `merge`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "merge" and type(value) is ModuleType:
            value.__class__ = _MergePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
