"""VolumeBinding: which volume a claim gets on a node, and what keeps a pod off it."""

from dataclasses import replace
from typing import Any

import pytest
from objects import node, pod, read
from plugin_harness import filter_one, fitting, reasons

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, StorageObject
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.volume_binding import VolumeBinding
from lib.scheduling.status import CycleState, PluginError, Status
from lib.scheduling.storage import AssumeCache, Storage

HOSTNAME = "kubernetes.io/hostname"
NO_VOLUMES = "node(s) didn't find available persistent volumes to bind"


def volume(name: str, size: str = "1Gi", on: str = "", claim: str = "", **spec: Any) -> PersistentVolume:
    """A free volume of the class local; on: a node; claim: for which it is kept."""
    whole: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        **spec,
    }
    if on:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [on]}]}
        whole["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if claim:
        whole["claimRef"] = {"namespace": "default", "name": claim}
    labels = {"name": name}
    body = {"metadata": {"name": name, "labels": labels}, "spec": whole, "status": {"phase": "Available"}}
    found: PersistentVolume = read(PersistentVolume, body)
    return found


def claim(name: str = "data", size: str = "1Gi", version: str = "1", **spec: Any) -> PersistentVolumeClaim:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    names = {"namespace": "default", "name": name, "uid": f"uid-of-{name}", "resourceVersion": version}
    found: PersistentVolumeClaim = read(PersistentVolumeClaim, {"metadata": names, "spec": wanted})
    return found


def storage_class(provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> StorageClass:
    body = {
        "metadata": {"name": "local"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }
    found: StorageClass = read(StorageClass, body)
    return found


def bound(name: str) -> PersistentVolumeClaim:
    """A claim that is bound to the volume of this name and `-disk`."""
    made = claim(name, volumeName=f"{name}-disk")
    made.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return made


def user(*claims: str, name: str = "web") -> Pod:
    """A pod that uses these claims."""
    return pod(
        name, volumes=[{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    )


def cluster(*objects: StorageObject) -> Cache:
    """The nodes n1 and n2, and these volumes and such."""
    cache = Cache(node(name, {HOSTNAME: name}) for name in ("n1", "n2"))
    cache.storage = Storage(objects)
    return cache


def matches(cache: Cache, web: Pod) -> dict[str, dict[str, str] | tuple[str, ...]]:
    """By node, the volume of each claim; or why the pod can't run there."""
    plugin, state = VolumeBinding(), CycleState()
    assert plugin.pre_filter(state, web, cache) is None
    found: dict[str, dict[str, str] | tuple[str, ...]] = {}
    for name in cache.nodes:
        if status := filter_one(plugin, state, web, cache, name):
            found[name] = status.reasons
        else:
            static = state[plugin.name].by_node[name].static
            found[name] = {bound.metadata.name: to.metadata.name for bound, to in static}
    return found


@pytest.mark.parametrize(
    ("volumes", "wanted", "gets"),
    [
        ([volume("large", "9Gi"), volume("small", "2Gi")], claim(), "small"),
        ([volume("small", "500Mi"), volume("large", "9Gi")], claim(), "large"),
        ([volume("other", storageClassName="other")], claim(), None),
        ([volume("block", volumeMode="Block")], claim(), None),
        ([volume("read", accessModes=["ReadOnlyMany"])], claim(), None),
        ([volume("a"), volume("b")], claim(selector={"matchLabels": {"name": "b"}}), "b"),
        ([volume("free"), volume("kept", "9Gi", claim="data")], claim(), "kept"),
        ([volume("kept", claim="other")], claim(), None),
        ([volume("kept", claimRef={"namespace": "default", "name": "data", "uid": "old"})], claim(), None),
        ([volume("kept", "500Mi", claim="data"), volume("free")], claim(), "free"),
        ([volume("far", on="n2")], claim(), None),
        # Where the volume that is kept for a claim can't be reached, it gets no other.
        ([volume("free"), volume("kept", on="n2", claim="data")], claim(), None),
    ],
)
def test_the_volume_that_a_claim_gets(
    volumes: list[PersistentVolume], wanted: PersistentVolumeClaim, gets: str | None
) -> None:
    found = matches(cluster(storage_class(), wanted, *volumes), user("data"))["n1"]
    assert found == ({"data": gets} if gets else (NO_VOLUMES,))


@pytest.mark.parametrize(
    ("before", "now", "gets"),
    [
        pytest.param(None, volume("disk", on="n1"), "disk", id="a volume came"),
        pytest.param(volume("disk", on="n1"), None, None, id="it went"),
        pytest.param(volume("disk", on="n2"), volume("disk", on="n1"), "disk", id="it moved"),
        pytest.param(volume("disk"), volume("disk", on="n2"), None, id="it is local now"),
        pytest.param(volume("disk", claim="other"), volume("disk"), "disk", id="it was given back"),
        pytest.param(volume("disk"), volume("disk", claim="other"), None, id="it was taken"),
        pytest.param(
            volume("disk", claim="other"), volume("disk", claim="data"), "disk", id="it is kept now"
        ),
        pytest.param(
            volume("disk"), volume("disk", storageClassName="other"), None, id="it has another class"
        ),
        pytest.param(volume("disk", "500Mi"), volume("disk", "2Gi"), "disk", id="it has grown"),
    ],
)
def test_a_volume_that_changes(
    before: PersistentVolume | None, now: PersistentVolume | None, gets: str | None
) -> None:
    there = cluster(storage_class(), claim(), volume("far", on="n2"), *([before] if before else []))
    matches(there, user("data"))  # what is found out now is kept
    if now:
        there.storage.put(now)
    elif before:
        there.storage.delete(before)
    assert matches(there, user("data"))["n1"] == ({"data": gets} if gets else (NO_VOLUMES,))


def test_of_a_local_volume_and_one_that_all_reach_the_smaller_is_taken() -> None:
    things = [volume("all", "3Gi"), volume("here", "2Gi", on="n1"), volume("there", "4Gi", on="n2")]
    found = matches(cluster(storage_class(), claim(), *things), user("data"))
    assert found == {"n1": {"data": "here"}, "n2": {"data": "all"}}


def test_claims_of_a_pod_get_a_volume_each_the_smallest_first() -> None:
    objects = [claim("large", "5Gi"), claim("small", "1Gi"), volume("a", "5Gi"), volume("b", "8Gi")]
    found = matches(cluster(storage_class(), *objects), user("large", "small"))
    assert found["n1"] == {"small": "a", "large": "b"}


@pytest.mark.parametrize(
    ("made_by", "rejected"),
    [
        (storage_class("example.com/made"), {}),
        (storage_class(), {"n1": (NO_VOLUMES,), "n2": (NO_VOLUMES,)}),
        (
            storage_class(
                "example.com/made",
                allowedTopologies=[{"matchLabelExpressions": [{"key": HOSTNAME, "values": ["n1"]}]}],
            ),
            {"n2": (NO_VOLUMES,)},
        ),
    ],
)
def test_where_a_volume_can_be_made(made_by: StorageClass, rejected: dict[str, tuple[str, ...]]) -> None:
    assert matches(cluster(made_by, claim()), user("data")) == {"n1": {}, "n2": {}} | rejected


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim(storageClassName="")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(volumeName="disk"), storage_class()], "pod has unbound immediate "),
        ([claim(), storage_class(volumeBindingMode="Immediate")], "pod has unbound immediate "),
    ],
)
def test_a_claim_that_is_no_good_anywhere(objects: list[StorageObject], said: str) -> None:
    status = VolumeBinding().pre_filter({}, user("data"), cluster(*objects))
    assert isinstance(status, Status)
    assert status.reasons[0].startswith(said)


def test_what_is_reserved_for_a_pod_no_other_gets_until_it_is_given_back() -> None:
    plugin, state = VolumeBinding(), CycleState()
    objects = [storage_class(), claim("one"), claim("two"), volume("disk", on="n1")]
    cache, web = cluster(*objects), user("one")
    plugin.pre_filter(state, web, cache)
    filter_one(plugin, state, web, cache, "n1")
    plugin.reserve(state, web, "n1")
    assert matches(cache, user("two", name="other"))["n1"] == (NO_VOLUMES,)
    plugin.unreserve(state, web, "n1")
    assert matches(cache, user("two", name="other"))["n1"] == {"two": "disk"}


@pytest.mark.parametrize(
    "made",
    [[storage_class(), volume("disk")], [storage_class("example.com/made")]],
    ids=["static", "provisioned"],
)
def test_of_two_pods_with_one_claim_the_second_gives_back_nothing_of_the_firsts(
    made: list[StorageObject],
) -> None:
    plugin, cache = VolumeBinding(), cluster(claim(), *made)
    states: list[CycleState] = [{}, {}]
    for name, state in zip(("first", "second"), states, strict=True):
        web = user("data", name=name)
        assert plugin.pre_filter(state, web, cache) is None
        assert filter_one(plugin, state, web, cache, "n1") is None
        plugin.reserve(state, web, "n1")
    first, second = user("data", name="first"), user("data", name="second")
    waiting = plugin.pre_bind(states[0], first, "n1")
    assert waiting
    assert len(waiting.writes) == 1
    plugin.unreserve(states[1], second, "n1")
    assert plugin.pre_bind(states[0], first, "n1") == replace(waiting, writes=())  # it still waits
    plugin.unreserve(states[0], first, "n1")
    assert not any(each.spec.claim_ref for each in cache.storage.volumes)
    assert not any(each.metadata.annotations for each in cache.storage.claims)


@pytest.mark.parametrize(
    ("seen", "written", "is_assumed"),
    [("5", "7", True), ("7", "7", False), ("9", "7", False), ("", "7", False)],
    ids=["older", "the same", "newer", "gone"],
)
def test_the_answer_to_a_write_counts_unless_more_was_seen_before_it_came(
    seen: str, written: str, is_assumed: bool
) -> None:
    cache = AssumeCache[PersistentVolumeClaim]()
    before, answer = claim("data"), claim("data")
    before.metadata.resource_version, answer.metadata.resource_version = seen, written
    if seen:
        cache.put(before)
    cache.assume(claim("data"))
    cache.written(answer)
    assert cache.is_assumed("default/data") == is_assumed
    assert cache.get("default/data") is (answer if is_assumed else before if seen else None)


def test_what_is_assumed_holds_until_the_api_server_shows_as_much() -> None:
    cache = AssumeCache[PersistentVolumeClaim]()
    cache.put(claim(version="5"))
    cache.assume(claim(version="8", volumeName="disk"))  # as our write was answered
    cache.put(claim(version="7"))  # a stale event, from before that
    found = cache.get("default/data")
    assert found
    assert found.spec.volume_name == "disk"
    cache.put(claim(version="9"))
    assert not cache.is_assumed("default/data")


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        (Change(Kind.ADDED, claim()), True),
        (Change(Kind.ADDED, claim("other")), False),
        (Change(Kind.DELETED, claim(), claim()), False),
        (Change(Kind.ADDED, volume("disk")), True),
        (Change(Kind.ADDED, storage_class()), True),
        (Change(Kind.MODIFIED, storage_class(), storage_class()), False),
        (Change(Kind.ADDED, node("n3")), True),
        (Change(Kind.MODIFIED, node("n1"), node("n1")), False),
        (Change(Kind.ADDED, pod("other", nodeName="n1")), False),
    ],
)
def test_what_helps_a_pod_that_it_rejected(change: Any, helps: bool) -> None:
    assert VolumeBinding().queueing_hint(user("data"), change) is helps


@pytest.mark.parametrize(("name", "helps"), [("web-data", True), ("data", False), ("web", False)])
def test_a_claim_of_its_ephemeral_volume_helps_a_pod(name: str, helps: bool) -> None:
    web = pod("web", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert VolumeBinding().queueing_hint(web, Change(Kind.ADDED, claim(name))) is helps


# --- bound claims -----------------------------------------------------------------------------------------

ZONE = "topology.kubernetes.io/zone"
IN_A: Any = {"key": ZONE, "operator": "In", "values": ["a"]}
NODES = [
    *(node(f"a{i}", {HOSTNAME: f"a{i}", ZONE: "a", "disk": "ssd"}) for i in range(5)),
    *(node(f"b{i}", {HOSTNAME: f"b{i}", ZONE: "b"}) for i in range(5)),
]


@pytest.mark.parametrize(
    ("terms", "fit"),
    [
        pytest.param([[]], "", id="an empty term holds nowhere"),
        pytest.param([[IN_A]], "a0 a1 a2 a3 a4", id="a zone"),
        pytest.param(
            [[{**IN_A, "values": ["a", "b", "a"]}]], "a0 a1 a2 a3 a4 b0 b1 b2 b3 b4", id="both zones"
        ),
        pytest.param([[{**IN_A, "operator": "NotIn"}]], "b0 b1 b2 b3 b4", id="all but a zone"),
        pytest.param([[{"key": "disk", "operator": "Exists"}]], "a0 a1 a2 a3 a4", id="all with a label"),
        pytest.param([[{"key": HOSTNAME, "operator": "In", "values": ["b3"]}]], "b3", id="a local volume"),
        pytest.param(
            [[{"key": HOSTNAME, "operator": "In", "values": ["b3"]}, IN_A]], "", id="all of a term must hold"
        ),
        pytest.param(
            [[{"key": HOSTNAME, "operator": "In", "values": ["b3"]}], [IN_A]],
            "a0 a1 a2 a3 a4 b3",
            id="one of two terms must hold",
        ),
        pytest.param(
            [[{"key": "rack", "operator": "In", "values": ["1"]}]], "", id="a label that no node has"
        ),
    ],
)
def test_from_where_a_bound_volume_is_reached(terms: list[list[Any]], fit: str) -> None:
    """plugin_harness asks about each node, and about all together."""
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}}
    cache = Cache(NODES)
    cache.storage = Storage([bound("data"), volume("data-disk", claim="data", nodeAffinity=affinity)])
    assert fitting(VolumeBinding(), user("data"), cache) == fit


def test_all_bound_volumes_must_be_reached() -> None:
    in_a = {"required": {"nodeSelectorTerms": [{"matchExpressions": [IN_A]}]}}
    on_ssd = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
    }
    cache = Cache([*NODES, node("slow-a", {ZONE: "a"})])
    volumes = [volume("x-disk", nodeAffinity=in_a), volume("y-disk", nodeAffinity=on_ssd), volume("z-disk")]
    cache.storage = Storage([bound("x"), bound("y"), bound("z"), *volumes])
    assert fitting(VolumeBinding(), user("z", "x"), cache) == "a0 a1 a2 a3 a4 slow-a"
    assert fitting(VolumeBinding(), user("x", "y", "z"), cache) == "a0 a1 a2 a3 a4"


def test_a_bound_volume_that_has_gone_is_reached_from_nowhere() -> None:
    found = reasons(VolumeBinding(), user("data"), cluster(bound("data")))
    gone = ["node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"]
    assert found == {"n1": gone, "n2": gone}


# --- what PreBind waits for ---------------------------------------------------------------------------------

DONE = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}


def bound_to(volume_name: str = "", **annotations: str) -> PersistentVolumeClaim:
    """The claim as the API server shows it later."""
    found = claim(version="5", **({"volumeName": volume_name} if volume_name else {}))
    found.metadata.annotations = annotations
    return found


def given_to(uid: str | None, on: str = "n1") -> PersistentVolume:
    """The volume as the API server shows it later. uid: of its claim, if it has one."""
    kept_for: Any = {"namespace": "default", "name": "data", "uid": uid}
    found = volume("disk", on=on, claimRef=None if uid is None else kept_for)
    found.metadata.resource_version = "5"
    return found


def answer_of_pre_bind(
    made: list[StorageObject], then: list[StorageObject], gone: list[StorageObject]
) -> str:
    """What PreBind says when its writes were handed out and this was seen; "" if it is done."""
    plugin, state, cache, web = VolumeBinding(), CycleState(), cluster(claim(), *made), user("data")
    plugin.pre_filter(state, web, cache)
    assert filter_one(plugin, state, web, cache, "n1") is None
    plugin.reserve(state, web, "n1")
    handed_out = plugin.pre_bind(state, web, "n1")
    assert handed_out
    assert len(handed_out.writes) == 1
    for each in then:
        cache.storage.put(each)
    for each in gone:
        cache.storage.delete(each)
    try:
        answer = plugin.pre_bind(state, web, "n1")
    except PluginError as error:
        return str(error).removeprefix('running PreBind plugin "VolumeBinding": binding volumes: ')
    assert not answer or not answer.writes
    return answer.reasons[0] if answer else ""


WAITING = "waiting for claims to be bound: data"


@pytest.mark.parametrize(
    ("then", "gone", "said"),
    [
        pytest.param([], [], WAITING, id="nothing is seen yet"),
        pytest.param([given_to("uid-of-data")], [], WAITING, id="the volume is reserved"),
        pytest.param([given_to("uid-of-data"), bound_to("disk")], [], WAITING, id="the claim names it"),
        pytest.param([given_to("uid-of-data"), bound_to("disk", **DONE)], [], "", id="they are bound"),
        pytest.param([bound_to("disk", **DONE)], [], WAITING, id="the volume isn't seen yet"),
        pytest.param([given_to("")], [], 'ClaimRef got reset for pv "disk"', id="its claim's uid is gone"),
        pytest.param([given_to(None)], [], 'ClaimRef got reset for pv "disk"', id="it was given back"),
        pytest.param(
            [given_to("uid-of-data", on="n2")],
            [],
            'pv "disk" node affinity doesn\'t match node "n1"',
            id="it is elsewhere",
        ),
        pytest.param(
            [],
            [volume("disk", on="n1")],
            'failed to check binding: persistentvolume "disk" not found',
            id="the volume is gone",
        ),
        pytest.param(
            [],
            [claim()],
            'failed to check binding: persistentvolumeclaim "default/data" not found',
            id="the claim is gone",
        ),
    ],
)
def test_a_pod_is_bound_when_its_claim_and_volume_are(
    then: list[StorageObject], gone: list[StorageObject], said: str
) -> None:
    assert answer_of_pre_bind([storage_class(), volume("disk", on="n1")], then, gone) == said


@pytest.mark.parametrize(
    ("then", "gone", "said"),
    [
        pytest.param([], [], WAITING, id="nothing is seen yet"),
        pytest.param([bound_to(**SELECTED)], [], WAITING, id="the node is selected"),
        pytest.param([bound_to("disk", **SELECTED)], [], WAITING, id="the volume isn't seen yet"),
        pytest.param(
            [bound_to("disk", **SELECTED), given_to("uid-of-data")], [], WAITING, id="the volume is made"
        ),
        pytest.param(
            [bound_to("disk", **SELECTED, **DONE), given_to("uid-of-data")], [], "", id="they are bound"
        ),
        pytest.param([bound_to()], [], 'provisioning failed for PVC "data"', id="the provisioner gave up"),
        pytest.param(
            [bound_to("disk", **SELECTED, **DONE), given_to("uid-of-data", on="n2")],
            [],
            'pv "disk" node affinity doesn\'t match node "n1"',
            id="it was made elsewhere",
        ),
        pytest.param(
            [],
            [claim()],
            'failed to check provisioning pvc: persistentvolumeclaim "default/data" not found',
            id="the claim is gone",
        ),
    ],
)
def test_a_pod_is_bound_when_its_volume_was_made(
    then: list[StorageObject], gone: list[StorageObject], said: str
) -> None:
    assert answer_of_pre_bind([storage_class("example.com/made")], then, gone) == said


def test_a_claim_of_a_class_that_went_meanwhile_is_an_error() -> None:
    selected = bound_to(**SELECTED)
    cache, state, plugin = cluster(storage_class("example.com/made"), selected), CycleState(), VolumeBinding()
    assert plugin.pre_filter(state, user("data"), cache) is None
    cache.storage.delete(storage_class("example.com/made"))
    with pytest.raises(PluginError, match='failed to find storage class "local"'):
        filter_one(plugin, state, user("data"), cache, "n1")
