"""Starts a `kubectl proxy` on a private unix socket."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from lib.kube.errors import ApiError
from lib.kube.system import MACHINE
from lib.kube.transport import to_host

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
        self._kubectl, self._options = kubectl_path(), kubectl_options

    def __enter__(self) -> "OwnProxy":
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="poller-")))
            self._socket, self._log = folder / "proxy.sock", folder / "proxy.log"
            self._process = self._launch()
            stack.callback(self._end)
            context_namespace(*self._options)  # it would serve without a cluster, too
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
            own = f"--unix-socket={self._socket}", "--append-server-path"  # a server's URL may have a path
            return subprocess.Popen(  # noqa: S603  # each argument is its own; none goes through the shell
                ["/bin/sh", "-c", WITH_US, self._kubectl, *own, *self._options],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for poller only: it ends the proxy after its last write
            )

    def _wait_until_it_serves(self) -> None:
        deadline = MACHINE.monotonic() + START
        while not self._socket.exists():
            if self._process.poll() is not None:
                said = self.with_its_words("kubectl proxy did not start")
                raise ProxyError(f"{said}; exit status {self._process.poll()}")
            if MACHINE.monotonic() > deadline:
                raise ProxyError(
                    self.with_its_words(f"{self._kubectl} proxy isn't ready after {START:.0f} s")
                )
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

    def with_its_words(self, error: str) -> str:
        """An error's text, with what kubectl, and the plugin that logs it in, printed besides."""
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines()]
        more = [line for line in dict.fromkeys(lines) if line not in error and not NO_NEWS.match(line)]
        return f"{error}; kubectl says: {' '.join(more)}" if more else error


NO_NEWS = re.compile(r"Starting to serve on |[IWEF]\d{4} .*Error while proxying request")
"""What kubectl proxy prints of its address, and of errors that its answers name, too."""


def kubectl_path() -> str:
    """Where kubectl is. ProxyError if it is nowhere."""
    found = shutil.which("kubectl") or shutil.which("kubectl", path=str(Path(sys.executable).parent))
    if not found:
        raise ProxyError("kubectl is not on the PATH; poller reaches a cluster through `kubectl proxy`")
    return found


@cache
def context_namespace(*kubectl_options: str) -> str:
    """The namespace of kubectl's context. ProxyError, in kubectl's words, if its cluster can't be told."""
    if missing := _missing_kubeconfig(kubectl_options):
        raise ProxyError(f"there is no kubeconfig: {missing} isn't there; set KUBECONFIG, or log in first")
    kubectl, mark = kubectl_path(), "namespace="  # a wrapper of kubectl may print lines of its own
    command = [kubectl, "config", "view", "--minify", f'--output=jsonpath={{"\\n"}}{mark}{{..namespace}}']
    try:
        done = subprocess.run([*command, *kubectl_options], capture_output=True, text=True, timeout=START)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ProxyError(f"{kubectl} config view: no answer within {START:.0f} s") from error
    except OSError as error:
        raise ProxyError(f"{kubectl} can't be run: {error.strerror}") from error
    if done.returncode == 0:
        return done.stdout.rpartition(mark)[2].strip() or "default"
    if "current-context must exist" not in done.stderr:
        raise ProxyError(f"kubectl can't use its kubeconfig: {' '.join(done.stderr.split())}")
    if "KUBERNETES_SERVICE_HOST" in os.environ:  # in a pod, kubectl needs no context
        return "default"
    raise ProxyError(
        "kubectl has no current context; name one with --context NAME, or kubectl config use-context NAME"
    )


def answers(address: str) -> bool:
    """Whether something listens at an address of this machine."""
    url = urlsplit(address)
    try:
        to_host(url.hostname or "", url.port or 80)(1).close()
    except OSError:
        return False
    return True


def _missing_kubeconfig(kubectl_options: Sequence[str]) -> str:
    """The files that kubectl would read, if none is there; "" if one is, or in a pod, which needs none."""
    named = [option.partition("=")[2] for option in kubectl_options if option.startswith("--kubeconfig=")]
    files = named or [file for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
    files = files or [str(Path("~/.kube/config").expanduser())]
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not named
    return "" if in_pod or any(Path(file).exists() for file in files) else " and ".join(files)
