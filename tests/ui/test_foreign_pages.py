"""Other web pages in the same browser can't read the cluster through the page's server, nor write to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from cluster import Cluster
from page import IN_CHROMIUM, page_of
from playwright.sync_api import Browser, Page, expect

ON_ONE_SERVER = True

pytestmark = IN_CHROMIUM

TRIES = """
async (base) => {
  const found = {};
  const within = (work) => Promise.race([work, new Promise((end) => setTimeout(() => end("silence"), 3000))]);
  const listen = (path) => within(new Promise((end) => {
    const socket = new WebSocket(base.replace("http:", "ws:") + path);
    socket.onmessage = (message) => end(String(message.data));
    socket.onerror = () => end("refused");
  }));
  const read = (path, options) => within(
    fetch(base + path, options).then((answer) => answer.text(), () => "refused"));
  const embed = (kind, path) => within(new Promise((end) => {
    const element = document.createElement(kind);
    element.onload = () => end("loaded");
    element.onerror = () => end("refused");
    element.src = base + path;
    document.body.append(element);
  }));
  const write = (path) => within(fetch(base + path, {
    method: "POST", mode: "no-cors",
    body: new Blob([JSON.stringify({kind: "ConfigMap", apiVersion: "v1", metadata: {name: "evil"}})]),
  }).then(() => "sent", () => "refused"));
  found.socket = await listen("/api/v1/secrets?watch=1");
  found.nodes = await read("/api/v1/nodes");
  found.preflighted = await read("/api/v1/nodes", {headers: {"X-Odd": "1"}});
  found.script = await embed("script", "/page.js");
  found.image = await embed("img", "/icon.svg");
  await write("/api/v1/namespaces/default/configmaps");
  return found;
}
"""
"""What a page tries; and what it sees of that."""

REFUSED = dict.fromkeys(("socket", "nodes", "preflighted", "script", "image"), "refused")


class Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><link rel=icon href=data:,><p>")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def foreign_site() -> Iterator[int]:
    """The port of a web site that has nothing to do with poller."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def opened(browser: Browser, address: str) -> Page:
    page = browser.new_context().new_page()
    page.goto(address)
    return page


def test_a_foreign_page_reads_no_secret_and_creates_nothing(browser: Browser, cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=value")
    try:
        with page_of(cluster) as address, foreign_site() as port:
            origin = f"http://{urlsplit(address).netloc}"
            with_token = address.removesuffix("/")
            for host in ("127.0.0.1", "localhost"):  # another port is another origin, but the same site
                page = opened(browser, f"http://{host}:{port}/")
                for base in (origin, with_token, origin.replace("127.0.0.1", "localhost")):
                    assert page.evaluate(TRIES, base) == REFUSED, (host, base)
            assert cluster.api.get("/api/v1/namespaces/default/configmaps/evil").status_code == 404
            live = opened(browser, address)
            expect(live.locator("#connection")).to_have_text("connected")
            expect(live.locator("[data-node=n1]")).to_be_visible()
    finally:
        cluster.kubectl("delete", "secret", "hidden")
        cluster.kubectl("delete", "configmap", "evil", "--ignore-not-found")


def test_a_foreign_page_cannot_show_the_page_in_a_frame_or_learn_its_address(
    browser: Browser, cluster: Cluster
) -> None:
    with page_of(cluster) as address, foreign_site() as port:
        page = opened(browser, f"http://127.0.0.1:{port}/")
        page.evaluate("(address) => document.body.innerHTML = `<iframe src='${address}'></iframe>`", address)
        page.wait_for_timeout(1000)
        framed = [frame for frame in page.frames if frame.url.startswith(address)]
        assert [frame.locator("#connection").count() for frame in framed] in ([], [0])
        live = opened(browser, address)
        expect(live.locator("#connection")).to_have_text("connected")
        live.evaluate("(address) => location.href = address", f"http://127.0.0.1:{port}/")
        live.wait_for_url(f"http://127.0.0.1:{port}/")
        assert live.evaluate("document.referrer") == ""
