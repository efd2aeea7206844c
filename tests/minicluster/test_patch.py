"""Patches, by example."""

from typing import Any

import pytest

from scripts.minicluster.errors import ApiError
from scripts.minicluster.patch import json_patch, merge_patch, strategic_merge

ONE, TWO, THREE = ({"name": name, "image": f"{name}:1"} for name in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}, id="null removes"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="objects are merged"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}, id="or replaced"
        ),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="or emptied"),
        pytest.param({"args": [1, 2]}, {"args": [3]}, {"args": [3]}, id="lists of values are replaced"),
        pytest.param(
            {"finalizers": ["a"]},
            {"finalizers": ["b", "a"]},
            {"finalizers": ["a", "b"]},
            id="sets are united",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="and lessened",
        ),
        pytest.param(
            {"containers": [ONE, TWO]},
            {"containers": [{"name": "two", "image": "new"}]},
            {"containers": [ONE, {"name": "two", "image": "new"}]},
            id="lists of objects are merged by their key",
        ),
        pytest.param(
            {"containers": [ONE]},
            {"containers": [TWO]},
            {"containers": [TWO, ONE]},
            id="what is new comes first",
        ),
        pytest.param(
            {"containers": [ONE, TWO]},
            {
                "$setElementOrder/containers": [{"name": "two"}, {"name": "three"}, {"name": "one"}],
                "containers": [THREE],
            },
            {"containers": [TWO, THREE, ONE]},
            id="unless an order is set",
        ),
        pytest.param(
            {"containers": [ONE, TWO]},
            {"containers": [{"$patch": "delete", "name": "one"}]},
            {"containers": [TWO]},
            id="items are deleted by their key",
        ),
        pytest.param(
            {"containers": [ONE, TWO]},
            {"containers": [THREE, {"$patch": "replace"}]},
            {"containers": [THREE]},
            id="a list of objects can be replaced",
        ),
        pytest.param(
            {"taints": [{"key": "a"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
            id="taints have no key",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="only the keys retained stay",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 80, "protocol": "UDP"}]},
            {"ports": [{"containerPort": 80, "protocol": "UDP"}]},
            id="a container's ports",
        ),
        pytest.param(
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 80, "name": "web"}]},
            id="a service's ports",
        ),
    ],
)
def test_strategic_merge(target: Any, patch: Any, result: Any) -> None:
    assert strategic_merge(target, patch) == result


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merge_patch_as_in_the_appendix_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def test_json_patch_leaves_its_target_alone() -> None:
    target = {"a": [1, 2]}
    assert json_patch(target, [{"op": "add", "path": "/a/-", "value": 3}]) == {"a": [1, 2, 3]}
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "fly", "path": "/a"},
        {"op": "add", "path": "/b/c", "value": 1},
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_invalid(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        json_patch({"a": 1}, [operation])
    assert raised.value.code == 422
