"""The page in the browser, for tests: a poller that serves it, and a real Chromium."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import NEVER, Cluster, RunningPoller
from playwright.sync_api import Browser, sync_playwright

from scripts.servers.kubectl import KUBECTL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

IN_CHROMIUM = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH")

OFFLINE = (
    "--disable-background-networking --disable-component-update --disable-sync --no-first-run --disable-quic"
)

PLACES_NOTHING = ("--dry-run", "--scheduler-name=nobody", NEVER)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A Chromium without a window, with a fresh profile."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", *OFFLINE.split()]
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@contextmanager
def page_of(cluster: Cluster, *arguments: str) -> Iterator[str]:
    """The page's address; a poller serves it that places no pods, unless the arguments say so."""
    with serving_poller(cluster, *(arguments or PLACES_NOTHING)) as (_, address):
        yield address


@contextmanager
def serving_poller(cluster: Cluster, *arguments: str, **more: Path) -> Iterator[tuple[RunningPoller, str]]:
    """A poller that serves the page, and the page's address. more: as for `running_poller`."""
    own = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": str(Path(KUBECTL).parent)}
    with cluster.running_poller("--start-proxy", "--ui", *arguments, **more, **own) as poller:
        yield poller, address_in(poller)


def address_in(poller: RunningPoller) -> str:
    """The page's address, as poller has logged it."""
    poller.says("the page is at ")
    (address,) = re.findall(r"the page is at (http://127\.0\.0\.1:\d+/[\w-]{43}/): ", poller.said)
    return str(address)
