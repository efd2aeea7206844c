"""The extenders of a configuration file, which all profiles use.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#Extender
"""

import ssl
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import msgspec

from lib.service.config.strict import Duration, Strict, no_label_key

NO_ADDRESS = "its urlPrefix isn't http:// or https:// with a host"

HIGHEST_PORT = 65535


class ExtenderManagedResource(Strict):
    """An extended resource that an extender manages; poller's own filters may ignore it."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Strict):
    """The certificates of both sides. Data is PEM, in base64; it takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(Strict):
    """An extender. It is called only for the verbs that are given."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = msgspec.field(default=Duration(5), name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False

    def __post_init__(self) -> None:
        self.http_timeout = self.http_timeout or Duration(5)  # in kube-scheduler, too, 0 means the default
        if self.prioritize_verb and self.weight <= 0:
            raise ValueError(
                f"weight is {self.weight}: an extender with a prioritizeVerb needs a positive weight"
            )
        if self.http_timeout < 0:
            raise ValueError(f"httpTimeout must be more than {self.http_timeout:g} s")
        try:
            self.ssl_context()
        except OSError as error:
            raise ValueError(f"tlsConfig can't be used: {error}") from error

    @property
    def url(self) -> httpx.URL | None:
        """Where it is called; None if it can't be called. As in kube-scheduler, the calls fail then."""
        try:
            url = httpx.URL(self.url_prefix)
        except httpx.InvalidURL:
            return None
        usable = url.scheme in ("http", "https") and url.host and (url.port or 0) <= HIGHEST_PORT
        return url if usable else None

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as in kube-scheduler: with `enableHTTPS` and without a CA, any certificate is accepted.

        OSError when a file isn't there, or is no certificate. ValueError when fields contradict each other.
        """
        tls = self.tls_config or ExtenderTLSConfig()
        authority = tls.ca_data or _content(tls.ca_file)
        if tls.insecure and authority:
            raise ValueError("tlsConfig: a CA can't be combined with insecure")
        context = ssl.create_default_context(cadata=authority.decode("ascii", "replace") or None)
        if tls.insecure or (self.enable_https and not authority):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = tls.cert_data or _content(tls.cert_file), tls.key_data or _content(tls.key_file)
        if certificate and key:
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:  # ssl reads certificates from files only
                pem.write(certificate + b"\n" + key)
                pem.flush()
                context.load_cert_chain(pem.name)
        return context


def _content(file: str) -> bytes:
    return Path(file).read_bytes() if file else b""


def problems_of(extenders: Sequence[ExtenderConfig]) -> Iterator[str]:
    """A line for each problem of names, and of all extenders together."""
    for i, extender in enumerate(extenders):
        for j, resource in enumerate(extender.managed_resources):
            if not _is_extended(resource.name):
                where = f"extenders[{i}].managedResources[{j}].name"
                yield f"{where}: {resource.name!r} is not the name of an extended resource"
    if sum(bool(extender.bind_verb) for extender in extenders) > 1:
        yield "extenders: only one may have a bindVerb"
    managed = Counter(resource.name for extender in extenders for resource in extender.managed_resources)
    if twice := [name for name, count in managed.items() if count > 1]:
        yield f"extenders: {', '.join(twice)} can't be managed twice"


def _is_extended(name: str) -> bool:
    """Whether it is an extended resource's name (IsExtendedResourceName in pkg/apis/core/v1/helper)."""
    native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not native and not any(no_label_key("", f"requests.{name}"))
