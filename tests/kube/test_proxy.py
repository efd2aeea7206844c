"""The way to the cluster: kubectl's configuration, the proxy that poller starts, and what either says."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from lib.kube import proxy
from lib.kube.api import Api
from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.proxy import OwnProxy, ProxyError, context_namespace
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import serving

NOBODY = "https://127.0.0.1:1"


@pytest.fixture(autouse=True)
def kubectl_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    context_namespace.cache_clear()
    monkeypatch.setenv("PATH", f"{KUBECTL.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def kubeconfig(folder: Path, server: str = NOBODY, user: Any = None, **more: Any) -> Path:
    """A kubeconfig; more: fields in place of the usual ones."""
    context = {"cluster": "c", "user": "u", "namespace": "shop"}
    fields = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": "x"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(fields | more))
    return file


def plugin(script: str, **more: str) -> dict[str, Any]:
    """A user whom a plugin logs in."""
    version = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable"}
    return {"exec": {"command": "sh", "args": ["-c", script], **version, **more}}


@contextmanager
def server() -> Iterator[tuple[str, list[str]]]:
    """An API server that answers everything with an empty object; yields its URL, and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"current-context": ""}, "kubectl has no current context; name one with --context NAME"),
        ({"clusters": []}, "kubectl can't use its kubeconfig: error: cannot locate cluster c"),
        ({"contexts": []}, "kubectl can't use its kubeconfig: error: cannot locate context x"),
        ({"clusters": 1}, "kubectl can't use its kubeconfig: error: error loading config file"),
    ],
)
def test_a_context_without_a_cluster_is_told(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ProxyError) as error, OwnProxy(f"--kubeconfig={kubeconfig(tmp_path, **fields)}"):
        pass
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (
            plugin("", command="no-such-plugin", installHint="Install aws-iam-authenticator first"),
            ["executable no-such-plugin not found", "Install aws-iam-authenticator first"],
        ),
        (
            plugin("echo your session has expired: log in >&2; exit 1"),
            [
                "executable sh failed with exit code 1",
                "kubectl says: your session has expired: log in",
            ],
        ),
        (None, ["the connection to the API server at 127.0.0.1:1 was refused"]),
    ],
)
def test_what_kubectl_says_is_told_in_full(tmp_path: Path, user: Any, said: list[str]) -> None:
    with (
        OwnProxy(f"--kubeconfig={kubeconfig(tmp_path, user=user)}") as own,
        Api(own.address, threading.Event()).with_short_timeouts() as api,
    ):
        with pytest.raises(ApiError) as error:
            api.get_whole("/version")
        told = own.with_its_words(str(error.value))
    assert all(words in told for words in said)
    assert "the proxy may not reach" not in told


def test_a_server_whose_url_has_a_path(tmp_path: Path) -> None:
    with server() as (url, asked):
        file = kubeconfig(tmp_path, f"{url}/k8s/clusters/c-m-abc123")
        with OwnProxy(f"--kubeconfig={file}") as own, Api(own.address, threading.Event()) as api:
            assert api.get_whole("/version") == b"{}"
    assert asked == ["/k8s/clusters/c-m-abc123/version"]


@pytest.mark.parametrize("script", ['echo hello; exec {} "$@"', 'exec {} "$@"'])
def test_a_wrapper_of_kubectl_may_print_lines_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    wrapper(tmp_path, monkeypatch, script.format(quote(str(KUBECTL))))
    assert context_namespace(f"--kubeconfig={kubeconfig(tmp_path)}") == "shop"


def test_a_kubectl_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "START", 0.2)
    file = wrapper(tmp_path, monkeypatch, "sleep 60")
    with pytest.raises(ProxyError, match=f"{file} config view: no answer within"):
        context_namespace(f"--kubeconfig={kubeconfig(tmp_path)}")


def wrapper(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A kubectl of this script, which is first on the PATH."""
    file = folder / "bin" / "kubectl"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    return file


def test_what_kubectl_proxy_itself_refuses_is_a_missing_right(tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    command = [KUBECTL, f"--kubeconfig={kubeconfig(tmp_path)}", "proxy", f"--unix-socket={path}"]
    with (
        serving([*map(str, command), "--reject-methods=POST"]),
        Api(f"unix://{path}", threading.Event()) as api,
        pytest.raises(ForbiddenError, match="403 Forbidden: kubectl proxy itself refuses it"),
    ):
        api.dry_run("/api/v1/namespaces/default/pods", b"{}")


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_a_proxy_on_the_loopback_address_of_ipv6(tmp_path: Path) -> None:
    with server() as (url, _):
        command = [KUBECTL, f"--kubeconfig={kubeconfig(tmp_path, url)}", "proxy", "--address=[::1]"]
        with (
            serving([*map(str, command), "--port=0"]) as line,
            Api(f"http://{line.rpartition(' ')[2]}", threading.Event()) as api,
        ):
            assert api.get_whole("/version") == b"{}"
