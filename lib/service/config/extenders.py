"""The extenders of a configuration file, which all profiles use.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#Extender
"""

import ssl
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import httpx
import msgspec
from msgspec import Meta

from lib.scheduling.framework.arguments import Duration, Strict


class ExtenderManagedResource(Strict):
    """An extended resource that an extender manages; poller's own filters may ignore it."""

    name: Annotated[str, Meta(pattern="^[-A-Za-z0-9.]+/[-A-Za-z0-9_.]+$")]
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

    url_prefix: Annotated[str, Meta(pattern="^https?://[^/]+")]
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
        try:
            httpx.URL(self.url_prefix)
        except httpx.InvalidURL as error:
            raise ValueError(f"urlPrefix can't be used: {error}") from error
        self.http_timeout = self.http_timeout or Duration(5)  # in kube-scheduler, too, 0 means the default
        if self.prioritize_verb and self.weight <= 0:
            raise ValueError(
                f"weight is {self.weight}: an extender with a prioritizeVerb needs a positive weight"
            )
        if self.http_timeout < 0:
            raise ValueError(f"httpTimeout must be more than {self.http_timeout:g} s")
        if self.tls_config:
            try:
                self.ssl_context()
            except OSError as error:
                raise ValueError(f"tlsConfig can't be used: {error}") from error

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as in kube-scheduler: with `enableHTTPS` and without a CA, any certificate is accepted."""
        tls = self.tls_config or ExtenderTLSConfig()
        context = ssl.create_default_context(cafile=tls.ca_file or None, cadata=tls.ca_data.decode() or None)
        if tls.insecure or (self.enable_https and not (tls.ca_file or tls.ca_data)):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_data:
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:  # ssl reads certificates from files only
                pem.write(tls.cert_data + b"\n" + tls.key_data)
                pem.flush()
                context.load_cert_chain(pem.name)
        elif tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file or None)
        return context


def problems_of(extenders: Sequence[ExtenderConfig]) -> Iterator[str]:
    """A line for each problem of all extenders together; each has been checked before."""
    if sum(bool(extender.bind_verb) for extender in extenders) > 1:
        yield "extenders: only one may have a bindVerb"
    managed = Counter(resource.name for extender in extenders for resource in extender.managed_resources)
    if twice := [name for name, count in managed.items() if count > 1]:
        yield f"extenders: {', '.join(twice)} can't be managed twice"
