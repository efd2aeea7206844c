"""Objects as they were seen last, and the order in which those of a list come."""

from collections.abc import Iterable

import pytest
from objects import read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.kube.store import Store


def made(name: str, second: int | None) -> Pod:
    created = {} if second is None else {"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    whole: Pod = read(Pod, {"metadata": {"name": name, "uid": name, **created}, "spec": {}})
    return whole


def test_waiting_pods_of_a_list_come_in_the_order_in_which_they_were_created() -> None:
    """The API server lists them by name. Who came first is to be tried first."""
    pods = [made("a", 2), made("b", 1), made("c", None), made("d", 1)]
    changes = Store[Pod](oldest_first=True).replace(pods)
    assert [each.object.metadata.name for each in changes] == ["b", "d", "a", "c"]
    assert [each.object.metadata.name for each in Store[Pod]().replace(pods)] == ["a", "b", "c", "d"]


def pod(namespace: str, name: str, version: str = "1") -> Pod:
    names = {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}", "resourceVersion": version}
    whole: Pod = read(Pod, {"metadata": names, "spec": {}})
    return whole


def told(changes: Iterable[Change[Pod]]) -> list[str]:
    return [f"{change.kind.value} {change.object}" for change in changes]


A, B, OTHER = pod("ours", "a"), pod("ours", "b"), pod("theirs", "c")


@pytest.fixture
def store() -> Store[Pod]:
    store = Store[Pod](keeps_unreadable=True)
    assert told(store.replace([A, B, OTHER])) == ["added ours/a", "added ours/b", "added theirs/c"]
    return store


def test_a_list_tells_what_has_come_changed_and_gone(store: Store[Pod]) -> None:
    changed, new = pod("ours", "b", "2"), pod("ours", "d")
    assert told(store.replace([pod("ours", "a"), changed, new])) == [
        "deleted theirs/c",
        "modified ours/b",
        "added ours/d",
    ]
    assert [*store] == [A, changed, new]
    assert next(iter(store)) is A  # with the same version, all go on to share one object


def test_the_list_of_a_namespace_tells_nothing_of_others(store: Store[Pod]) -> None:
    assert told(store.replace([B], path="/api/v1/namespaces/ours/pods")) == ["deleted ours/a"]
    assert [*store] == [B, OTHER]


def test_what_cannot_be_read_any_more_is_kept_and_what_is_gone_is_not(store: Store[Pod]) -> None:
    assert told(store.replace([B], unreadable=["ours/a"])) == ["deleted theirs/c"]
    assert [*store] == [A, B]
    forgetful = Store[Pod]()
    assert told(forgetful.replace([A, B])) == ["added ours/a", "added ours/b"]
    assert told(forgetful.replace([B], unreadable=["ours/a"])) == ["deleted ours/a"]


def test_other_namespaces_are_forgotten(store: Store[Pod]) -> None:
    assert told(store.keep(["ours"])) == ["deleted theirs/c"]


def test_what_was_never_known_is_not_deleted(store: Store[Pod]) -> None:
    assert told(store.update("ours/unknown", None)) == []
    (change,) = store.update("ours/a", None)
    assert (change.kind, change.object, change.before) == (Kind.DELETED, A, A)
