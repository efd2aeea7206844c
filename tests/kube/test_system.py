"""Time, randomness, waits, threads and sockets come from lib/kube/system.py alone."""

import ast
import os
import re
import signal
import time
from collections.abc import Iterator
from queue import Empty
from threading import Timer

import pytest

from lib.kube.system import MACHINE
from lib.service.shutdown import on_signal
from scripts.servers.process import ROOT

FROM_SYSTEM = {
    "asyncio.sleep",
    "concurrent.futures.Future",
    "concurrent.futures.ThreadPoolExecutor",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "queue.Queue",
    "queue.SimpleQueue",
    "random.Random",
    "random.SystemRandom",
    "random.choice",
    "random.random",
    "random.shuffle",
    "random.uniform",
    "secrets.token_hex",
    "select.epoll",
    "select.poll",
    "select.select",
    "signal.setitimer",
    "socket.create_connection",
    "socket.socket",
    "threading.Condition",
    "threading.Event",
    "threading.Thread",
    "threading.Timer",
    "time.clock_gettime",
    "time.monotonic",
    "time.perf_counter",
    "time.sleep",
    "time.time",
    "uuid.uuid1",
    "uuid.uuid4",
}
"""What no other file may call, or hand on."""

TYPES = {each for each in FROM_SYSTEM if each.rpartition(".")[2][0].isupper()} | {
    "select.poll",
    "socket.socket",
}

ELSEWHERE = {
    ("lib/kube/events.py", "socket.gethostname"),
    ("lib/questions/deciding.py", "random.Random"),  # always with the same seed
    ("lib/scheduling/explaining/dynamic_resources.py", "random.Random"),  # always with the same seed
    ("lib/scheduling/handle.py", "random.Random"),  # for options that are only checked
    ("lib/scheduling/plugins/random_score.py", "random.Random"),  # for a user's plugin that makes one
    ("lib/service/telemetry/listen.py", "concurrent.futures.ThreadPoolExecutor"),  # asyncio wants one
}


def used(source: str) -> Iterator[str]:
    """The full names of what a file uses of other modules; of types, only those it makes objects of."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call):
            called |= {id(each) for each in (node.func, *(each.value for each in node.keywords))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, _, rest = full_name(node).partition(".")
            name = f"{names.get(first, '')}.{rest}" if rest else names.get(first, "")
            if name not in TYPES or id(node) in called:
                yield name


def full_name(node: ast.expr) -> str:
    """What `ast.unparse` writes, for plain names: that takes seconds for all files."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{full_name(node.value)}.{node.attr}"
    return "()"


FILES = [
    each for each in [ROOT / "poller.py", *sorted((ROOT / "lib").rglob("*.py"))] if each.name != "system.py"
]


def test_only_one_file_takes_what_the_machine_has() -> None:
    sources = {str(file.relative_to(ROOT)): file.read_text() for file in FILES}
    modules = "|".join({each.partition(".")[0] for each in FROM_SYSTEM})
    importing = re.compile(rf"^\s*(import|from)\b.*\b({modules})\b", re.MULTILINE)
    taken = {(name, each) for name, text in sources.items() if importing.search(text) for each in used(text)}
    assert {each for each in taken - ELSEWHERE if each[1] in FROM_SYSTEM} == set()


def test_what_is_taken_is_found() -> None:
    source = (ROOT / "lib/kube/system.py").read_text()
    found = {"time.monotonic", "time.sleep", "datetime.datetime.now", "random.Random", "threading.Thread"}
    assert found | {"select.poll", "socket.socket", "queue.Queue"} <= {*used(source)}


def test_a_wait_at_a_queue_ends_although_a_signal_comes_meanwhile() -> None:
    """As SIGUSR1 does it to a poller that watches a quiet cluster."""
    lines = MACHINE.queue()
    rescue = Timer(10, lines.put, ["too late"])
    rescue.start()
    Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1]).start()
    with on_signal(signal.SIGUSR1, lambda: time.sleep(0.5)), pytest.raises(Empty):
        lines.get(timeout=0.3)
    rescue.cancel()
