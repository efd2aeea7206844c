"""Starts poller as a program: the loop, or one of the verbs beside it.

It is imported before anything else. If Python is too old, or packages are missing, it ends poller with a
message instead of a traceback. So at first it imports only the standard library, and even Python 3.8 can
parse it.
"""

import sys


def _quietly(kind: "type[BaseException]", error: BaseException, trace: object) -> None:
    """Ctrl-C while poller starts needs no traceback; Python then ends by the signal."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]


sys.excepthook = _quietly  # before the imports: they take a while

import gc  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from typing import NoReturn  # noqa: E402

OLDEST_PYTHON = (3, 11)

MODULES = {
    "durationpy": "durationpy",
    "httptools": "httptools",
    "httpx": "httpx",
    "msgspec": "msgspec",
    "prometheus-client": "prometheus_client",
    "PyYAML": "yaml",
    "rich": "rich",
    "tenacity": "tenacity",
    "typer": "typer",
}
"""The packages of requirements.txt, each with the name of its module."""

OBJECTS_BEFORE_COLLECTION = 100_000
"""Python's garbage collector runs after so many new objects. Modules and lists of pods have many objects, and
few are garbage."""

DEEPEST_CALLS = 10_000
"""An expression that selects devices may have thousands of parts within each other: 1 + 1 + 1 ..."""

WHAT_TO_DO = "Run scripts/install once, then start poller with .venv/bin/python poller.py"


def check() -> None:
    """SystemExit with what to do, if poller can't run."""
    if sys.version_info < OLDEST_PYTHON:
        found, needed = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST_PYTHON))
        sys.exit(
            f"poller.py: {sys.executable} is Python {found}; poller needs {needed} or newer. {WHAT_TO_DO}"
        )
    missing = [package for package, module in MODULES.items() if find_spec(module) is None]
    if missing:
        sys.exit(
            f"poller.py: {sys.executable} doesn't have these packages: {', '.join(missing)}. {WHAT_TO_DO}"
        )


check()
gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
sys.setrecursionlimit(DEEPEST_CALLS)


def run(loop: Callable[..., None]) -> NoReturn:
    """Run the loop, or the verb that the command line names, and exit. loop: takes a Poller."""
    from lib.questions.verbs import add_verbs
    from lib.service.app import main
    from lib.service.options import run_with_options

    run_with_options(partial(main, loop), add_verbs)
