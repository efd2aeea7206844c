"""The known claims when the right to read them is taken away while they are watched."""

import gc
import threading
from types import TracebackType

from canned import Json, canned
from cluster import PATIENCE, eventually
from later import Later
from objects import node

from lib.kube.api import Api
from lib.kube.changes import Change, Kind, unassigned_pod
from lib.kube.informer import Informer
from lib.kube.reading import LONGEST_REFUSAL
from lib.kube.watched_claims import FAILED_PAUSE, LINGER, WatchedClaims
from lib.scheduling.cache import Cache

CLAIMS = "/api/v1/persistentvolumeclaims"

POD = {
    "metadata": {"namespace": "ours", "name": "web", "uid": "web", "resourceVersion": "1"},
    "spec": {
        "schedulerName": "my-scheduler",
        "containers": [{"name": "main"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}


def claim(namespace: str) -> Json:
    names = {"namespace": namespace, "name": "data", "uid": f"of-{namespace}", "resourceVersion": "1"}
    return {"kind": "PersistentVolumeClaim", "metadata": names, "spec": {}}


def test_claims_of_the_served_namespaces_are_still_known_when_others_may_not_be_seen_any_more() -> None:
    objects = {"pods": [POD], "persistentvolumeclaims": [claim("ours"), claim("theirs")]}
    machine = Later()
    with canned(objects) as server, Api(server.url, threading.Event(), system=machine) as api:
        informer, cache = Informer(api, ["my-scheduler"], ["ours"]), Cache([node("n1")])

        def poll() -> None:
            for change in informer.poll(patience=PATIENCE).changes:
                cache.apply(change)

        poll()
        assert {str(each) for each in cache.storage.claims} == {"ours/data", "theirs/data"}

        server.forbidden.add(CLAIMS)
        server.end_watches()

        def theirs_have_gone() -> bool:
            machine.seconds += LONGEST_REFUSAL / 2
            poll()
            return cache.storage.claim("theirs", "data") is None

        eventually(theirs_have_gone)
        poll()
        assert {str(each) for each in cache.storage.claims} == {"ours/data"}


def test_claims_that_may_be_listed_everywhere_but_not_watched_are_those_of_the_served_namespaces() -> None:
    objects = {"pods": [POD], "persistentvolumeclaims": [claim("ours"), claim("theirs")]}
    with canned(objects) as server, Api(server.url, threading.Event()) as api:
        server.forbidden |= {f"WATCH {CLAIMS}", "WATCH /api/v1/pods"}
        informer, cache = Informer(api, ["my-scheduler"], ["ours"]), Cache([node("n1")])
        for _ in range(2):
            for change in informer.poll(patience=PATIENCE).changes:
                cache.apply(change)
            assert {str(each) for each in cache.storage.claims} == {"ours/data"}
        assert informer.storage.unseen == ""


def test_claims_are_watched_as_long_as_a_pod_needs_them_and_for_a_while_after_that() -> None:
    objects = {"pods": [POD], "persistentvolumeclaims": [claim("ours")]}
    machine = Later()
    with canned(objects) as server, Api(server.url, threading.Event(), system=machine) as api:
        informer = Informer(api, ["my-scheduler"])
        changes = informer.poll(patience=PATIENCE).changes
        assert informer.storage.is_known
        server.reads.clear()
        machine.seconds += LINGER + 1
        informer.poll(patience=PATIENCE)
        (web,) = (pod for each in changes if (pod := unassigned_pod(each)))
        assert isinstance(informer.storage, WatchedClaims)
        informer.storage.note_needs([Change(Kind.DELETED, web)])
        for seconds, is_known in ((LINGER - 10, True), (20, False)):
            machine.seconds += seconds
            informer.poll(patience=PATIENCE)
            assert informer.storage.is_known == is_known
        assert not [each for each in server.reads if CLAIMS in each]


def test_claims_that_were_refused_are_asked_for_again_after_a_pause() -> None:
    machine = Later()
    with canned({"pods": [POD]}) as server, Api(server.url, threading.Event(), system=machine) as api:
        server.forbidden.add(CLAIMS)
        informer = Informer(api, ["my-scheduler"])
        for pause in (0.0, FAILED_PAUSE):
            machine.seconds += pause
            informer.poll(patience=PATIENCE)
            assert f"volumes can't be read: GET {CLAIMS}: 403" in informer.storage.unseen
            assert not informer.storage.is_pending
            assert any(each.startswith(CLAIMS) for each in server.reads)
            server.reads.clear()
            informer.poll(patience=PATIENCE)
            assert server.reads == []


def test_a_refusal_takes_no_more_memory_with_each_tick() -> None:
    """An exception that is kept and raised again has a longer traceback each time."""
    with canned({"pods": [POD]}) as server, Api(server.url, threading.Event(), system=Later()) as api:
        server.forbidden.add(CLAIMS)
        informer = Informer(api, ["my-scheduler"], [])

        def tracebacks_after(ticks: int) -> int:
            for _ in range(ticks):
                informer.poll(patience=PATIENCE)
            gc.collect()
            return sum(isinstance(each, TracebackType) for each in gc.get_objects())

        eventually(lambda: informer.poll(patience=PATIENCE) and informer.storage.unseen)
        before = tracebacks_after(1)
        # On a busy machine, requests that are just failing in other threads have some, too.
        eventually(lambda: tracebacks_after(50) < before + 10, within=20)
