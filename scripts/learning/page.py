"""`learn page`: a poller that places no pods, and shows the cluster in the browser. It ends with the lab."""

import fcntl
import os
import re
import subprocess
import sys
import time
import webbrowser

from scripts.learning.folder import OWN
from scripts.learning.keeper import KEEPER, is_held, locked
from scripts.learning.lab import LabError
from scripts.servers.process import ROOT, ending_with_us

LOCK, ADDRESS, LOG = "page.lock", OWN / "page", OWN / "page.log"

PLACES_NOTHING = ("--dry-run", "--scheduler-name=shows-the-page")


def address() -> str:
    """The address of the page, which is served from now on. LabError when it can't be."""
    if not is_held(LOCK):
        command = [sys.executable, "-m", "scripts.learning.page"]
        with LOG.open("w") as log:
            server = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        assert server.stdout
        with server.stdout:
            if server.stdout.readline().strip() != "ready":
                raise LabError(f"the page didn't start; {LOG} says why")
    return ADDRESS.read_text()


def open_in_browser(url: str) -> bool:
    """Open the address, if there is a browser with a window."""
    has_window = any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return (has_window or sys.platform == "darwin") and webbrowser.open(url)


def main() -> None:
    """Serve the page until the lab has ended."""
    poller = [sys.executable, str(ROOT / "poller.py"), "--ui", *PLACES_NOTHING]
    with (
        locked(LOCK, fcntl.LOCK_EX),
        subprocess.Popen(ending_with_us(poller), stdin=subprocess.PIPE, stderr=sys.stderr) as running,
    ):
        while running.poll() is None and is_held(KEEPER):
            if not sys.stdout.closed and (found := re.search(r"the page is at (\S+): ", LOG.read_text())):
                ADDRESS.write_text(found[1])
                print("ready", flush=True)
                sys.stdout.close()
            time.sleep(0.2)
        running.terminate()


if __name__ == "__main__":
    main()
