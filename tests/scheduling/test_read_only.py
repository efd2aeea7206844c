"""What policies get can't be changed, wherever they look; else it is like what it was made of."""

import copy
import json
import signal
from collections.abc import Callable, Iterator, KeysView, Mapping
from datetime import datetime
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

import pytest
from msgspec import inspect
from objects import node, pod, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, Taint
from lib.scheduling.cache import Cache
from lib.scheduling.framework.runtime import raise_if_interrupted
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.policies.class_plugins import shown
from lib.scheduling.policies.views import NodeView, PodView
from lib.scheduling.read_only import ReadOnly, ReadOnlyDict, ReadOnlyError, ReadOnlyList, original

IMMUTABLE = (str, int, float, bool, type(None), datetime, Enum, FunctionType, KeysView)


def filled(kind: Any) -> Any:
    """JSON of a type, with every field, and one element in each list and dict."""
    match kind:
        case inspect.StructType():
            tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
            return {each.encode_name: filled(each.type) for each in kind.fields} | tag
        case inspect.ListType() | inspect.VarTupleType():
            return [filled(kind.item_type)]
        case inspect.DictType():
            return {"cpu": filled(kind.value_type)}
        case inspect.UnionType():
            return filled(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case inspect.IntType():
            return 1
        case inspect.BoolType():
            return True
    return "1"


def full_cluster() -> Cache:
    """A node and its pod. Both have every field that poller knows of."""
    the_node, its_pod = (read(kind, filled(inspect.type_info(kind))) for kind in (Node, Pod))
    assert its_pod.spec.node_name == the_node.metadata.name
    return Cache([the_node], [its_pod])


def reached(value: Any, path: str, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """All that can be reached by attribute, index, key and iteration; an object is looked into once."""
    yield path, value
    if id(original(value)) in seen or isinstance(value, IMMUTABLE):
        return
    seen[id(original(value))] = original(value)
    inner: dict[str, Any] = {}
    if isinstance(value, Mapping):
        inner |= {f"{path}[{key!r}]": each for key, each in value.items()}
        inner |= {f"{path} key {key!r}": key for key in value}
    elif isinstance(value, list | tuple | frozenset):
        inner |= {f"{path}[{i}]": each for i, each in enumerate(value)}
    elif issubclass(type(value), ReadOnly):
        names = [name for name in dir(value) if name[:2] != "__"]
        inner |= {f"{path}.{name}": getattr(value, name) for name in names if hasattr(value, name)}
    elif isinstance(value, MethodType):
        inner[f"{path}.__self__"] = value.__self__
    for at, each in inner.items():
        yield from reached(each, at, seen)


@pytest.mark.parametrize(
    "show",
    [
        lambda cache: NodeView(cache.nodes["1"]),
        lambda cache: PodView(cache.nodes["1"].pods[0]),
        shown,
        lambda cache: shown(cache.nodes["1"]),
        lambda cache: shown(cache.nodes["1"].pods[0]),
        lambda cache: shown(NodeSlice(cache, [0])),
    ],
    ids=["NodeView", "PodView", "cluster", "node", "pod", "nodes"],
)
def test_nothing_that_can_be_changed_is_within_reach(show: Callable[[Cache], Any]) -> None:
    found = dict(reached(show(full_cluster()), "it", {}))
    assert len(found) > 50
    harmless = (ReadOnly, ReadOnlyDict, ReadOnlyList, tuple, frozenset, MethodType, type, *IMMUTABLE)
    assert {at: type(each) for at, each in found.items() if not issubclass(type(each), harmless)} == {}


@pytest.mark.parametrize("show", [NodeView, shown])
def test_there_is_no_way_around_a_view(show: Callable[[NodeInfo], Any]) -> None:
    info = Cache([node("n1", {"rack": "r1"}, taints=[{"key": "gpu"}])]).nodes["n1"]
    view = show(info)
    for name in ("_object", "_place", "labels", "new"):
        with pytest.raises(AttributeError):
            object.__setattr__(view, name, {})
        with pytest.raises(ReadOnlyError, match=f"^a policy can't change a node: {name}$"):
            setattr(view, name, {})
    assert not hasattr(view, "_object")
    for changed in (
        dict(view.labels),
        view.labels.copy(),
        copy.copy(view.labels),
        copy.deepcopy(view.labels),
    ):
        changed["rack"] = "r2"
    dict.clear(view.labels)
    list.clear(view.taints)
    assert (info.labels, info.taints) == ({"rack": "r1"}, [Taint("gpu")])


@pytest.mark.parametrize("show", [NodeView, shown])
def test_it_is_like_the_original(show: Callable[[NodeInfo], Any]) -> None:
    old = pod("old", nodeName="n1", tolerations=[{"key": "gpu", "operator": "Exists"}])
    cache = Cache([node("n1", {"b": "2", "a": "1"}, taints=[{"key": "gpu"}])], [old])
    info = cache.nodes["n1"]
    view = show(info)
    assert view == show(info)
    assert len({view, show(info)}) == 1
    assert (view.labels, repr(view.labels), sorted(view.labels)) == (
        info.labels,
        repr(info.labels),
        ["a", "b"],
    )
    assert json.loads(json.dumps({**view.labels, "all": view.labels})) == {**info.labels, "all": info.labels}
    assert (view.labels | {"c": "3"})["c"] == "3"
    assert view.taints == info.taints
    assert Taint("gpu") in view.taints
    assert [each.key for each in view.taints[:1]] == ["gpu"]
    assert (bool(view.taints), len(view.taints), view.taints * 2) == (True, 1, info.taints * 2)
    assert view.pods == [show(info).pods[0]]
    assert view.pods.index(view.pods[0]) == 0
    assert len({*view.pods, *show(info).pods}) == 1
    assert view.pods[0].spec.tolerations[0].operator == "Exists"
    assert len({*view.taints, *view.pods[0].spec.tolerations}) == 2
    assert copy.deepcopy(view.pods[0]) == view.pods[0]


def test_a_class_gets_objects_of_the_known_kinds() -> None:
    cache = Cache([node(f"n{i}", {"zone": f"z{i % 2}"}) for i in range(4)], [pod("old", nodeName="n1")])
    cluster, nodes = shown(cache), shown(NodeSlice(cache, [1, 2, 3]))
    (old,) = cluster.nodes["n1"].pods
    assert isinstance(cluster, Cache)
    assert isinstance(cluster.nodes["n1"], NodeInfo)
    assert isinstance(old, Pod)
    assert str(old) == "default/old"
    assert sorted(cluster.nodes) == ["n0", "n1", "n2", "n3"]
    assert (len(cluster.nodes), cluster.counts()["pods"]) == (4, 1)
    assert [each.name for each in nodes] == ["n1", "n2", "n3"]
    assert nodes.values(lambda each: each.labels["zone"]) == ["z1", "z0", "z1"]
    assert [each.name for each in nodes.some([0, 2])] == ["n1", "n3"]
    assert cluster.remember("key", lambda: 7) == cluster.remember("key", lambda: 8) == 7
    with cluster.without([old]):
        assert cluster.nodes["n1"].pods == []
    assert cluster.nodes["n1"].pods == [old]


def test_what_a_class_gets_is_kept_until_the_node_changes() -> None:
    cache = Cache([node("n0"), node("n1")], [pod("old", nodeName="n1")])
    nodes = shown(NodeSlice(cache, [0, 1]))
    n0, n1 = nodes
    (old,) = n1.pods
    assert [*nodes][1] is n1
    assert n1.pods[0] is old
    list.clear(n1.pods)
    assert n1.pods == [old]
    cache.apply(Change(Kind.ADDED, pod("new", nodeName="n1")))
    assert [each.metadata.name for each in n1.pods] == ["old", "new"]  # also if a policy has kept the node
    first, second = nodes
    assert (first is n0, second is n1) == (True, False)
    cache.apply(Change(Kind.DELETED, pod("new", nodeName="n1")))
    with cache.without([original(old)]):
        assert n1.pods == [*nodes][1].pods == []
    assert n1.pods == [*nodes][1].pods == [old]
    cache.apply(Change(Kind.DELETED, original(old)))
    cache.apply(Change(Kind.ADDED, pod("another", nodeName="n1")))
    assert [each.metadata.name for each in n1.pods] == ["another"]


@pytest.mark.parametrize("plugin", [PodTopologySpread(), InterPodAffinity()], ids=lambda each: each.name)
def test_a_class_may_ask_a_plugin_of_pollers(plugin: PodTopologySpread | InterPodAffinity) -> None:
    """What it keeps for the class follows the pods, too."""
    host, web = "kubernetes.io/hostname", {"matchLabels": {"app": "web"}}
    spread = {"topologyKey": host, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": web}
    far = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": host, "labelSelector": web}]}

    def web_pod(name: str, **spec: Any) -> Pod:
        spec |= {"affinity": {"podAntiAffinity": far}, "topologySpreadConstraints": [spread]}
        metadata = {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"}}
        found: Pod = read(Pod, {"metadata": metadata, "spec": spec})
        return found

    cache = Cache([node(f"n{i}", {host: f"n{i}"}) for i in range(12)])
    cluster, nodes, state = shown(cache), shown(NodeSlice(cache, range(12))), dict[str, Any]()
    new = web_pod("new")
    for i in range(3):
        cache.apply(Change(Kind.ADDED, web_pod(f"old-{i}", nodeName=f"n{i}")))
        plugin.pre_filter(state, new, cluster)
        rejected = [each is not None for each in plugin.filter_nodes(state, new, nodes)]
        assert rejected == [k <= i for k in range(12)]


def test_ctrl_c_is_no_failure_of_a_plugin() -> None:
    """Outside of the loop SIGINT has Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            raise_if_interrupted(KeyboardInterrupt())
        raise_if_interrupted(SystemExit())
    finally:
        signal.signal(signal.SIGINT, before)
