"""poller on a terminal: what --top shows, and that it gives the terminal back."""

import logging
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import time
from fcntl import ioctl
from select import select
from termios import TIOCSWINSZ

import pytest
from cluster import POLLER, Cluster
from objects import node, pod
from rich.console import Console

from lib.kube.changes import Change, Kind
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.service.telemetry.top import Screen

ON_ONE_SERVER = True


def rows(screen: Screen, width: int = 80, height: int = 24) -> list[str]:
    """What is on a terminal of this size."""
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(screen.rendered(width, height))
    return capture.get().splitlines()


@pytest.mark.parametrize("nodes", [0, 1, 10, 11, 500])
def test_it_fits_on_a_small_terminal(nodes: int) -> None:
    cache = Cache(map(node, (f"node{i}" for i in range(nodes))))
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    screen = Screen(queue, cache)
    for i in range(100):
        queue.apply(Change(Kind.ADDED, pod(f"pod{i}", schedulerName="my-scheduler")), time.monotonic())
        screen.handle(logging.makeLogRecord({"msg": f"a line, and its number is {i}; " + "it is long " * 20}))
    screen.note()
    said = rows(screen)
    assert len(said) <= 24
    assert max(map(len, said)) <= 80
    assert f"nodes: {nodes} " in said[0]
    assert "its number is 99;" in said[-1]
    assert any(re.match(r"active +100 default/pod0 default/pod1 ", row) for row in said)
    if nodes:
        assert said[2].startswith("node0 ")
    if nodes == 500:
        assert "and 492 more nodes" in said


def test_it_shows_nodes_lanes_and_why_the_oldest_waits() -> None:
    cache = Cache([node("node10"), node("node2", unschedulable=True)])
    for i, cpu in enumerate(("1", "1")):
        cache.apply(Change(Kind.ADDED, pod(f"web{i}", {"cpu": cpu, "memory": "1Gi"}, nodeName="node10")))
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    gated = pod("later", schedulerName="my-scheduler", schedulingGates=[{"name": "example.com/later"}])
    evil = pod("huge\x1b[31m", schedulerName="my-scheduler")
    for i, each in enumerate((evil, gated)):
        queue.apply(Change(Kind.ADDED, each), time.monotonic() + i)
    queue.requeue(
        evil.metadata.uid, {"NodeResourcesFit"}, "0/2 nodes are available: \x1b[5m", time.monotonic()
    )
    screen = Screen(queue, cache)
    screen.note()
    said = rows(screen)
    assert re.search(r"^node2 .* 0% .* 0% +0 cordoned *$", said[2])
    assert re.search(r"^node10 .* 50% .* 25% +2 web0 web1", said[3])
    assert any(re.match(r"unschedulable +1 default/huge\\x1b\[31m *$", row) for row in said)
    assert any(re.match(r"gated +1 default/later *$", row) for row in said)
    assert any("In the queue for longest: default/huge\\x1b[31m, " in row for row in said)
    assert any("0/2 nodes are available: \\x1b[5m" in row for row in said)
    assert "\x1b" not in "".join(said)


def test_keys_sort_nodes_and_scroll() -> None:
    cache = Cache(map(node, (f"node{i}" for i in range(100))))
    cache.apply(Change(Kind.ADDED, pod("web", {"cpu": "1", "memory": "1Gi"}, nodeName="node50")))
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler")})
    ours, theirs = pty.openpty()
    screen = Screen(queue, cache)
    screen.note()

    def first_after(keys: bytes) -> str:
        os.write(ours, keys)
        return rows(screen)[2].split()[0]

    with screen.reading_keys(theirs):
        assert rows(screen)[0].endswith("s: sorted by name")
        assert first_after(b"\x1b[B\x1b[Bj") == "node3"
        assert "and 92 more nodes, 3 of them above; arrows scroll" in rows(screen)
        assert first_after(b"\x1b[6~") == "node13"
        assert first_after(b"\x1b[A\x1b[5~kkkkkk") == "node0"
        assert first_after(b" " * 30) == "node92"
        assert first_after(b"s") == "node50"
        assert rows(screen)[0].endswith("s: sorted by cpu")
        assert first_after(b"sss") == "node0"
    os.close(ours)
    os.close(theirs)


def test_on_a_terminal_until_ctrl_c(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    cluster.add_pod("huge", requests={"cpu": "64"})
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, str(POLLER), f"--proxy={cluster.proxy}", "--interval=0.1", "--top"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            said = read_until(ours, r"unschedulable\s+1 default/huge")
            assert "\x1b[?1049h" in said  # the terminal's other screen
            said += read_until(ours, r"n1 .*1 web")
            said += read_until(ours, r"0/1 nodes are available: 1 Insufficient cpu")
            os.write(ours, b"ss")
            read_until(ours, "sorted by memory")
            process.send_signal(signal.SIGINT)
            after = read_until(ours, r"ended by SIGINT after [\d.]+ s; pods: 1 bound, 1 left without a node")
            assert "\x1b[?1049l" in after
            assert process.wait(30) == 0
        finally:
            process.kill()
            os.close(ours)


def test_a_bare_loop_says_what_it_is_about_to_do() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "POLLER_PROXY": "http://127.0.0.1:9"}
    with subprocess.Popen([sys.executable, str(POLLER)], stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            said = read_until(ours, "questions that write nothing")
            assert "poller schedules pods that name my-scheduler and random-scheduler" in said
            assert "the kubectl proxy at http://127.0.0.1:9." in said
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, words: str) -> str:
    """What is written to a terminal until that holds some words, without colours."""
    said, deadline = "", time.monotonic() + 60
    while not re.search(words, said):
        assert time.monotonic() < deadline, said
        if select([terminal], [], [], 1)[0]:
            said = re.sub(r"\x1b\[[\d;]*m", "", said + os.read(terminal, 65536).decode(errors="replace"))
    return said
