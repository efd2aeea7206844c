"""/readyz reports the state of the API server: by its last good answer, also of one that doesn't answer."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster import Cluster, RunningPoller, eventually, http_client
from faults import ALWAYS, Fault, faulty, hold
from later import Later

from lib.kube.errors import ForbiddenError, LostAnswerError
from lib.service.telemetry.health import FRESH, Health
from lib.service.telemetry.listen import PROBE_PATIENCE
from scripts.servers.kubectl import KUBECTL, kubectl_proxy
from scripts.servers.process import ending_with_us

ON_ONE_SERVER = True

FORBIDDEN = ForbiddenError("GET /api/v1/pods: 403")


def heard_long_ago(probe: Exception | None) -> Health:
    """A loop that has heard nothing of the API server for a minute; `probe` is what asking raises."""
    health = Health()
    health.reached()
    health.last_answer = time.monotonic() - 60

    def ask() -> None:
        if probe:
            raise probe

    health.probe = ask
    return health


def test_a_quiet_watch_of_a_server_that_answers_is_ready() -> None:
    assert heard_long_ago(None).why_unreached() == ""
    assert heard_long_ago(FORBIDDEN).why_unreached() == ""


def test_a_quiet_watch_of_a_frozen_server_is_not_ready() -> None:
    said = heard_long_ago(LostAnswerError("no answer within 3 s")).why_unreached()
    assert re.fullmatch(r"unreachable for \d+ s: no answer within 3 s", said)


def test_a_server_that_was_heard_just_now_is_not_asked() -> None:
    health = heard_long_ago(LostAnswerError("it was asked"))
    health.last_answer = time.monotonic() + 60 - FRESH  # it stays fresh however slow this machine is
    assert health.why_unreached() == ""


def test_before_the_first_answer_the_trouble_is_named() -> None:
    health = Health()
    assert health.why_unreached() == "no answer yet"
    health.failed(FORBIDDEN)
    assert health.why_unreached() == f"never reached: {FORBIDDEN}"
    health.reached()
    assert health.why_unreached() == ""


def test_a_server_that_gave_no_answer_is_asked_again_after_some_seconds() -> None:
    """To wait for its answer takes time, and a kubelet asks each second."""
    machine, asked = Later(), []
    health = Health(machine)
    health.reached()
    health.last_answer = machine.monotonic() - 60

    def ask() -> None:
        asked.append(machine.seconds)
        raise LostAnswerError("no answer")

    health.probe = ask
    for seconds in (0.0, FRESH - 1, FRESH + 1):
        machine.seconds = seconds
        assert health.why_unreached().startswith("unreachable for ")
    assert asked == [0.0, FRESH + 1]


def test_trouble_counts_from_the_last_good_answer() -> None:
    health = heard_long_ago(None)
    health.failed(FORBIDDEN)
    said = health.why_unreached()
    assert re.fullmatch(r"failing for [6-9]\d s: GET /api/v1/pods: 403", said)


@contextmanager
def proxy_process(cluster: Cluster, socket: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A kubectl proxy on a unix socket, as a process that can be frozen."""
    way = ["--server", cluster.server, "--kubeconfig", str(cluster.kubeconfig)]
    command = ending_with_us([str(KUBECTL), *way, "proxy", f"--unix-socket={socket}"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(socket.exists)
            yield process
        finally:
            process.kill()


def readyz(poller: RunningPoller) -> str:
    """Why a poller isn't ready; or "ok"."""
    (url,) = re.findall(r"/metrics at (http://\S+)", poller.said)
    with http_client(url) as client:
        return client.get("/readyz").text


def test_a_frozen_server_is_told_of_from_its_last_good_answer(cluster: Cluster, tmp_path: Path) -> None:
    """It freezes, ends, and is started again; meanwhile one poller polls, and one watches."""
    socket = tmp_path / "proxy.sock"
    cluster.add_node("n1")
    with ExitStack() as stack:
        with proxy_process(cluster, socket) as proxy:
            pollers = [
                stack.enter_context(cluster.running_poller("--listen=0", *how, proxy=f"unix://{socket}"))
                for how in (["--scheduler-name=polls"], ["--scheduler-name=watches", "--watch"])
            ]
            polls, _ = pollers
            for poller in pollers:
                poller.says("scheduling the pods of")
                eventually(lambda poller=poller: readyz(poller) == "ok")
            began = time.monotonic()
            proxy.send_signal(signal.SIGSTOP)
            with ThreadPoolExecutor() as pool:  # each takes some seconds to find out
                [*pool.map(lambda each: eventually(lambda: "unreachable for" in readyz(each)), pollers)]
            frozen = time.monotonic() - began
        for poller in pollers:
            poller.says("nothing answers at ")
        stack.enter_context(kubectl_proxy(cluster.server, cluster.kubeconfig, socket))
        for poller in pollers:
            poller.says("the API server is back, after ")
            (away,) = re.findall(r"is back, after (\d+) s", poller.said)
            # Rounded, and from the first request that failed: one that watches sends none for a while.
            assert int(away) + 1 + (0 if poller is polls else FRESH) > frozen
            eventually(lambda poller=poller: readyz(poller) == "ok")


def test_a_quiet_time_before_does_not_count_as_away(cluster: Cluster, tmp_path: Path) -> None:
    """One that watches sends no request as long as nothing happens."""
    quiet, socket = 4.0, tmp_path / "proxy.sock"
    cluster.add_node("n1")
    with ExitStack() as stack:
        with proxy_process(cluster, socket):
            poller = stack.enter_context(cluster.running_poller("--watch", proxy=f"unix://{socket}"))
            poller.says("scheduling the pods of")
            time.sleep(quiet)
        poller.says("nothing answers at ")
        stack.enter_context(kubectl_proxy(cluster.server, cluster.kubeconfig, socket))
        poller.says("the API server is back, after ")
        (away,) = re.findall(r"is back, after (\d+) s", poller.said)
        assert int(away) < quiet


def test_a_server_that_does_not_answer_readiness_holds_up_no_other_answer(cluster: Cluster) -> None:
    """A kubelet that gets no answer from /livez restarts poller; any client could bring that about."""
    hang = threading.Event()
    with ExitStack() as stack:
        between = stack.enter_context(faulty(cluster.proxy, Fault("GET", "/version$", hold(hang), ALWAYS)))
        stack.callback(hang.set)
        poller = stack.enter_context(cluster.running_poller("--listen=0", "--watch", proxy=between.url))
        poller.says("scheduling the pods of")
        (url,) = re.findall(r"/metrics at (http://\S+)", poller.said)
        time.sleep(FRESH + 1)  # from now on, /readyz asks
        # One client: each new one reads all certificates of the system, which takes a slow machine seconds.
        with http_client(url) as client, ThreadPoolExecutor(20) as pool:
            asked = [pool.submit(client.get, path) for path in ("/readyz", "/%72eadyz") * 10]
            for path in ("/livez", "/healthz", "/metrics"):
                began = time.monotonic()
                assert client.get(path).status_code == 200
                assert time.monotonic() - began < PROBE_PATIENCE / 2, path
            first = asked[0].result()
            assert first.status_code == 500
            assert "api-server failed: no answer within" in first.text
            hang.set()
        eventually(lambda: readyz(poller) == "ok")
