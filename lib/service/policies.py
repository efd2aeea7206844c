"""Loads policies: Python files that users write."""

import functools
import importlib.util
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from reprlib import repr as short
from types import ModuleType
from typing import Any

from lib.kube.system import MACHINE
from lib.scheduling.framework import interface
from lib.scheduling.framework.interface import (
    FromFilesPlugin,
    NeedingForPodPlugin,
    NeedingPlugin,
    Plugin,
    QueueSortPlugin,
)
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.policies.answers import ATTRIBUTES
from lib.scheduling.policies.class_plugins import read_only
from lib.scheduling.policies.function_plugins import plugin_of
from lib.scheduling.status import BadAnswerError, check_texts, encodable
from lib.service.policy_watch import watching

log = logging.getLogger("poller")

NOT_OF_POLICIES = Plugin, QueueSortPlugin, NeedingPlugin, NeedingForPodPlugin, FromFilesPlugin
"""What a class of a policy can't have, as nothing is looked up for it, and all profiles share one queue."""

POINTS = [
    point
    for _, point in inspect.getmembers(interface, inspect.isclass)
    if point.__name__.endswith("Plugin") and point not in NOT_OF_POLICIES
]
"""The extension points that a class of a policy may have: all but the order of the queue."""

METHODS = {name for point in POINTS for name in vars(point) if not name.startswith("_") and name != "name"}
"""Their methods."""

TAKES: Mapping[str, Sequence[str]] = {
    "filter": ("a pod", "a node"),
    "explain": ("a pod", "a node"),
    "remedies": ("a pod", "nodes"),
    "score": ("a pod", "a node"),
    "normalize": ("a pod", "scores"),
    "sign": ("a pod",),
    "state": ("a node",),
    "prepare": ("pods",),
    "annotate": ("a pod", "a node"),
    "queueing_hint": ("a pod", "what changed", "about what"),
}
"""The functions that a policy may have, and what each takes."""

LONG_CALL = 1.0
"""Seconds after which a call of a policy's function for one node is too slow."""

BUILT_IN = {plugin.name for plugin in default_profile("").plugins}


class PolicyError(Exception):
    """A policy can't be used; the text names the file and says why."""


@dataclass(frozen=True)
class Policy:
    """The content of one file: plugins, and their weight."""

    file: str
    """The file's name, as in the code's frames."""
    plugins: tuple[Plugin, ...]
    weight: int

    @property
    def weights(self) -> dict[str, int]:
        """The weight by plugin name, as in a profile."""
        return {plugin.name: self.weight for plugin in self.plugins}


def load_policies(files: Iterable[Path]) -> list[Policy]:
    """Load policies. PolicyError when a file doesn't exist, fails, or has no function or class of use."""
    policies = [load_policy(file) for file in files]
    names = [name for policy in policies for name in policy.weights]
    for name in names:
        if name in BUILT_IN:
            raise PolicyError(f"{name} is already the name of a plugin: rename the file or the class")
        if names.count(name) > 1:
            raise PolicyError(f"two policies are named {name}: rename one file or class")
    return policies


def load_policy(file: Path) -> Policy:
    """Read one policy.

    The functions that TAKES names become a plugin with the file's name, if `filter` or `score` is among them.
    Each class with the methods of an extension point becomes a plugin with its own name. WEIGHT multiplies
    scores; by default it is 1.
    """
    module = _run(file)
    plugins: list[Plugin] = []
    asked = {name: _function(module, name, takes, file) for name, takes in TAKES.items()}
    functions = {name: function for name, function in asked.items() if function}
    if functions.keys() & {"filter", "score"}:
        plugins.append(plugin_of(file.stem, functions))
    plugins += [_made(kind, file) for kind in vars(module).values() if _is_plugin(kind)]
    if not plugins:
        raise PolicyError(
            f"{file}: there is no filter(pod, node), no score(pod, node), and no class with such methods"
        )
    try:
        check_texts((plugin.name for plugin in plugins), "a name")
    except BadAnswerError as error:
        raise PolicyError(f"{encodable(str(file))}: {error}") from error
    weight = getattr(module, "WEIGHT", 1)
    if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= 100:
        raise PolicyError(f"{file}: WEIGHT is {weight!r}, not a whole number from 1 to 100")
    return Policy(module.__file__ or str(file), tuple(plugins), weight)


def _function(module: ModuleType, name: str, takes: Sequence[str], file: Path) -> Callable[..., Any] | None:
    """A function of a policy, if it is there. PolicyError when it doesn't take these arguments."""
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        return None
    try:
        inspect.signature(function).bind(*takes)
    except TypeError:
        signature = f"{function.__name__}{inspect.signature(function)}"
        raise PolicyError(f"{file}: {signature} doesn't take {' and '.join(takes)}") from None
    return _timed(function) if name in ("filter", "score") else function


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; the first call that takes longer than LONG_CALL is logged."""
    told = False

    @functools.wraps(function)
    def timed(pod: Any, node: Any) -> Any:
        nonlocal told
        began = MACHINE.monotonic()
        answer = function(pod, node)
        took = MACHINE.monotonic() - began
        if took > LONG_CALL and not told:
            told = True
            code = getattr(inspect.unwrap(function), "__code__", None)
            where = f" at {Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""
            name = getattr(function, "__name__", "a function")
            why = "it is called for each pod and each node, and all else waits"
            log.warning("%s%s took %.1f s for one node; %s", name, where, took, why)
        return answer

    return timed


class _SourceLoader(SourceFileLoader):
    """Always loads a policy from its source, and writes no compiled file.

    Python would use outdated compiled code if the file was edited in the same second, to the same size.
    """

    def path_stats(self, path: Any) -> Any:
        raise OSError(path)


def _run(file: Path) -> ModuleType:
    name = f"policy_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceLoader(name, str(file)))
    if file.suffix != ".py" or not spec or not spec.loader:
        raise PolicyError(f"{file}: a policy is a Python file, NAME.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    beside = str(file.resolve().parent)
    sys.path.append(beside)  # it may import files beside it; last, so that none hides another module
    before = {*sys.modules}
    try:
        with watching([spec.origin or str(file)]):
            spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"{error.filename}:{error.lineno}" if error.filename else file
        raise PolicyError(f"{where}: {error.msg}") from error
    except BaseException as error:
        raise_if_interrupted(error)
        if not file.exists():
            raise PolicyError(f"{file}: file not found") from None
        frames = traceback.extract_tb(error.__traceback__)
        its_own = [
            frame
            for frame in frames
            if os.path.realpath(frame.filename).startswith(f"{beside}{os.sep}")
            and not frame.filename.startswith("<")  # <frozen os>
        ]
        last = (its_own or frames)[-1]  # an error in a library is told where the policy has called that
        raise PolicyError(f"{last.filename}:{last.lineno}: {describe(error)}") from error
    finally:
        sys.path.remove(beside)
        # Another policy may have a file of the same name beside it.
        for new in sys.modules.keys() - before - {name}:
            if str(getattr(sys.modules[new], "__file__", "")).startswith(f"{beside}{os.sep}"):
                del sys.modules[new]
    return module


def _is_plugin(kind: Any) -> bool:
    """Whether something is a class with an extension point, and not one of poller's default plugins."""
    if not inspect.isclass(kind) or kind in POINTS or kind.__name__ in BUILT_IN:
        return False
    return any(callable(getattr(kind, method, None)) for method in METHODS)


def _made(kind: type, file: Path) -> Plugin:
    try:
        plugin = read_only(kind, METHODS)()
        if not hasattr(plugin, "name"):
            plugin.name = kind.__name__
        has = [(name, getattr(plugin, name)) for name in ATTRIBUTES if hasattr(plugin, name)]
    except BaseException as error:
        raise_if_interrupted(error)
        raise PolicyError(f"{file}: {kind.__name__}() failed: {describe(error)}") from error
    for name, value in has:
        holds, wanted = ATTRIBUTES[name]
        if not holds(value):
            raise PolicyError(f"{file}: {kind.__name__}.{name} is {short(value)}, not {wanted}")
    return plugin  # type: ignore[no-any-return]
