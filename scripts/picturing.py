"""Takes pictures of the page that poller.py --ui serves, for an embedded API server with some pods."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from playwright.sync_api import Page, expect, sync_playwright

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT, ending_with_us

PICTURES = ROOT / "scripts/pictures"
WIDTH, HEIGHT = 1180, 720
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MAX_BYTES = 150_000

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "contexts": [{"name": "pictures", "context": {"cluster": "pictures"}}],
    "current-context": "pictures",
}


def pod(name: str, cpu: str, memory: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    main = {"name": "main", "image": "busybox:1.36", "resources": {"requests": requests}}
    whole = {"schedulerName": "my-scheduler", "containers": [main], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


FIRST = [
    *(pod(f"web-{i}", "500m", "768Mi") for i in range(1, 5)),
    *(pod(f"api-{i}", "250m", "512Mi") for i in range(1, 4)),
    pod("cache", "500m", "2Gi"),
    pod("batch", "3", "3Gi"),
    pod("report", "6", "1Gi"),
    pod("later", "100m", "64Mi", schedulingGates=[{"name": "example.com/quota"}]),
]
SHOWN = pod("database", "1500m", "3Gi")


def main() -> None:
    """Run everything, and write the pictures."""
    with TemporaryDirectory() as folder, minicluster("--nodes", "5") as server:
        kubeconfig = Path(folder) / "kubeconfig"
        clusters = [{"name": "pictures", "cluster": {"server": server}}]
        kubeconfig.write_text(json.dumps({**KUBECONFIG, "clusters": clusters}))
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        kubectl(environment, "cordon", "node5")
        kubectl(environment, "taint", "nodes", "node4", "spot=true:PreferNoSchedule")
        with serving_poller(environment) as address, opened(address) as page:
            apply(environment, FIRST)
            for each in FIRST:
                expect(chip(page, each)).to_be_visible()
            expect(page.locator("[data-lane=active] .pod")).to_have_count(0)
            apply(environment, [SHOWN])
            expect(chip(page, SHOWN, "#node-list ")).to_be_visible()
            chip(page, SHOWN).click()
            expect(page.locator(".runner-up")).to_be_visible()
            page.mouse.move(0, 0)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                file = PICTURES / f"page-{scheme}.png"
                page.screenshot(path=file)
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB")
                if file.stat().st_size > MAX_BYTES:
                    sys.exit(f"{file} is larger than {MAX_BYTES // 1000} kB")


def kubectl(environment: dict[str, str], *arguments: str, given: str = "") -> None:
    command = [str(KUBECTL), *arguments]
    subprocess.run(command, env=environment, input=given, text=True, check=True, stdout=subprocess.DEVNULL)


def apply(environment: dict[str, str], pods: list[dict[str, Any]]) -> None:
    kubectl(environment, "apply", "-f", "-", given="\n---\n".join(map(json.dumps, pods)))


def chip(page: Page, shown: dict[str, Any], within: str = "") -> Any:
    return page.locator(f"{within}[data-pod='default/{shown['metadata']['name']}'] button")


@contextmanager
def serving_poller(environment: dict[str, str]) -> Iterator[str]:
    """Run poller for as long as the block takes; yields the page's address."""
    command = [sys.executable, str(ROOT / "poller.py"), "--start-proxy", "--ui", "--seed=1", "--interval=0.3"]
    with subprocess.Popen(
        ending_with_us(command), env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as poller:
        assert poller.stderr
        try:
            for line in poller.stderr:
                if found := re.search(r"the page is at (http://\S+/): ", line):
                    yield found[1]
                    break
            else:
                sys.exit("poller.py has ended and named no page")
        finally:
            poller.terminate()
            poller.stderr.read()
            poller.wait()


@contextmanager
def opened(address: str) -> Iterator[Page]:
    """The page in a Chromium, connected to the server."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("scripts/screenshots needs chromium; on Debian and Ubuntu: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        page.set_default_timeout(60_000)
        page.goto(address)
        expect(page.locator("#connection")).to_have_text("connected")
        yield page
        browser.close()


if __name__ == "__main__":
    expect.set_options(timeout=60_000)
    main()
