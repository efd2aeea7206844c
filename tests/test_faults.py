"""Each fault of the proxy: what the client gets, and which requests reach the upstream."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random

import httpx
import pytest
from faults import ALWAYS, Fault, answer, change_json, cut_answer, delay, faulty, hold, lose_answer, refuse

from scripts.servers.faulty_proxy import running
from scripts.simulation.faults import DOES_NOT_REACH, Hit, Kind
from scripts.simulation.proxy import Faulty

POD = {"kind": "Pod", "spec": {"nodeName": ""}}
POD_BODY = httpx.Request("POST", "http://any", json=POD).content


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
    with httpx.Client(timeout=60, trust_env=False, verify=False) as client:
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


# --- the simulation's faults, in real time ------------------------------------------------------------------

AN_ANSWER, CUT, NOTHING = "an answer", "cut off", "nothing"

GETS = {
    Kind.RESET: CUT,
    Kind.LOST: CUT,
    Kind.IGNORED: NOTHING,
    Kind.SILENT: NOTHING,
    Kind.TRUNCATED: CUT,
    Kind.REFUSED: CUT,
    Kind.CRASH_BEFORE: CUT,
    Kind.CRASH_AFTER: CUT,
    Kind.LATE: AN_ANSWER,
    Kind.SLOW: AN_ANSWER,
    Kind.HTML: "200|404|502|503",
    Kind.BUSY: "429",
    Kind.BUSY_FOR_LONG: "429",
    Kind.BROKEN: "50[0234]",
    Kind.FAILED: "50[034]",
    Kind.FORBIDDEN: "40[13]",
    Kind.EXPIRED: "410",
    Kind.FORGOTTEN: "201",
}
"""By fault, what the client of a POST gets: an answer as it is, a status, or an error."""


@pytest.mark.parametrize("kind", GETS)
def test_a_fault_of_the_simulation(
    kind: Kind, upstream: Upstream, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.simulation.proxy.LONGEST_DELAY", 0.2)
    noted, crashes = [], []
    make = partial(
        Faulty,
        pick=lambda request: Hit(kind, Random(1), 1.0),
        note=lambda asked, code, of: noted.append((str(asked), of)),
        older=lambda seconds: "7",
        crash=lambda: crashes.append(kind),
    )
    with running(make, upstream.url) as proxy:
        try:
            got = client.post(f"{proxy.url}/pods", json=POD, timeout=3)
            gets = AN_ANSWER if got.status_code == 201 and got.content == POD_BODY else str(got.status_code)
        except (httpx.RemoteProtocolError, httpx.ReadError):
            gets = CUT
        except httpx.ReadTimeout:
            gets = NOTHING
    assert re.fullmatch(GETS[kind], gets)
    assert noted == [("POST /pods", kind)]
    assert len(crashes) == (kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER))
    reaches = kind not in {*DOES_NOT_REACH, Kind.REFUSED, Kind.CRASH_BEFORE}
    assert len(upstream.heard) == reaches


def test_a_stale_list_is_one_of_an_older_version(upstream: Upstream, client: httpx.Client) -> None:
    make = partial(
        Faulty,
        pick=lambda request: Hit(Kind.STALE, Random(1), 1.0),
        note=lambda *_: None,
        older=lambda seconds: "7",
        crash=lambda: None,
    )
    with running(make, upstream.url) as proxy:
        client.get(f"{proxy.url}/pods?limit=5&resourceVersion=0")
        client.get(f"{proxy.url}/pods?continue=x")
    older = "/pods?limit=5&resourceVersion=7&resourceVersionMatch=Exact"
    assert upstream.heard == [("GET", older), ("GET", "/pods?continue=x")]
