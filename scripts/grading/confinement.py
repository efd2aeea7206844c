"""What a policy's process may use and do: it is set before the policy's code runs.

It reads no other file than its own and Python's, writes none, starts no program, and reaches no network and
no other process. An audit hook of Python refuses that, and says so in words. On Linux the kernel refuses it,
too: code that gets around the hook, which plain Python can, meets the kernel's walls.
"""

import os
import resource
import signal
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Any

from scripts.grading.kernel import build_walls, has_walls

ROOT = Path(__file__).resolve().parent.parent.parent

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/dev/urandom")
"""What Python's own modules read beside Python's folders."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

MOST_THREADS = 500
"""A policy, and what else the user starts meanwhile, may have so many threads more. Root isn't limited."""

LISTING = ("os.listdir", "os.scandir")

HARMLESS = ("os.putenv", "os.unsetenv", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr")

REFUSED = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "resource.", "signal.", "syslog.")
"""What the refused events of `sys.audit` begin with. For example, `os.` has fork, exec, kill and remove."""


def limit(seconds: int, most_seconds: int, mebibytes: int) -> None:
    """Limit the computing time, the time by the clock, the memory and the files of this process."""
    signal.alarm(most_seconds)  # in case that nobody is there any more to end this process
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    _limit(resource.RLIMIT_AS, mebibytes << 20, mebibytes << 20)
    _limit(resource.RLIMIT_FSIZE, 0, 0)
    threads = threads_of_user() + MOST_THREADS
    _limit(resource.RLIMIT_NPROC, threads, threads)
    _limit(resource.RLIMIT_CORE, 0, 0)


def threads_of_user() -> int:
    """How many threads this user's processes have now: the kernel limits all of them together."""
    own, found = os.getuid(), 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if process.stat().st_uid == own:
                found += sum(1 for _ in (process / "task").iterdir())
    return found


def _limit(what: int, soft: int, hard: int) -> None:
    most = resource.getrlimit(what)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    with suppress(ValueError):  # macOS doesn't limit memory so
        resource.setrlimit(what, (soft, hard))


def confine(own: Path) -> None:
    """From now on, refuse what a policy has no need of. own: the folder with its file."""
    paths = sysconfig.get_paths()
    folders = [own, ROOT / "lib", *map(Path, LIBRARIES)]  # not the grader's, which knows a good policy
    folders += [Path(paths[each]) for each in ("stdlib", "platstdlib", "purelib", "platlib")]
    if has_walls():
        build_walls(folders, [Path(each) for each in sys.path if each])
    readable = tuple(f"{os.path.realpath(each)}{os.sep}" for each in folders)
    listed = (*readable, *(f"{os.path.realpath(each)}{os.sep}" for each in sys.path if each))
    real, decode = os.path.realpath, os.fsdecode

    def is_in(path: Any, allowed: tuple[str, ...], *, itself: bool = False) -> bool:
        if isinstance(path, int):
            return True
        found = real(decode(path if path is not None else "."))
        return found == os.devnull or found.startswith(allowed) or (itself and f"{found}{os.sep}" in allowed)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not is_in(path, readable):
                raise PermissionError("a policy reads no files but its own")
            if flags & WRITING and not isinstance(path, int) and real(decode(path)) != os.devnull:
                raise PermissionError("a policy writes no files")
        elif event in LISTING:
            if not is_in(arguments[0], listed, itself=True):
                raise PermissionError("a policy lists no folders")
        elif event.startswith(REFUSED) and event not in HARMLESS:
            raise PermissionError(f"a policy may not use {event}")

    sys.addaudithook(hook)
