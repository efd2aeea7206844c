"""Importing poller's library only defines things."""

import subprocess
import sys
from graphlib import TopologicalSorter

from grimp import build_graph

from scripts.servers.process import ROOT

STATE = """
import gc, importlib, logging, pkgutil, signal, sys, threading, warnings
import httpx, httptools, msgspec, prometheus_client, rich, tenacity, typer, yaml  # what others do is theirs
import lib.startup  # what it does is for the program

def state():
    return (
        gc.get_threshold(), gc.isenabled(), logging.root.level, list(logging.root.handlers), logging._srcfile,
        logging.logThreads, sys.excepthook, threading.excepthook, sys.getrecursionlimit(), sys.stdout,
        warnings.showwarning, threading.active_count(), [signal.getsignal(each) for each in (2, 10, 15)],
    )

before = state()
for each in pkgutil.walk_packages(lib.__path__, "lib."):
    importlib.import_module(each.name)
assert state() == before, (before, state())
print(len([name for name in sys.modules if name.startswith("lib.")]))
"""


def test_importing_changes_nothing_in_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", STATE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_no_file_imports_another_in_a_circle() -> None:
    imports = build_graph("lib")
    files = imports.modules
    order = TopologicalSorter({each: imports.find_modules_directly_imported_by(each) for each in files})
    order.prepare()  # CycleError, which names the circle
