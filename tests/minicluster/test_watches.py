"""Lists and watches: the events of changes, with selectors, from a version on; and too old versions."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cluster import http_client

from scripts.servers.embedded import minicluster

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        minicluster("--nodes", "0", "--bare", "--history", "20") as server,
        http_client(server) as client,
    ):
        yield client


def create(client: httpx.Client, name: str, **labels: str) -> dict[str, Any]:
    pod = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    created: dict[str, Any] = client.post(PODS, json=pod).raise_for_status().json()
    return created


def label(client: httpx.Client, name: str, **labels: str | None) -> None:
    merge = {"Content-Type": "application/merge-patch+json"}
    client.patch(f"{PODS}/{name}", json={"metadata": {"labels": labels}}, headers=merge).raise_for_status()


def version(client: httpx.Client) -> str:
    found: str = client.get(PODS).json()["metadata"]["resourceVersion"]
    return found


def watch(client: httpx.Client, headers: dict[str, str] | None = None, **query: Any) -> list[dict[str, Any]]:
    """What a watch of one second sees."""
    answer = client.get(PODS, params={"watch": "1", "timeoutSeconds": "1", **query}, headers=headers)
    return [json.loads(line) for line in answer.text.splitlines()]


def test_what_enters_a_selection_is_added_and_what_leaves_it_is_deleted(client: httpx.Client) -> None:
    since = version(client)
    create(client, "in-and-out", app="a")
    label(client, "in-and-out", app="b")
    label(client, "in-and-out", more="c")
    label(client, "in-and-out", app="a")
    client.delete(f"{PODS}/in-and-out")
    seen = watch(client, resourceVersion=since, labelSelector="app=b")
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    gone = seen[-1]["object"]["metadata"]
    assert gone["labels"] == {"app": "b", "more": "c"}  # as it was last seen
    assert int(gone["resourceVersion"]) > int(seen[1]["object"]["metadata"]["resourceVersion"])


def test_a_deleted_object_comes_with_the_version_of_its_end(client: httpx.Client) -> None:
    created = create(client, "short")
    client.delete(f"{PODS}/short")
    seen = watch(client, resourceVersion=created["metadata"]["resourceVersion"])
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    assert seen[-1]["object"]["metadata"]["resourceVersion"] == version(client)


def test_a_change_that_changes_nothing_is_not_seen(client: httpx.Client) -> None:
    create(client, "calm", app="a")
    since = version(client)
    label(client, "calm", app="a")
    assert version(client) == since


def test_a_table_has_its_columns_with_the_first_row_only(client: httpx.Client) -> None:
    create(client, "row-1")
    create(client, "row-2")
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    rows = [event["object"] for event in watch(client, headers=accept)]
    assert [bool(row["columnDefinitions"]) for row in rows] == [True] + [False] * (len(rows) - 1)
    assert all(row["kind"] == "Table" and len(row["rows"]) == 1 for row in rows)


def test_what_is_too_old_for_a_watch_is_gone(client: httpx.Client) -> None:
    since = version(client)
    for number in range(25):
        create(client, f"old-{number}")
    [event] = watch(client, resourceVersion=since)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_list_in_chunks_is_of_one_moment(client: httpx.Client) -> None:
    for name in ("a-1", "a-2", "a-3", "a-4", "a-5"):
        create(client, name)
    first = client.get(PODS, params={"limit": 3}).json()
    create(client, "zzz-later")
    client.delete(f"{PODS}/a-5")
    query = {"limit": 500, "continue": first["metadata"]["continue"]}
    second = client.get(PODS, params=query).json()
    names = [pod["metadata"]["name"] for pod in first["items"] + second["items"]]
    assert "a-5" in names
    assert "zzz-later" not in names
    assert names == sorted(names)
    assert len(second["items"]) == first["metadata"]["remainingItemCount"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_chunk_that_is_too_old_is_gone(client: httpx.Client) -> None:
    create(client, "first")
    create(client, "second")
    token = client.get(PODS, params={"limit": 1}).json()["metadata"]["continue"]
    for number in range(25):
        create(client, f"older-{number}")
    answer = client.get(PODS, params={"limit": 3, "continue": token})
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_chunk_of_a_selection_does_not_count_the_rest(client: httpx.Client) -> None:
    create(client, "chosen-1", chosen="yes")
    create(client, "chosen-2", chosen="yes")
    metadata = client.get(PODS, params={"limit": 1, "labelSelector": "chosen"}).json()["metadata"]
    assert metadata["continue"]
    assert "remainingItemCount" not in metadata


def test_a_long_list_is_compressed_for_who_asks(client: httpx.Client) -> None:
    for number in range(200):
        create(client, f"many-{number}")
    packed = client.get(PODS, headers={"Accept-Encoding": "gzip"})
    plain = client.get(PODS, headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.json() == plain.json()
