"""Starts a `kubectl proxy` on a private unix socket."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from lib.kube.errors import ApiError
from lib.kube.system import MACHINE

log = logging.getLogger(__name__)

START = 10.0
"""Seconds until kubectl must listen; it doesn't call the API server before."""


WITH_US = 'exec 3<&0; { read -r _ <&3; kill $$; } & exec "$0" proxy "$@" </dev/null 3<&-'
"""kubectl proxy, and beside it a reader of a pipe. The pipe closes however poller ends, and the reader then
ends kubectl proxy."""


class ProxyError(ApiError):
    """`kubectl proxy` could not be started; the text says why."""


class OwnProxy:
    """A `kubectl proxy` for the current kubectl context. As a context manager it ends the proxy.

    kubectl_options: such as --context=NAME.

    It listens on a unix socket in a folder that only this user can enter: whoever reaches a kubectl proxy has
    its user's rights, and a port can be reached by each user, and by web pages in a browser. ProxyError when
    there is no kubectl, or when it doesn't start.
    """

    def __init__(self, *kubectl_options: str) -> None:
        beside_us = str(Path(sys.executable).parent)
        kubectl = shutil.which("kubectl") or shutil.which("kubectl", path=beside_us)
        if not kubectl:
            raise ProxyError("--start-proxy needs kubectl, which is not on the PATH")
        self._kubectl, self._options = kubectl, kubectl_options
        if missing := _missing_kubeconfig(kubectl_options):
            raise ProxyError(
                f"there is no kubeconfig: {missing} isn't there; set KUBECONFIG, or log in first"
            )

    def __enter__(self) -> "OwnProxy":
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="poller-")))
            self._socket, self._log = folder / "proxy.sock", folder / "proxy.log"
            self._process = self._launch()
            stack.callback(self._end)
            self._wait_until_it_serves()
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def address(self) -> str:
        """Its address, as `Api` takes it."""
        return f"unix://{self._socket}"

    def revive(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            log.warning("kubectl proxy has ended (exit status %s); starting it again", self._process.poll())
            self._end()
            self._process = self._launch()
            self._wait_until_it_serves()

    def _launch(self) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        with self._log.open("w") as output:
            return subprocess.Popen(  # noqa: S603  # each argument is its own; none goes through the shell
                ["/bin/sh", "-c", WITH_US, self._kubectl, f"--unix-socket={self._socket}", *self._options],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for poller only: it ends the proxy after its last write
            )

    def _wait_until_it_serves(self) -> None:
        deadline = MACHINE.monotonic() + START
        while not self._socket.exists():
            if self._process.poll() is not None or MACHINE.monotonic() > deadline:
                raise ProxyError(f"kubectl proxy did not start: {self._last_words()}")
            MACHINE.sleep(0.02)
        log.debug("kubectl proxy serves on %s", self.address)

    def _end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else f"exit status {self._process.poll()}"


def _missing_kubeconfig(kubectl_options: Sequence[str]) -> str:
    """The files that kubectl would read, if none is there; "" if one is, or in a pod, which needs none."""
    named = [each.partition("=")[2] for each in kubectl_options if each.startswith("--kubeconfig=")]
    files = named or [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = files or [str(Path("~/.kube/config").expanduser())]
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not named
    return "" if in_pod or any(Path(each).exists() for each in files) else " and ".join(files)
