"""Selectors, by example."""

from typing import Any

import pytest

from scripts.minicluster.errors import ApiError
from scripts.minicluster.resources import NODES, PODS
from scripts.minicluster.selectors import field_selector, label_selector, matches_selector

LABELS = {"app": "web", "tier": "front", "size": "7", "empty": ""}
POD = {
    "metadata": {"name": "web-1", "namespace": "default", "labels": LABELS},
    "spec": {"nodeName": "node1", "schedulerName": "mine"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app=other", False),
        ("app!=web", False),
        ("absent!=web", True),
        ("app", True),
        ("absent", False),
        ("!app", False),
        ("!absent", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (web,db)", False),
        ("absent notin (web)", True),
        ("size>6", True),
        ("size>7", False),
        ("size<8", True),
        ("app>1", False),
        ("empty=", True),
        ("app=", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
    ],
)
def test_label_selector(selector: str, matches: bool) -> None:
    assert label_selector(selector)(POD) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("spec.nodeName=node1", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=", True),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("metadata.name=web-1,metadata.namespace=default", True),
        ("status.nominatedNodeName=", True),
        ("spec.hostNetwork=false", True),
    ],
)
def test_field_selector(selector: str, matches: bool) -> None:
    assert field_selector(PODS, selector)(POD) is matches


def test_a_nodes_default_is_schedulable() -> None:
    assert field_selector(NODES, "spec.unschedulable=false")({"metadata": {"name": "node1"}, "spec": {}})


@pytest.mark.parametrize("selector", ["app===x", "app in web", "app in (web", "=x", "a b"])
def test_a_label_selector_that_cannot_be_read_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as raised:
        label_selector(selector)
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "Exists"}]}, False),
    ],
)
def test_selector_object(selector: dict[str, Any] | None, matches: bool) -> None:
    assert matches_selector(selector, LABELS) is matches
