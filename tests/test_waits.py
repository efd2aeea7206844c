"""Each wait of poller is in the table of lib/service/reliability.md, which says how long it takes at most."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "lib/service/reliability.md"

WAITS = {
    "accept",
    "acquire",
    "as_completed",
    "communicate",
    "connect",
    "getaddrinfo",
    "input",
    "poll",
    "recv",
    "recv_into",
    "result",
    "Retrying",
    "select",
    "sendall",
    "sleep",
    "sleep_using_event",
    "stream",
    "urlopen",
    "wait",
    "waitpid",
    "wrap_socket",
}
"""Names of functions that wait."""

PROGRAMS_AND_DOWNLOADS = {
    *(f"subprocess.{name}" for name in ("call", "check_call", "check_output", "run")),
    *(f"httpx.{name}" for name in ("get", "post", "request", "stream")),
}

NO_WAITS = {
    "lib/questions/replay/figures.py Figures.as_json": "a figure: how long pods waited",
    "lib/questions/replay/show.py show_replays": "the same",
    "lib/kube/proxy.py OwnProxy.revive": "Popen.poll doesn't wait",
    "lib/version.py commit": "git, once before the first tick, and only in a clone",
}


def is_wait(call: ast.Call) -> bool:
    """Whether a call waits, by its name and arguments."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    plain = not (call.args or call.keywords)
    if name == "poll":  # without arguments: select.poll(), or whether a process has ended
        return not plain
    if name == "wait":  # a plain `wait(...)` makes a plugin's answer
        return isinstance(function, ast.Attribute)
    if name == "get":  # of a queue
        return plain or any(each.arg == "timeout" for each in call.keywords)
    if name == "join" and not isinstance(function.value, ast.Constant):  # type: ignore[attr-defined]  # a thread's
        return plain or any(isinstance(each, ast.Name) and each.id.isupper() for each in call.args)
    return name in WAITS or ast.unparse(function) in PROGRAMS_AND_DOWNLOADS


def is_lock(item: ast.withitem) -> bool:
    """Whether a `with` takes a lock, by its name."""
    return ast.unparse(item.context_expr).lower().endswith("lock")


def waits_in(tree: ast.AST, scope: str = "") -> Iterator[str]:
    """The functions that wait, by their qualified names."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        within = f"{scope}.{node.name}".strip(".") if named else scope  # type: ignore[attr-defined]
        takes = isinstance(node, ast.With) and any(map(is_lock, node.items))
        if isinstance(node, ast.Await) or takes or (isinstance(node, ast.Call) and is_wait(node)):
            yield within
        yield from waits_in(node, within)


def waits() -> set[str]:
    files = [ROOT / "poller.py", *(ROOT / "lib").rglob("*.py")]
    return {
        f"{file.relative_to(ROOT)} {scope}"
        for file in files
        for scope in waits_in(ast.parse(file.read_text()))
    }


def rows() -> list[list[str]]:
    lines = TABLE.read_text().partition("## Waits")[2].partition("\n## ")[0].splitlines()
    return [
        [each.strip() for each in line.strip("| ").split("|")] for line in lines if line.startswith("| `")
    ]


def test_each_wait_is_in_the_table() -> None:
    known = {name for row in rows() for name in re.findall("`([^`]+)`", row[0])}
    assert waits() - NO_WAITS.keys() == known


def test_each_wait_says_how_long_what_then_and_what_others_wait_meanwhile() -> None:
    for row in rows():
        assert len(row) == 5, row
        assert all(row), row


def test_a_wait_is_found() -> None:
    code = """
class Reader:
    def read(self):
        self.queue.get()
        ", ".join(names)
    async def answer(self):
        await self.reader.readline()
"""
    assert [*waits_in(ast.parse(code))] == ["Reader.read", "Reader.answer"]


def test_waits_are_found_by_what_they_look_like() -> None:
    """Without this, a new way to wait would be missing in the table, and nobody would notice."""
    found = """
        thread.join()
        flag.wait(3)
        queue.get(timeout=1)
        with self._lock: pass
        subprocess.check_output(command)
        httpx.request("GET", address)
        lock.acquire()
        select.select([one], [], [])
    """
    none = """
        ", ".join(names)
        wait("a plugin's answer")
        given.get("key")
        with suppress(OSError): pass
        process.poll()
    """
    for lines, expected in ((found, 1), (none, 0)):
        for line in filter(None, map(str.strip, lines.splitlines())):
            assert len([*waits_in(ast.parse(line))]) == expected, line
