"""VolumeZone: a pod goes to the zones and regions that the labels of its volumes name."""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import fitting, reasons
from storage_objects import claim, cluster, storage_class, user, volume, with_volumes

from lib.kube.changes import Change, Kind
from lib.kube.storage import StorageObject
from lib.scheduling.plugins.volume_zone import VolumeZone
from lib.scheduling.status import SKIP, Code, Status

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

NODES = [
    node("east-a", {ZONE: "a", REGION: "east"}),
    node("east-b", {ZONE: "b", REGION: "east"}),
    node("west-a", {ZONE: "a", REGION: "west"}),
    node("old-a", {OLD_ZONE: "a", OLD_REGION: "east"}),
    node("nowhere", {"disk": "ssd"}),
]


@pytest.mark.parametrize(
    ("labels", "fit"),
    [
        pytest.param({}, "east-a east-b nowhere old-a west-a", id="a volume without labels is anywhere"),
        pytest.param({"disk": "hdd"}, "east-a east-b nowhere old-a west-a", id="other labels say nothing"),
        pytest.param({ZONE: "a"}, "east-a nowhere west-a", id="a zone; a node with older labels has none"),
        pytest.param({ZONE: "c"}, "nowhere", id="a node that has no zone at all passes always"),
        pytest.param(
            {ZONE: "a", REGION: "west"}, "nowhere west-a", id="zone and region must both be the node's"
        ),
        pytest.param({REGION: "east"}, "east-a east-b nowhere", id="a region"),
        pytest.param(
            {OLD_ZONE: "a"}, "east-a nowhere old-a west-a", id="an older label is met by the newer one"
        ),
        pytest.param({OLD_REGION: "west"}, "nowhere west-a", id="so is an older region"),
        pytest.param({ZONE: "a__b"}, "east-a east-b nowhere west-a", id="one of several zones is enough"),
        pytest.param({ZONE: "c__ b "}, "east-b nowhere", id="spaces around a zone don't count"),
        pytest.param(
            {ZONE: "a__"}, "east-a east-b nowhere old-a west-a", id="with an empty zone it says nothing"
        ),
        pytest.param({ZONE: ""}, "east-a east-b nowhere old-a west-a", id="an empty label says nothing"),
        pytest.param({ZONE: "", REGION: "west"}, "nowhere west-a", id="but the other label still counts"),
    ],
)
def test_where_the_volume_is(labels: dict[str, str], fit: str) -> None:
    there = cluster(NODES, claim("data", "disk"), volume("disk", labels))
    assert fitting(VolumeZone(), user("data"), there) == fit


def test_all_volumes_of_a_pod_count() -> None:
    things = (
        claim("one", "in-a"),
        claim("two", "in-east"),
        volume("in-a", {ZONE: "a"}),
        volume("in-east", {REGION: "east"}),
    )
    there = cluster(NODES, *things)
    assert fitting(VolumeZone(), user("one", "two"), there) == "east-a nowhere"
    assert reasons(VolumeZone(), user("one", "two"), there)["west-a"] == [
        "node(s) had no available volume zone"
    ]


@pytest.mark.parametrize(
    ("claims", "things", "said"),
    [
        pytest.param([], [], None, id="no claims"),
        pytest.param(["data"], [], 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param([""], [], "PersistentVolumeClaim had no name", id="a claim without a name"),
        pytest.param(
            ["data"],
            [claim("data", "disk")],
            'persistentvolume "disk" not found',
            id="bound, and the volume is gone",
        ),
        pytest.param(
            ["data"],
            [claim("data")],
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="without class",
        ),
        pytest.param(
            ["data"],
            [claim("data", storage_class="fast")],
            'storageclass.storage.k8s.io "fast" not found',
            id="no such class",
        ),
        pytest.param(
            ["data"],
            [claim("data", storage_class="fast"), storage_class("fast", mode="Immediate")],
            "PersistentVolume had no name",
            id="a claim that should have been bound at once",
        ),
        pytest.param(
            ["data"],
            [claim("data", storage_class="fast"), storage_class("fast")],
            None,
            id="a claim that is bound where the pod goes",
        ),
        pytest.param(["data"], [claim("data", "disk"), volume("disk")], None, id="a volume without labels"),
    ],
)
def test_before_any_node_is_looked_at(
    claims: list[str], things: list[StorageObject], said: str | None
) -> None:
    """None: there is nothing to filter by."""
    found = VolumeZone().pre_filter({}, user(*claims), cluster("n1", *things))
    assert found == (Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (said,)) if said else SKIP)


def test_only_claims_have_zones() -> None:
    disk = with_volumes({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {"emptyDir": {}})
    assert VolumeZone().pre_filter({}, disk, cluster("n1")) == SKIP


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        pytest.param(Change(Kind.ADDED, claim("data")), True, id="its claim came"),
        pytest.param(Change(Kind.MODIFIED, claim("data", "disk"), claim("data")), True, id="it was bound"),
        pytest.param(Change(Kind.ADDED, claim("data", namespace="other")), False, id="of another namespace"),
        pytest.param(Change(Kind.ADDED, claim("logs")), False, id="another claim"),
        pytest.param(Change(Kind.ADDED, volume("disk")), True, id="a volume came"),
        pytest.param(Change(Kind.MODIFIED, volume("disk", {ZONE: "a"}), volume("disk")), True, id="it moved"),
        pytest.param(
            Change(Kind.MODIFIED, volume("disk", {"x": "y"}), volume("disk")), False, id="other label"
        ),
        pytest.param(Change(Kind.DELETED, volume("disk"), volume("disk")), False, id="a volume went"),
        pytest.param(Change(Kind.ADDED, storage_class("fast")), True, id="a class that lets claims wait"),
        pytest.param(Change(Kind.ADDED, storage_class("fast", mode="Immediate")), False, id="another class"),
        pytest.param(Change(Kind.ADDED, NODES[0]), True, id="a node came"),
        pytest.param(Change(Kind.MODIFIED, NODES[0], node("east-a")), True, id="a node has other labels"),
        pytest.param(Change(Kind.MODIFIED, NODES[0], NODES[0]), False, id="nothing of a node that counts"),
        pytest.param(Change(Kind.DELETED, pod("old"), pod("old")), False, id="a pod went"),
    ],
)
def test_what_helps_a_pod_that_it_rejected(change: Any, helps: bool) -> None:
    assert VolumeZone().queueing_hint(user("data"), change) is helps
