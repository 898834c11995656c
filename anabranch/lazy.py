"""Modules that are loaded when something in them is first used.

`import anabranch` and a listing on the command line must not pay for Spark, which takes seconds.  A
module is named once, where it would be imported, and the type checker sees an import:

    if TYPE_CHECKING:
        from anabranch.verbs import upkeep
    else:
        upkeep = lazy("anabranch.verbs.upkeep")
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module; whatever is asked of it is asked of the module itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)  # a tool that looks at modules must load nothing
        return getattr(import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """The module of this name, not yet loaded."""
    return LazyModule(name)
