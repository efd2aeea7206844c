"""Modules that are loaded when something of them is used for the first time: most runs need none of them.

So poller starts sooner, and who reads it can leave them closed. Each is imported for type checkers, too:

    if TYPE_CHECKING:
        from lib.scheduling.volumes import binder
    else:
        binder = Lazy("lib.scheduling.volumes.binder")
"""

from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any


class Lazy:
    """Stands for a module: its names are this object's attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
