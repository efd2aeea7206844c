"""Each fault of the proxy: what the client gets, and which requests reach the upstream."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from cluster import http_client
from faults import ALWAYS, Fault, answer, change_json, cut_answer, delay, faulty, hold, lose_answer, refuse

POD = {"kind": "Pod", "spec": {"nodeName": ""}}


class Upstream(HTTPServer):
    """Answers each request with its own body, its own Accept as Content-Type, and two warnings."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.heard: list[tuple[str, str]] = []


class Echo(BaseHTTPRequestHandler):
    server: Upstream

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.command, self.path))
        self.send_response(201)
        self.send_header("Content-Type", self.headers["Accept"])
        self.send_header("Warning", "one")
        self.send_header("Warning", "two")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with http_client("") as client:
        yield client


def test_without_a_fault_all_is_passed_on(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url) as proxy:
        target = "/pods?fieldSelector=spec.nodeName%3D,a=b"
        got = client.post(f"{proxy.url}{target}", json=POD, headers={"Accept": "x/y"})

        assert (got.status_code, got.json(), got.headers["Content-Type"]) == (201, POD, "x/y")
        assert got.headers.get_list("Warning") == ["one", "two"]
        assert proxy.requests == upstream.heard == [("POST", target)]


def test_a_connection_is_kept_alive(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("GET", "/once", answer(503))) as proxy:
        connections = set()
        for path in ("/pods", "/once", "/pods"):
            stream = client.get(f"{proxy.url}{path}").extensions["network_stream"]
            connections.add(stream.get_extra_info("client_addr"))

        assert len(connections) == 1


def test_an_answer_of_its_own(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("GET", "/pods", answer(429, "slow down", {"Retry-After": "1"}))) as proxy:
        got = client.get(f"{proxy.url}/pods")

        assert (got.status_code, got.text, got.headers["Retry-After"]) == (429, "slow down", "1")
        assert upstream.heard == []


def test_a_refused_request_never_reaches_the_upstream(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("POST", "/binding", refuse())) as proxy:
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(f"{proxy.url}/binding", json=POD)

        assert upstream.heard == []


def test_a_lost_answer_is_to_a_request_that_was_done(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("POST", "/binding", lose_answer())) as proxy:
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(f"{proxy.url}/binding", json=POD)

        assert upstream.heard == [("POST", "/binding")]


def test_a_delay(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("GET", "/pods", delay(3600))) as proxy:
        with pytest.raises(httpx.ReadTimeout):
            client.get(f"{proxy.url}/pods", timeout=0.1)
        assert client.get(f"{proxy.url}/pods").status_code == 201, "the second request isn't delayed"


def test_a_request_is_held_until_it_is_let_go(upstream: Upstream, client: httpx.Client) -> None:
    let_go = threading.Event()
    with faulty(upstream.url, Fault("GET", "/pods", hold(let_go), times=2)) as proxy:
        with pytest.raises(httpx.ReadTimeout):
            client.get(f"{proxy.url}/pods", timeout=0.1)
        assert upstream.heard == []
        let_go.set()
        assert client.get(f"{proxy.url}/pods").status_code == 201


def test_a_cut_answer_breaks_off_or_looks_whole(upstream: Upstream, client: httpx.Client) -> None:
    faults = (Fault("POST", "/a", cut_answer(5)), Fault("POST", "/b", cut_answer(5, honest_length=True)))
    with faulty(upstream.url, *faults) as proxy:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
            client.post(f"{proxy.url}/a", content=b"123456789")

        assert client.post(f"{proxy.url}/b", content=b"123456789").text == "12345"


def test_a_changed_body(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url, Fault("POST", "/pods", change_json(lambda pod: {**pod, "spec": 7}))) as proxy:
        assert client.post(f"{proxy.url}/pods", json=POD).json() == {"kind": "Pod", "spec": 7}


def test_a_request_meets_the_first_fault_that_is_not_used_up(
    upstream: Upstream, client: httpx.Client
) -> None:
    table = (
        Fault("GET", r"^/pods\?", answer(503), times=2, after=1),
        Fault("GET", r"^/pods", answer(500), times=1, after=1),
        Fault("POST", r"", answer(409), times=ALWAYS),
    )
    with faulty(upstream.url, *table) as proxy:
        asked = [client.get(f"{proxy.url}/pods?limit=1").status_code for _ in range(5)]
        assert asked == [201, 503, 503, 500, 201]
        assert [client.post(proxy.url).status_code for _ in range(3)] == [409, 409, 409]


def test_faults_are_added_while_it_runs(upstream: Upstream, client: httpx.Client) -> None:
    with faulty(upstream.url) as proxy:
        assert client.get(f"{proxy.url}/pods").status_code == 201
        proxy.add(Fault("GET", "/pods", answer(500)))
        assert client.get(f"{proxy.url}/pods").status_code == 500


def test_an_upstream_that_is_gone_is_a_bad_gateway(client: httpx.Client) -> None:
    with faulty("http://127.0.0.1:1") as proxy:
        assert client.get(f"{proxy.url}/pods").status_code == 502


def test_it_stops_without_waiting_and_leaves_no_thread(upstream: Upstream, client: httpx.Client) -> None:
    before = set(threading.enumerate())
    with faulty(upstream.url, Fault("GET", "/slow", delay(3600))) as proxy:
        client.get(f"{proxy.url}/pods")  # its connection stays open, idle
        with pytest.raises(httpx.ReadTimeout):
            client.get(f"{proxy.url}/slow", timeout=0.1)
        assert set(threading.enumerate()) - before

    assert not set(threading.enumerate()) - before
