"""The server of the page: it answers the page, and nobody else; and what the page needs, and nothing else."""

import http.client
import json
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import NEVER, Cluster, RunningPoller, eventually
from page import PLACES_NOTHING, address_in, page_of, serving_poller
from poller_process import with_constant

from lib.service.telemetry.bounded_server import MAX_CONNECTIONS
from scripts.servers.kubectl import kubectl_proxy

ON_ONE_SERVER = True

WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Asker:
    """Sends requests byte for byte: a client library would mend them. In them, `{token}` is filled in."""

    def __init__(self, address: str) -> None:
        self.host, self.token = re.findall(r"http://(.*)/(.*)/", address)[0]
        self.port = int(self.host.rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def message(self, target: str, method: str = "GET", **headers: str) -> bytes:
        lines = [f"{method} {self.filled(target)} HTTP/1.1"]
        lines += [f"{name.replace('_', '-')}: {self.filled(value)}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def filled(self, text: str) -> str:
        for name, value in (("token", self.token), ("host", self.host), ("port", str(self.port))):
            text = text.replace(f"{{{name}}}", value)
        return text

    def __call__(self, target: str, method: str = "GET", **headers: str) -> Answered:
        return self.send(self.message(target, method, **{"Host": "{host}", **headers}), method)

    def send(self, message: bytes, method: str = "GET") -> Answered:
        with self.connect() as connection:
            connection.sendall(message)
            return answered(connection, method)

    @contextmanager
    def watching(self, resource: str = "pods") -> Iterator["Watching"]:
        version = json.loads(self(f"/{{token}}/api/v1/{resource}?limit=1").text)["metadata"][
            "resourceVersion"
        ]
        target = f"/{{token}}/api/v1/{resource}?watch=1&resourceVersion={version}&allowWatchBookmarks=true"
        with self.connect() as connection:
            connection.sendall(self.message(f"{target}&timeoutSeconds=300", Host="{host}"))
            with closing(http.client.HTTPResponse(connection)) as answer:
                yield Watching(answer)


class Watching:
    """A watch; its answer has not begun yet."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def begin(self) -> int:
        self._answer.begin()
        return self._answer.status

    def next(self) -> tuple[str, str]:
        """The type of the next change, and the name of its object."""
        change: Any = json.loads(self._answer.readline())
        return change["type"], change["object"]["metadata"]["name"]

    @property
    def has_ended(self) -> bool:
        try:
            return not self._answer.read1()
        except (http.client.HTTPException, OSError):
            return True


def answered(connection: socket.socket, method: str = "GET") -> Answered:
    with closing(http.client.HTTPResponse(connection, method=method)) as answer:
        answer.begin()
        return Answered(answer.status, dict(answer.headers), answer.read().decode())


@pytest.fixture(scope="module")
def ask(servers: Cluster) -> Iterator[Asker]:
    """Asks a page's server. The cluster has a Secret."""
    servers.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=value")
    with page_of(servers) as address:
        yield Asker(address)
    servers.kubectl("delete", "secret", "hidden")


# --- what the page needs ---------------------------------------------------------------------------------


def test_the_page_gets_its_files_and_what_it_reads(ask: Asker, cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    page = ask("/{token}/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    files = re.findall(r'(?:src|href)="(.*?)"', page.text)
    assert sorted(files) == ["icon.svg", "page.js", "style.css"]
    for name in (*files, "index.html", "api.js"):
        assert ask(f"/{{token}}/{name}").status == 200
    cluster.post("/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, "involvedObject": {}})
    for resource, name in {"nodes": "n1", "pods": "web", "events": "e"}.items():
        answer = ask(f"/{{token}}/api/v1/{resource}?limit=500&continue=&resourceVersion=")
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert name in [each["metadata"]["name"] for each in json.loads(answer.text)["items"]]


@pytest.mark.parametrize(
    "target", ["/{token}/", "/{token}/page.js", "/{token}/api/v1/pods", "/", "/{token}/x"]
)
def test_no_answer_may_be_kept_or_embedded_and_the_address_is_told_to_nobody(target: str, ask: Asker) -> None:
    headers = ask(target).headers
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert policy.endswith("; frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert not [name for name in headers if name.startswith("Access-Control-")]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:{port}"},
        {"Host": "LOCALHOST:{port}"},
        {"Host": "[::1]:{port}"},
        {"Origin": "http://{host}"},
        {"Host": "localhost:{port}", "Origin": "http://localhost:{port}"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_the_page_itself_and_who_types_its_address_are_answered(headers: dict[str, str], ask: Asker) -> None:
    assert ask("/{token}/api/v1/nodes?limit=1", **headers).status == 200


def test_what_the_client_sends_is_not_passed_on_to_the_api_server(ask: Asker) -> None:
    odd = {"Impersonate-User": "nobody", "Authorization": "Bearer x", "Accept": "application/yaml"}
    answer = ask("/{token}/api/v1/nodes?limit=1", **odd)
    assert answer.status == 200
    assert json.loads(answer.text)["kind"] == "NodeList"


# --- what is refused -------------------------------------------------------------------------------------


def refused(answer: Answered, status: int) -> None:
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(r"[A-Z].*\.\n", answer.text)
    assert "hidden" not in answer.text


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "",
        "*",
        "/ui/",
        "/index.html",
        "/favicon.ico",
        "/api/v1/pods",
        "/api/v1/secrets?watch=1",
        "//",
        "//{token}/",
        "{token}/",
        "/x{token}/",
        "/{token}x/",
        "/x/{token}/",
        "/%7Btoken%7D/",
        "/?{token}/",
        "/./{token}/",
        "/..;/{token}/",
        "\\{token}\\",
        "http://{host}/{token}/",
        "/\xe9/",
    ],
)
def test_without_the_token_nothing_is_answered(target: str, ask: Asker) -> None:
    refused(ask(target), 403)


def test_a_token_that_is_nearly_right_is_wrong(ask: Asker) -> None:
    first = f"%{ord(ask.token[0]):02x}"
    for wrong in (
        ask.token[:-1],
        ask.token[1:],
        ask.token.swapcase(),
        first + ask.token[1:],
        f"{ask.token}%00",
    ):
        refused(ask(f"/{wrong}/"), 403)
    with_a_cookie = {"Cookie": f"token={ask.token}", "Authorization": f"Bearer {ask.token}"}
    refused(ask("/api/v1/pods", **with_a_cookie), 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:{port}"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1:{port}.evil.example"},
        {"Host": "localhost.evil.example:{port}"},
        {"Host": "user@{host}"},
        {"Host": "0.0.0.0:{port}"},
        {"Host": ""},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "https://{host}"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "http://{host}.evil.example"},
        {"Origin": "http://evil.example"},
        {"origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": ""},
        {"Upgrade": "websocket"},
        {"upgrade": "h2c"},
        WEBSOCKET,
    ],
    ids=str,
)
def test_a_request_from_elsewhere_is_refused_whatever_it_is_for(headers: dict[str, str], ask: Asker) -> None:
    for target in ("/{token}/", "/{token}/api/v1/pods", "/{token}/api/v1/secrets?watch=1", "/api/v1/secrets"):
        refused(ask(target, **headers), 403)


def test_hosts_and_origins_must_not_contradict_each_other(ask: Asker) -> None:
    line = ask.filled("GET /{token}/api/v1/pods HTTP/1.1\r\n")
    host, other = f"Host: {ask.host}\r\n", "Host: evil.example\r\n"
    origins = f"Origin: http://{ask.host}\r\nOrigin: http://evil.example\r\n"
    for headers in ("", f"{host}{other}", f"{other}{host}", f"{host}{host}", f" {host}", f"{host}{origins}"):
        refused(ask.send(f"{line}{headers}\r\n".encode()), 403)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "CONNECT", "get", "TRACE"]
)
def test_nothing_but_get_is_allowed(method: str, ask: Asker, cluster: Cluster) -> None:
    body = json.dumps({"metadata": {"name": "evil"}}).encode()
    for target in ("/{token}/api/v1/nodes", "/{token}/", "/api/v1/nodes"):
        head = ask.message(target, method, Host="{host}", Content_Length=str(len(body)))
        answer = ask.send(head + body)
        refused(answer, 405)
        assert answer.headers["Allow"] == "GET"
    assert cluster.api.get("/api/v1/nodes/evil").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/secrets",
        "api/v1/secrets?watch=1",
        "api/v1/namespaces/default/secrets/hidden",
        "api/v1/namespaces/default/pods",
        "api/v1/pods/",
        "api/v1/pods/../secrets",
        "api/v1/pods/%2e%2e/secrets",
        "api/v1/pods%2f..%2fsecrets",
        "api/v1/pods/..;/secrets",
        "api/v1/pods;/../secrets",
        "api/v1/pods\\..\\secrets",
        "api/v1//pods",
        "api//v1/pods",
        "/api/v1/pods",
        "./api/v1/pods",
        "%61pi/v1/pods",
        "api/v1/pods%00",
        "api/v1/pods%3Fwatch=1",
        "api/v1/pods#",
        "API/v1/pods",
        "api/v1/watch/pods",
        "api/v1",
        "apis",
        "version",
        "ui/",
        "README.md",
        "..",
        "../",
        "../../README.md",
        "%2e%2e/%2e%2e/README.md",
        "..;/..;/README.md",
        "..%2f..%2fREADME.md",
        "/etc/passwd",
        "//etc/passwd",
        "page.js/",
        "page.js%00.svg",
        "page.js?x",
        "?x",
    ],
)
def test_only_what_the_page_reads_is_there(path: str, ask: Asker) -> None:
    refused(ask(f"/{{token}}/{path}"), 404)


@pytest.mark.parametrize(
    "query",
    [
        "fieldSelector=metadata.name%3Dweb",
        "%66ieldSelector=",
        "limit=1&labelSelector=x",
        "limit=1&limit=2",
        "watch=1&w%61tch=1",
        "pretty",
        "&&x=1",
        "=",
        "&".join(f"x{number}=" for number in range(1000)),
        "Limit=1",
        "limit%00=1",
    ],
)
def test_only_the_pages_parameters_are_passed_on(query: str, ask: Asker) -> None:
    refused(ask(f"/{{token}}/api/v1/pods?{query}"), 403)


@pytest.mark.parametrize(
    "query", ["limit=1%26fieldSelector=x", "limit=1;fieldSelector=x", "limit=1%0d%0aX:%20y"]
)
def test_a_value_stays_one_value(query: str, ask: Asker) -> None:
    answer = ask(f"/{{token}}/api/v1/pods?{query}")
    assert answer.status >= 400  # an API server that gets all of it says that this is no number
    assert json.loads(answer.text)["kind"] == "Status"


def test_what_is_no_http_gets_no_answer_but_harms_nobody(ask: Asker) -> None:
    for message in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n",
    ):
        assert ask.send(message).status == 403
    assert ask("/{token}/", X="x" * 20_000).status == 431
    assert ask("/{token}/").status == 200


# --- many clients, and slow ones -------------------------------------------------------------------------


def test_watches_go_on_and_hold_up_neither_each_other_nor_the_loop(cluster: Cluster) -> None:
    cluster.add_node("n1")
    with serving_poller(cluster) as (poller, address), ExitStack() as stack:
        ask = Asker(address)
        watches = [stack.enter_context(ask.watching()) for _ in range(10)]
        assert [each.begin() for each in watches] == [200] * 10
        idle = ask.connect()
        stack.enter_context(idle)
        for name in ("web-1", "web-2"):
            cluster.add_pod(name)
            poller.says(f"default/{name} is bound")
            for watch in watches:
                while watch.next() != ("MODIFIED", name):
                    pass
        assert ask("/{token}/").status == 200


def test_clients_that_only_begin_to_ask_end_no_watch(cluster: Cluster) -> None:
    with serving_poller(cluster, *PLACES_NOTHING) as (poller, address), ExitStack() as stack:
        ask = Asker(address)
        watch = stack.enter_context(ask.watching())
        assert watch.begin() == 200
        for _ in range(200):
            slow = stack.enter_context(ask.connect())
            slow.sendall(b"GET /")
        assert ask("/{token}/").status == 200
        cluster.add_pod("web")
        assert watch.next() == ("ADDED", "web")
        eventually(lambda: len(open_files(poller)) < 100)
        assert len(list(Path(f"/proc/{poller.process.pid}/task").iterdir())) < 20


def test_of_too_many_watches_the_first_ends_and_the_last_begins(cluster: Cluster) -> None:
    with page_of(cluster) as address, ExitStack() as stack:
        ask = Asker(address)
        watches = []
        for _ in range(MAX_CONNECTIONS + 3):
            watches.append(stack.enter_context(ask.watching()))
            assert watches[-1].begin() == 200
        assert all(each.has_ended for each in watches[:3])
        cluster.add_pod("web")
        for each in watches[3:]:
            assert each.next() == ("ADDED", "web")


def test_who_hangs_up_leaves_nothing_open(cluster: Cluster) -> None:
    with serving_poller(cluster, *PLACES_NOTHING) as (poller, address):
        ask = Asker(address)
        assert ask("/{token}/").status == 200
        before = len(open_files(poller))
        with ExitStack() as stack:
            for _ in range(20):
                assert stack.enter_context(ask.watching()).begin() == 200
            assert len(open_files(poller)) >= before + 30  # to the client and to the proxy; others may end
        eventually(lambda: len(open_files(poller)) < before + 10)  # the loop's own requests need some


def test_who_does_not_read_is_hung_up_on(cluster: Cluster) -> None:
    script = with_constant(cluster.folder, "lib.service.telemetry.bounded_server", "STALL", 1)
    for number in range(40):
        cluster.add_pod(f"large-{number}", metadata={"annotations": {"example.com/x": "x" * 250_000}})
    with serving_poller(cluster, *PLACES_NOTHING, script=script) as (poller, address):
        ask = Asker(address)
        assert len(ask("/{token}/api/v1/pods?limit=500").text) > 10_000_000
        before = len(open_files(poller))
        with ask.connect() as connection:
            connection.sendall(ask.message("/{token}/api/v1/pods?limit=500", Host="{host}"))
            eventually(lambda: len(open_files(poller)) > before)
            eventually(lambda: len(open_files(poller)) <= before)
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                answered(connection)


def open_files(poller: RunningPoller) -> list[Path]:
    return list(Path(f"/proc/{poller.process.pid}/fd").iterdir())


# --- the proxy behind it ---------------------------------------------------------------------------------


def test_its_proxy_listens_on_a_private_socket_only_and_all_of_it_ends_with_poller(cluster: Cluster) -> None:
    with serving_poller(cluster, *PLACES_NOTHING, "-v") as (poller, address):
        where = Path(re.findall(r"kubectl proxy serves on unix://(\S+)", poller.said)[0])
        assert stat.S_IMODE(where.parent.stat().st_mode) == 0o700
        children = ["pgrep", "--parent", str(poller.process.pid), "kubectl"]
        proxy = subprocess.run(children, capture_output=True, text=True, check=True).stdout.strip()
        assert ports(int(proxy)) == []
        assert ports(poller.process.pid) == [f"0100007F:{Asker(address).port:04X}"]  # of 127.0.0.1
        with Asker(address).watching() as watch:
            assert watch.begin() == 200
            poller.stop(signal.SIGTERM)
            assert watch.has_ended
    assert poller.process.returncode == 0
    assert not where.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        Asker(address).connect()


def ports(process: int) -> list[str]:
    """The addresses at which a process listens, as the kernel shows them."""
    sockets = {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()}
    tables = [Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


def test_a_proxy_of_ones_own_serves_as_well_if_it_is_on_a_socket(cluster: Cluster, tmp_path: Path) -> None:
    with (
        kubectl_proxy(cluster.server, cluster.kubeconfig, tmp_path / "proxy.sock") as proxy,
        cluster.running_poller("--ui", NEVER, proxy=proxy) as poller,
    ):
        assert Asker(address_in(poller))("/{token}/api/v1/pods?limit=1").status == 200


def test_a_proxy_that_is_away_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.running_poller("--ui", NEVER, proxy=f"unix://{tmp_path}/none") as poller:
        answer = Asker(address_in(poller))("/{token}/api/v1/pods?limit=1")
        assert (answer.status, answer.text[:30]) == (502, "kubectl proxy can't be reached")
