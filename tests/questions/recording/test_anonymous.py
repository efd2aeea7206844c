"""An anonymous recording has hashes for names; what Kubernetes itself calls things stays."""

from random import Random
from typing import Any

import pytest

from lib.questions.recording.anonymous import Hashing


def test_a_time_is_no_name() -> None:
    """Before, a namespace that was being deleted made an anonymous recording unreadable."""
    body = {"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    hidden = Hashing().body(body)["metadata"]
    assert hidden["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert hidden["name"] != "web"


@pytest.mark.parametrize("key", ["node-role.kubernetes.io/control-plane", "kubernetes.io/hostname", "123"])
def test_names_of_kubernetes_own_stay(key: str) -> None:
    assert Hashing().of(key) == key


def test_what_people_chose_under_kubernetes_io_is_hidden() -> None:
    hashing, random = Hashing(), Random(1)
    for _ in range(100):
        chosen = "acme-" + "".join(random.choices("abcdefgh", k=6))
        for key in (
            f"node-role.kubernetes.io/{chosen}",
            f"{chosen}.k8s.io/team",
            f"a.kubernetes.io/{chosen}",
        ):
            hidden = hashing.of(key)
            assert chosen not in hidden
            assert hidden == hashing.of(key)
        role = hashing.of(f"node-role.kubernetes.io/{chosen}")
        assert role.startswith("node-role.kubernetes.io/x")
        of_class = f"deviceclass.resource.kubernetes.io/{chosen}"
        asked = hashing.body({"requests": {of_class: "1", "cpu": "2"}})["requests"]
        assert asked == {f"deviceclass.resource.kubernetes.io/{hashing.of(chosen)}": "1", "cpu": "2"}


@pytest.mark.parametrize(
    "selecting",
    [
        lambda key, value: {"nodeSelector": {key: value}},
        lambda key, value: {"labelSelector": {"matchLabels": {key: value}}},
        lambda key, value: {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
    ],
)
def test_a_selector_still_selects(selecting: Any) -> None:
    """A label and what selects it have the same hashes, also of a label with the name of a field."""
    hashing = Hashing()
    for key in ("team", "kind", "phase"):
        ((hidden, value),) = hashing.body({"labels": {key: "red"}})["labels"].items()
        assert {hidden, value}.isdisjoint({key, "red"})
        assert hashing.body(selecting(key, "red")) == selecting(hidden, value)


@pytest.mark.parametrize(
    ("version", "kind", "stays"),
    [
        ("apps/v1", "ReplicaSet", True),
        ("v1", "Node", True),
        ("resource.k8s.io/v1", "ResourceClaim", True),
        ("acme.example/v1", "SecretProject", False),
    ],
)
def test_the_kind_of_an_owner_is_hidden_if_people_chose_it(version: str, kind: str, stays: bool) -> None:
    owner = {"kind": kind, "apiVersion": version, "name": "mine", "controller": True}
    (hidden,) = Hashing().body({"ownerReferences": [owner]})["ownerReferences"]
    assert (hidden["kind"] == kind, hidden["apiVersion"] == version) == (stays, stays)
    assert hidden["name"] != "mine"
    assert hidden["controller"] is True


def test_each_recording_has_other_hashes() -> None:
    """Or else somebody could find a name by hashing guesses."""
    assert Hashing().of("web") != Hashing().of("web")
