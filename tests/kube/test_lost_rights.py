"""--namespace: the right to read all namespaces is lost, for a moment or for good, and comes back."""

import logging
import threading
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from canned import CannedServer, Json, canned
from cluster import eventually
from later import Later

from lib.kube import resources
from lib.kube.api import Api
from lib.kube.changes import AnyChange, Kind
from lib.kube.errors import ForbiddenError
from lib.kube.informer import Informer
from lib.kube.listers import Listers
from lib.kube.reading import ASK_AGAIN, LONGEST_REFUSAL
from lib.kube.resources import ALL, NAMESPACE_LABELS, NAMESPACES
from lib.kube.source import ClusterSource, PollingSource

PODS, CLAIMS = "/api/v1/pods", "/api/v1/persistentvolumeclaims"
OUR_CLAIMS = "/api/v1/namespaces/ours/persistentvolumeclaims"


def pod(namespace: str, name: str, **spec: Any) -> Json:
    names = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
    containers = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    return {"metadata": names, "spec": {"schedulerName": "my-scheduler", "containers": containers, **spec}}


def claim(namespace: str) -> Json:
    names = {"namespace": namespace, "name": "data", "uid": f"of-{namespace}", "resourceVersion": "1"}
    return {"kind": "PersistentVolumeClaim", "metadata": names, "spec": {}}


NEEDS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
OBJECTS = {
    "nodes": [{"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}],
    "pods": [
        pod("ours", "web", volumes=NEEDS),
        pod("ours", "old", nodeName="n1"),
        pod("theirs", "full", nodeName="n1"),
    ],
    "persistentvolumeclaims": [claim("ours"), claim("theirs")],
    "namespaces": [{"metadata": {"name": name}} for name in ("ours", "theirs")],
}
OURS = {"n1", "web", "old", "of-ours"}
ALL_OF_THEM = OURS | {"full", "of-theirs"}


class Reader:
    """Polls, and knows what it was told of. told: the changes of the last poll."""

    def __init__(self, server: CannedServer, machine: Later, source: ClusterSource) -> None:
        self.server, self.machine, self._source = server, machine, source
        self.known: set[str] = set()
        self.told: list[AnyChange] = []

    def poll(self) -> None:
        self.server.version += 1  # somebody writes
        self.told = []
        self.told += self._source.first_changes()
        self.told += self._source.poll(patience=inf).changes
        for change in self.told:
            name = change.object.metadata.uid
            (self.known.discard if change.kind == Kind.DELETED else self.known.add)(name)

    def knows(self, what: set[str]) -> None:
        """Polls until it knows this, and for once more."""

        def does() -> bool:
            self.poll()
            return self.known == what

        eventually(does)
        self.poll()
        assert self.known == what

    @property
    def unseen(self) -> str:
        return self._source.storage.unseen

    def takes_away(self, *paths: str) -> None:
        self.server.forbidden |= {*paths}
        self._end_watches()

    def gives_back(self) -> None:
        self.server.forbidden.clear()
        self._end_watches()

    def _end_watches(self) -> None:
        self.server.end_watches()
        if isinstance(self._source, Informer):
            # The watch's end is taken from the queue later; the next one may be opened then.
            reflectors = [*self._source._pods.reflectors, *self._source.storage.reflectors]
            eventually(lambda: self._take_lines() or all(each.pause is not None for each in reflectors))

    def _take_lines(self) -> None:
        assert isinstance(self._source, Informer)
        self._source._take_lines()


@pytest.fixture(params=[PollingSource, Informer], ids=["polling", "watching"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    machine = Later()
    with canned(OBJECTS) as server, Api(server.url, threading.Event(), system=machine) as api:
        yield Reader(server, machine, request.param(api, ["my-scheduler"], ["ours"]))


def test_who_may_not_read_pods_for_a_moment_counts_them_still(reader: Reader) -> None:
    reader.knows(ALL_OF_THEM)
    for _ in range(2):
        reader.takes_away(PODS)
        for _ in range(2):
            reader.machine.seconds += LONGEST_REFUSAL / 3
            with pytest.raises(ForbiddenError):
                reader.poll()
            assert reader.known == ALL_OF_THEM
        reader.gives_back()
        reader.machine.seconds += 1
        reader.knows(ALL_OF_THEM)


def test_claims_that_may_not_be_read_for_a_moment_are_still_known(reader: Reader) -> None:
    reader.knows(ALL_OF_THEM)
    reader.takes_away(CLAIMS)
    for _ in range(2):
        reader.machine.seconds += LONGEST_REFUSAL / 3
        reader.poll()
        assert reader.known == ALL_OF_THEM
    reader.gives_back()
    reader.machine.seconds += LONGEST_REFUSAL
    reader.knows(ALL_OF_THEM)


def test_who_loses_the_right_goes_on_without_until_it_is_back(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reader.knows(ALL_OF_THEM)
    reader.takes_away(PODS, CLAIMS)
    reader.machine.seconds += 1
    with pytest.raises(ForbiddenError):
        reader.poll()
    for _ in range(2):  # the claims are asked for only after the pods
        reader.machine.seconds += LONGEST_REFUSAL
        reader.poll()
        assert not {"web", "old", "of-ours"} & {each.object.metadata.uid for each in reader.told}
    reader.knows(OURS)
    assert f"{resources.PODS.elsewhere}, as this has been refused for 30 s: GET" in caplog.text.replace(
        "WATCH", "GET"
    )
    warned = caplog.text.count("refused for 30 s")
    reader.machine.seconds += ASK_AGAIN
    reader.knows(OURS)
    assert caplog.text.count("refused for 30 s") == warned == 2
    reader.gives_back()
    reader.machine.seconds += 1
    reader.knows(OURS)
    reader.machine.seconds += ASK_AGAIN
    reader.poll()
    assert not {"web", "old", "of-ours"} & {each.object.metadata.uid for each in reader.told}
    reader.knows(ALL_OF_THEM)
    assert "GET /api/v1/pods: allowed again" in caplog.text


def test_who_never_had_the_right_goes_on_at_once(reader: Reader) -> None:
    reader.server.forbidden |= {PODS, CLAIMS}
    reader.poll()
    assert reader.known <= OURS
    reader.knows(OURS)
    reader.gives_back()
    reader.machine.seconds += ASK_AGAIN
    reader.knows(ALL_OF_THEM)


def test_who_may_not_read_claims_in_the_served_namespaces_either_is_told(reader: Reader) -> None:
    reader.server.forbidden |= {CLAIMS, OUR_CLAIMS}
    reader.knows(ALL_OF_THEM - {"of-ours", "of-theirs"})
    assert f"volumes can't be read: GET {OUR_CLAIMS}: 403" in reader.unseen


def test_labels_of_namespaces_that_may_not_be_read_for_a_moment_are_not_done_without() -> None:
    machine = Later()
    with canned(OBJECTS) as server, Api(server.url, threading.Event(), system=machine) as api:
        listers = Listers(api, ["ours"])

        def found() -> Any:
            listers.begin({NAMESPACE_LABELS: [ALL]})
            listers.wait(inf)
            answer = listers.of(NAMESPACE_LABELS, ALL)
            return answer if isinstance(answer, Exception) else {each.metadata.name for each in answer.items}

        assert found() == {"ours", "theirs"}
        server.forbidden.add(NAMESPACES.path)
        assert isinstance(found(), ForbiddenError)
        server.forbidden.clear()
        assert found() == {"ours", "theirs"}
        server.forbidden.add(NAMESPACES.path)
        assert isinstance(found(), ForbiddenError)
        machine.seconds += LONGEST_REFUSAL
        assert found() == {"ours"}
        server.forbidden.clear()
        machine.seconds += ASK_AGAIN
        assert found() == {"ours", "theirs"}


def test_of_the_served_namespaces_those_have_labels_that_are_there_and_may_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with canned(OBJECTS) as server, Api(server.url, threading.Event()) as api:
        server.forbidden = {NAMESPACES.path, f"{NAMESPACES.path}/theirs"}
        listers = Listers(api, ["ours", "theirs", "nosuch"])
        listers.begin({NAMESPACE_LABELS: [ALL]})
        listers.wait(inf)
        found: Any = listers.of(NAMESPACE_LABELS, ALL)
        assert [each.metadata.name for each in found.items] == ["ours"]
    assert "going on without the labels of namespace theirs: " in caplog.text
