"""Extenders over HTTP: connects those of a configuration, and gets the full objects for them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import httpx
import msgspec

from lib import __version__
from lib.kube.api import Api
from lib.kube.attempt import read_all
from lib.kube.decoding import decode_object
from lib.kube.errors import AnswerError, ApiError
from lib.kube.objects import UNREADABLE, Named, Names, Node, Pod
from lib.kube.paths import path_of
from lib.kube.system import System
from lib.kube.transport import KeepAliveTransport, to_host
from lib.scheduling.extender import Extender
from lib.scheduling.extenders import Extenders
from lib.scheduling.status import ExtenderError
from lib.service.config.extenders import NO_ADDRESS, ExtenderConfig


@contextmanager
def connected(
    configs: Iterable[ExtenderConfig], api: Api, warn: Callable[[str], None]
) -> Iterator[Extenders]:
    """The extenders of a configuration, connected while the block runs.

    While poller may not write to the API, extenders are not called, because they may bind. warn: called when
    one fails and is skipped.
    """
    originals = FullObjects(api)

    def check(request: httpx.Request) -> None:
        api.check_may_write(f"{request.method} {request.url}")

    with ExitStack() as stack:
        extenders = [_extender(config, stack, originals, check, api.system) for config in configs]
        yield Extenders(extenders, warn)


def _extender(
    config: ExtenderConfig,
    stack: ExitStack,
    originals: "FullObjects",
    check: Callable[[httpx.Request], None],
    system: System,
) -> Extender:
    url = config.url or httpx.URL("http://")
    tls = config.ssl_context() if url.scheme == "https" else None
    port = url.port or (443 if tls else 80)
    managed = config.managed_resources
    server_name = (config.tls_config and config.tls_config.server_name) or ""
    client = httpx.Client(
        transport=KeepAliveTransport(to_host(url.host, port, tls, server_name, system), system),
        auth=(url.username, url.password) if url.userinfo else None,
        headers={"Accept-Encoding": "gzip"},
        timeout=config.http_timeout,
        trust_env=False,
        event_hooks={"request": [check]},
    )
    return Extender(
        # It is also the extender's name in events.
        str(url.copy_with(userinfo=b"")) if url.userinfo else config.url_prefix,
        HttpWire(stack.enter_context(client), config, originals, system),
        filter_verb=config.filter_verb,
        prioritize_verb=config.prioritize_verb,
        preempt_verb=config.preempt_verb,
        bind_verb=config.bind_verb,
        weight=config.weight,
        node_cache_capable=config.node_cache_capable,
        managed_resources=frozenset(resource.name for resource in managed),
        ignored_resources=frozenset(resource.name for resource in managed if resource.ignored_by_scheduler),
        ignorable=config.ignorable,
    )


class HttpWire:
    """The connection to one extender. A failed request isn't retried: the pod is tried again later."""

    def __init__(
        self, client: httpx.Client, config: ExtenderConfig, originals: "FullObjects", system: System
    ) -> None:
        self._http, self._system = client, system
        self._seconds, self._can_be_called = config.http_timeout, config.url is not None
        self._originals = originals

    def send(self, url: str, body: bytes) -> bytes:
        """POST JSON; returns the answer's JSON. ExtenderError if it isn't complete in time."""
        where = f"extender {url}"
        if not self._can_be_called:
            raise ExtenderError(f"{where}: {NO_ADDRESS}")
        headers = {"Content-Type": "application/json", "User-Agent": f"poller/{__version__}"}
        extensions = {"deadline": self._system.monotonic() + self._seconds}
        try:
            with self._http.stream(
                "POST", url, content=body, headers=headers, extensions=extensions
            ) as answer:
                said = read_all(answer, where, within=self._seconds, system=self._system)
        except httpx.TimeoutException as error:
            raise ExtenderError(f"{where}: no answer within {self._seconds:g} s") from error
        except httpx.HTTPError as error:
            raise ExtenderError(f"{where}: {error}") from error
        except ApiError as error:
            raise ExtenderError(str(error)) from error
        if answer.status_code != httpx.codes.OK:
            start = said[:200].decode(errors="replace").strip()
            raise ExtenderError(f"{where}: {answer.status_code} {answer.reason_phrase} ({start})")
        return said

    def whole_pod(self, pod: Pod) -> msgspec.Raw:
        """A pod with all its fields."""
        try:
            return self._originals.pod(pod)
        except ApiError as error:
            raise ExtenderError(f"{pod} can't be sent to an extender: {error}") from error

    def whole_nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        """Nodes with all their fields, in the same order; deleted nodes are left out."""
        try:
            return self._originals.nodes(nodes)
        except ApiError as error:
            raise ExtenderError(f"nodes can't be sent to an extender: {error}") from error


MAX_DIGITS = 20
"""A resource version has fewer digits: it is a 64-bit number."""


class FullObjects:
    """Pods and nodes with all their fields: read when an extender needs them, and again after a change."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._pod = lru_cache(self._read_pod)
        self._nodes: dict[str, tuple[int, msgspec.Raw]] = {}  # by name: resource version, and the full object

    def pod(self, pod: Pod) -> msgspec.Raw:
        """A pod with all its fields. ApiError when it can't be read."""
        own = pod.metadata
        path = path_of("pods", own.namespace, own.name)
        return self._pod(path, own.uid, own.resource_version)

    def _read_pod(self, path: str, uid: str, _version: str) -> msgspec.Raw:
        """A pod, if that is what is answered: a proxy's error page must not be kept as one."""
        whole = self._api.get_whole(path)
        found = decode_object(whole, Pod, f"GET {path}").metadata.uid
        if found != uid:
            raise AnswerError(f"GET {path}: the answer is about a pod with another uid, {found}")
        return msgspec.Raw(whole)

    def nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        """Nodes with all their fields, without deleted ones. ApiError when they can't be read."""
        if not all(self._is_known(node.metadata) for node in nodes):
            self._nodes = {}
            for whole in self._api.list_whole("/api/v1/nodes").items:
                try:
                    own = msgspec.json.decode(whole, type=Named).metadata
                except UNREADABLE:  # it is left out, as everywhere
                    continue
                self._nodes[own.name] = _number_of(own), whole
        return [self._nodes[node.metadata.name][1] for node in nodes if node.metadata.name in self._nodes]

    def _is_known(self, node: Names) -> bool:
        version, _ = self._nodes.get(node.name, (-1, None))
        return version >= _number_of(node)


def _number_of(metadata: Names) -> int:
    """An object's resource version as a number; 0 if it isn't one."""
    version = metadata.resource_version
    return int(version) if version.isdecimal() and len(version) < MAX_DIGITS else 0
