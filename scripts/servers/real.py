"""A real etcd and kube-apiserver with RBAC, for Kubernetes' own answers.

No controller, kubelet or scheduler runs beside them: their work is left to the caller.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scripts.servers.process import ending_with_us

AUDIT_LOG = "audit.log"
EMULATED = "KUBE_EMULATED_VERSION"
"""In the environment, an earlier version of Kubernetes, such as 1.34: its APIs and features are served."""

SPARING = {**os.environ, "GOGC": "400"}
"""The servers' environment. They collect garbage less often: that takes a fifth less processor time."""

START_TIMEOUT = 180.0
STOP_TIMEOUT = 1.0  # seconds; kube-apiserver waits longer while a watch is open, and nothing here needs that
LOG_LINES_SHOWN = 20

# The server creates its namespaces only after it is ready, and `default` last.
READY_PATHS = ("/readyz", "/api/v1/namespaces/default")


def assets() -> Path | None:
    """The folder that holds `etcd` and `kube-apiserver`: $KUBEBUILDER_ASSETS, else envtest's usual one."""
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), "/usr/local/kubebuilder/bin"):
        if folder and all(shutil.which(name, path=folder) for name in ("etcd", "kube-apiserver")):
            return Path(folder)
    return None


@dataclass(frozen=True)
class RealCluster:
    """A running API server. `kubeconfig`, `tls` and `http` are its admin's, who may do everything."""

    url: str
    kubeconfig: Path
    tls: ssl.SSLContext
    http: httpx.Client
    folder: Path
    ca: trustme.CA
    audit_log: Path

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for this user, who may do what RBAC grants to the user and the groups, no more."""
        return _write_kubeconfig(self.folder, self.ca, self.url, user, groups)


@contextmanager
def apiserver(
    folder: Path, audited: Sequence[str] = (), options: Sequence[str] = ()
) -> Iterator[RealCluster]:
    """Start etcd and kube-apiserver on loopback, yield them when they are ready, end both.

    audited: the resources whose writes are in the audit log, as lines of JSON, with what was sent. options:
    more of kube-apiserver's options.
    Certificates, kubeconfigs and logs are written to `folder` and stay there; etcd's data doesn't.
    """
    binaries = assets()
    if binaries is None:
        raise FileNotFoundError(
            "no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin"
        )
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.crt")
    server = ca.issue_cert("127.0.0.1", "localhost")
    server.cert_chain_pems[0].write_to_path(folder / "apiserver.crt")
    server.private_key_pem.write_to_path(folder / "apiserver.key")

    with ExitStack() as stack:
        etcd_url = f"http://127.0.0.1:{stack.enter_context(_reserved_port())}"
        port = stack.enter_context(_reserved_port())
        url = f"https://127.0.0.1:{port}"
        kubeconfig = _write_kubeconfig(folder, ca, url, "admin", ["system:masters"])
        tls = ssl.create_default_context(cafile=folder / "ca.crt")
        tls.load_cert_chain(kubeconfig.with_suffix(".pem"))
        http = stack.enter_context(httpx.Client(base_url=url, verify=tls, timeout=60, trust_env=False))

        stack.callback(shutil.rmtree, folder / "etcd", ignore_errors=True)
        etcd = stack.enter_context(_process(_etcd_command(binaries, folder, etcd_url), folder / "etcd.log"))
        command = _apiserver_command(binaries, folder, port, etcd_url)
        command += [*_auditing(folder, audited), *options]
        kube = stack.enter_context(_process(command, folder / "kube-apiserver.log"))
        for path in READY_PATHS:
            _wait_for(http, path, etcd, kube)
        yield RealCluster(url, kubeconfig, tls, http, folder, ca, folder / AUDIT_LOG)


def _etcd_command(binaries: Path, folder: Path, url: str) -> list[str]:
    return [
        str(binaries / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--socket-reuse-port",
        "--log-level=warn",
    ]


def _apiserver_command(binaries: Path, folder: Path, port: int, etcd_url: str) -> list[str]:
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'apiserver.key'}",
        f"--service-account-signing-key-file={folder / 'apiserver.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # No controller makes the service account that pods would otherwise have to wait for.
        "--disable-admission-plugins=ServiceAccount",
        # The endpoints of the service `kubernetes` can't be on loopback; nothing here reads them.
        "--endpoint-reconciler-type=none",
        *([f"--emulated-version={version}"] if (version := os.environ.get(EMULATED)) else []),
    ]


def _auditing(folder: Path, audited: Sequence[str]) -> list[str]:
    """The options of kube-apiserver for an audit log of the writes to these resources."""
    if not audited:
        return []
    resources = [name for each in audited for name in (each, f"{each}/*")]
    groups = [{"group": group, "resources": resources} for group in ("", "coordination.k8s.io")]
    verbs = ["create", "update", "patch", "delete"]
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Request", "verbs": verbs, "resources": groups}, {"level": "None"}],
    }
    file = folder / "audit-policy.json"
    file.write_text(json.dumps(policy))
    return [
        f"--audit-policy-file={file}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        "--audit-log-mode=blocking",
    ]


@contextmanager
def _reserved_port() -> Iterator[int]:
    """A free loopback port that no other process gets meanwhile. Servers that share ports can use it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@dataclass(frozen=True)
class _Process:
    handle: subprocess.Popen[bytes]
    log: Path

    def failure(self, what: str) -> RuntimeError:
        tail = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return RuntimeError("\n".join([f"{self.log.stem} {what}; {self.log} ends:", *tail]))


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[_Process]:
    """Run the command with its output in `log`; end it with SIGTERM, or SIGKILL if it takes too long."""
    with log.open("wb") as out:
        handle = subprocess.Popen(
            ending_with_us(command), env=SPARING, stdin=subprocess.PIPE, stdout=out, stderr=out
        )
    try:
        yield _Process(handle, log)
    finally:
        handle.terminate()
        try:
            handle.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            handle.kill()
            handle.wait()
        assert handle.stdin
        handle.stdin.close()


def _wait_for(http: httpx.Client, path: str, etcd: _Process, kube: _Process) -> None:
    """Wait until the path is answered with success; raise if a process ends, or that takes too long."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            if http.get(path).is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        for process in (etcd, kube):
            if process.handle.poll() is not None:
                raise process.failure(f"ended with exit status {process.handle.returncode}")
        if time.monotonic() > deadline:
            raise kube.failure(f"didn't answer {path} within {START_TIMEOUT:g} s")
        time.sleep(0.05)


def _write_kubeconfig(folder: Path, ca: trustme.CA, url: str, user: str, groups: Sequence[str]) -> Path:
    """Write a kubeconfig, and beside it a client certificate with the same stem and the suffix .pem."""
    kubeconfig = folder / (quote("+".join([user, *groups]), safe="+") + ".kubeconfig")
    certificate = kubeconfig.with_suffix(".pem")
    certificate.write_bytes(_client_certificate(ca, user, groups))
    cluster = {"server": url, "certificate-authority": str(folder / "ca.crt")}
    # The PEM file holds both certificate and key; each reader takes the part that it needs.
    credentials = {"client-certificate": str(certificate), "client-key": str(certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    kubeconfig.write_text(json.dumps(config, indent=2))  # JSON is YAML
    return kubeconfig


def _client_certificate(ca: trustme.CA, user: str, groups: Sequence[str]) -> bytes:
    """A certificate and its key as PEM. Kubernetes reads the user from CN and a group from each O.

    trustme's own certificates always have one O, so they can't say "no group" or "two groups".
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    now = datetime.now(UTC)
    issuer_key = serialization.load_pem_private_key(ca.private_key_pem.bytes(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(x509.load_pem_x509_certificate(ca.cert_pem.bytes()).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
