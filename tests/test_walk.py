"""How many functions and files a pod's way from poll to event leads through: a reader follows all of them.

One tick runs in this process, polling, with the default profile, for one lone pod. What counts is each
function of poller.py and lib that is handed the pod, its change, decision or writes, or that has called such
a function. HTTP, decoding and telemetry don't count; nor do functions that call no other. NodeResourcesFit
stands for all plugins: what only another plugin calls doesn't count, either.
"""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from canned import canned
from poisoned_cluster import node, pod

from lib.kube.changes import Change
from lib.kube.objects import Pod
from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.telemetry.report import Report
from poller import finish, tick

ROOT = Path(__file__).resolve().parents[1]

MAX_FUNCTIONS, MAX_FILES = 70, 20

LEFT_OUT = (
    "lib/kube/api.py",
    "lib/kube/decoding.py",
    "lib/kube/errors.py",
    "lib/kube/in_flight.py",
    "lib/kube/objects.py",
    "lib/kube/pager.py",
    "lib/kube/paths.py",
    "lib/kube/quantity.py",
    "lib/kube/transport.py",
    "lib/service/app.py",
    "lib/service/telemetry/",
)
PLUGINS, ONE_PLUGIN = "lib/scheduling/plugins/", "lib/scheduling/plugins/node_resources_fit.py"
UNNAMED = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")

Function = tuple[str, str]
"""A file, and a qualified name in it."""


class Walk:
    """Notes which functions the pod comes through."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._seen: set[Function] = set()
        self._callers: set[Function] = set()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """For sys.setprofile."""
        if event != "call" or not _is_ours(frame):
            return
        stack = [each for each in _callers_of(frame) if _is_ours(each)]
        if any(_is_of_another_plugin(each) for each in stack):
            return
        code = frame.f_code
        if not any(each in code.co_qualname.rpartition(".")[2] for each in UNNAMED):  # part of its function
            self._callers |= {_function(each) for each in stack[1:2]}
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(self._is_about(frame.f_locals.get(each)) for each in arguments):
            self._seen |= {_function(each) for each in stack}

    def _is_about(self, value: object) -> bool:
        if isinstance(value, Pod):
            return value.metadata.uid == self._uid
        if isinstance(value, Change):
            return self._is_about(value.object)
        inner = getattr(value, "decision", None) or getattr(value, "pod", None)
        return inner is not None and self._is_about(inner)

    @property
    def functions(self) -> set[Function]:
        return {each for each in self._seen & self._callers if _counts(*each)}


def _callers_of(frame: FrameType | None) -> list[FrameType]:
    stack = []
    while frame:
        stack.append(frame)
        frame = frame.f_back
    return stack


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(f"{ROOT}/lib/") or file == f"{ROOT}/poller.py"


def _function(frame: FrameType) -> Function:
    return frame.f_code.co_filename.removeprefix(f"{ROOT}/"), frame.f_code.co_qualname


def _is_of_another_plugin(frame: FrameType) -> bool:
    file, _ = _function(frame)
    return file.startswith(PLUGINS) and file != ONE_PLUGIN


def _counts(file: str, name: str) -> bool:
    return not file.startswith(LEFT_OUT) and not any(each in name for each in UNNAMED)


def test_the_way_of_a_pod_is_short() -> None:
    objects = {
        "nodes": [node(f"n{i}") for i in range(3)],
        "pods": [pod("web")],
        "namespaces": [{"metadata": {"name": "default", "labels": {}}}],
        **dict.fromkeys(("services", "replicasets", "podgroups", "poddisruptionbudgets", "events"), ()),
    }
    walk = Walk("uid-of-web")
    with canned({kind: [*each] for kind, each in objects.items()}) as server, Shutdown() as shutdown:
        options, _ = _options(CommandLine(proxy=server.url))
        with assembled(options, Report(dry_run=False, explain=None), shutdown) as poller:
            sys.setprofile(walk.note)
            try:
                poller.run_tick(tick)
                while len(poller.queue):
                    finish(poller, poller.wait())
            finally:
                sys.setprofile(None)
    files = {file for file, _ in walk.functions}
    listed = "\n".join(f"{file} {name}" for file, name in sorted(walk.functions))
    assert ("poller.py", "finish") in walk.functions
    assert len(walk.functions) <= MAX_FUNCTIONS, listed
    assert len(files) <= MAX_FILES, listed
