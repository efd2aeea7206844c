"""NodeVolumeLimits: no node gets more volumes of a CSI driver than its CSINode says it can have."""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import reasons
from storage_objects import (
    Json,
    attachment,
    claim,
    cluster,
    csi_node,
    csi_volume,
    storage_class,
    user,
    volume,
    with_volumes,
)

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod
from lib.kube.storage import StorageObject
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from lib.scheduling.status import SKIP, PluginError

TOO_MANY = {"n1": ["node(s) exceed max volume count"]}

A = (claim("a", "disk-a"), csi_volume("disk-a"))
B = (claim("b", "disk-b"), csi_volume("disk-b"))
OTHER_DRIVER = (claim("o", "disk-o"), csi_volume("disk-o", driver="other.example.com"))
SAME_DISK = (claim("s", "disk-s"), csi_volume("disk-s", handle="disk-a"))
UNBOUND = (claim("u", storage_class="fast"), storage_class("fast"))
NO_CLASS = (claim("u"),)
LOST = (claim("u", "gone", storage_class="fast"), storage_class("fast"))
BOUND_TO_NFS = (claim("n", "share"), volume("share", nfs={"server": "nfs", "path": "/"}))
ON_EBS = (claim("e", "disk-e"), volume("disk-e", awsElasticBlockStore={"volumeID": "aws://eu-1a/vol-1"}))
EBS: Json = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
PORTWORX: Json = {"portworxVolume": {"volumeID": "vol-1"}}
ON_PORTWORX = (claim("p", "disk-p"), volume("disk-p", portworxVolume={"volumeID": "vol-1"}))
ON_NEW_PORTWORX = (claim("p", storage_class="px"), storage_class("px", "kubernetes.io/portworx-volume"))
ON_NEW_EBS = (claim("e", storage_class="gp2"), storage_class("gp2", "kubernetes.io/aws-ebs"))


@pytest.mark.parametrize(
    ("web", "things", "fits"),
    [
        # How many there are, and how many there may be.
        pytest.param(user("a"), [*A, csi_node("n1", example=1)], True, id="the last that there is room for"),
        pytest.param(user("a"), [*A, csi_node("n1", example=0)], False, id="there is room for none"),
        pytest.param(
            user("a"),
            [*A, *B, csi_node("n1", example=1), user("b", name="old", on="n1")],
            False,
            id="one too many",
        ),
        pytest.param(user("a", "b"), [*A, *B, csi_node("n1", example=1)], False, id="two at once"),
        pytest.param(user("a"), [*A, csi_node("n1", example=None)], True, id="a driver that gives no limit"),
        pytest.param(user("a"), [*A, csi_node("n1")], True, id="a driver that the node doesn't name"),
        pytest.param(user("a"), [*A], True, id="a node without a CSINode"),
        pytest.param(user("a"), [*A, csi_node("n2", example=0)], True, id="another node's limit"),
        pytest.param(
            user("a"),
            [*A, *OTHER_DRIVER, csi_node("n1", example=1), user("o", name="old", on="n1")],
            True,
            id="each driver has its own",
        ),
        # What counts once, and what doesn't count.
        pytest.param(
            user("a"),
            [*A, csi_node("n1", example=1), user("a", name="old", on="n1")],
            True,
            id="a volume that another pod there has already",
        ),
        pytest.param(
            user("s"),
            [*A, *SAME_DISK, csi_node("n1", example=1), user("a", name="old", on="n1")],
            True,
            id="the same disk through another claim",
        ),
        pytest.param(
            user("a", "b"),
            [*A, *B, csi_node("n1", example=1), user("a", name="old", on="n1")],
            False,
            id="one of two is new",
        ),
        pytest.param(
            user("n"), [*BOUND_TO_NFS, csi_node("n1", example=0)], True, id="a volume that isn't attached"
        ),
        pytest.param(
            user("a"),
            [*A, csi_node("n1", example=1), user("nowhere", name="old", on="n1")],
            True,
            id="a pod there whose claim has gone",
        ),
        # Claims without a volume.
        pytest.param(
            user("u"), [*UNBOUND, csi_node("n1", example=0)], False, id="unbound: its class tells the driver"
        ),
        pytest.param(user("u"), [*NO_CLASS, csi_node("n1", example=0)], True, id="unbound, and of no class"),
        pytest.param(
            user("u"), [*LOST, csi_node("n1", example=0)], False, id="bound, but the volume has gone"
        ),
        pytest.param(
            user("u"),
            [*UNBOUND, csi_node("n1", example=1), user("u", name="old", on="n1")],
            True,
            id="an unbound claim that another pod there has already",
        ),
        # VolumeAttachments.
        pytest.param(
            user("a"),
            [*A, *B, csi_node("n1", example=1), attachment("n1", "disk-b")],
            False,
            id="what is still attached, though no pod uses it",
        ),
        pytest.param(
            user("a"),
            [*A, *B, csi_node("n1", example=2), attachment("n1", "disk-b"), user("b", name="old", on="n1")],
            True,
            id="what a pod uses and is attached counts once",
        ),
        pytest.param(
            user("a"),
            [*A, csi_node("n1", example=1), attachment("n1", "disk-a")],
            False,
            id="its own volume, attached already, counts twice: so does kube-scheduler",
        ),
        pytest.param(
            user("a"),
            [*A, *B, csi_node("n1", example=1), attachment("n2", "disk-b")],
            True,
            id="attached elsewhere",
        ),
        pytest.param(
            user("a"),
            [*A, csi_node("n1", example=1), attachment("n1", "gone")],
            True,
            id="of a volume that has gone",
        ),
        pytest.param(
            user("a"),
            [*A, *B, csi_node("n1", example=1), attachment("n1", "disk-b", attacher="")],
            True,
            id="by nobody",
        ),
        # In-tree disks count as volumes of the CSI driver that stands for them.
        pytest.param(
            with_volumes(EBS), [csi_node("n1", ebs=0)], False, id="a disk that the pod names itself"
        ),
        pytest.param(with_volumes(PORTWORX), [csi_node("n1", px=0)], False, id="a volume of Portworx"),
        pytest.param(user("p"), [*ON_PORTWORX, csi_node("n1", px=0)], False, id="a claim bound to one"),
        pytest.param(
            user("p"), [*ON_NEW_PORTWORX, csi_node("n1", px=0)], False, id="a claim of such a class"
        ),
        pytest.param(
            user("p"),
            [*ON_PORTWORX, csi_node("n1", px=1), with_volumes(PORTWORX, name="old", on="n1")],
            True,
            id="a volume of Portworx that another pod there has already",
        ),
        pytest.param(with_volumes(EBS), [], True, id="in-tree, and no CSINode"),
        pytest.param(user("e"), [*ON_EBS, csi_node("n1", ebs=0)], False, id="a claim bound to such a disk"),
        pytest.param(
            user("e"), [*ON_NEW_EBS, csi_node("n1", ebs=0)], False, id="a claim of a class of such disks"
        ),
        pytest.param(
            user("e"),
            [*ON_EBS, csi_node("n1", ebs=1), with_volumes(EBS, name="old", on="n1")],
            True,
            id="named by a pod and bound to a claim it is the same disk",
        ),
    ],
)
def test_there_is_room_for_its_volumes(web: Pod, things: list[Pod | StorageObject], fits: bool) -> None:
    assert reasons(NodeVolumeLimits(), web, cluster("n1", *things)) == ({} if fits else TOO_MANY)


@pytest.mark.parametrize(
    "web",
    [
        pytest.param(pod("web"), id="without volumes"),
        pytest.param(
            with_volumes({"emptyDir": {}}, {"nfs": {"server": "s", "path": "/"}}), id="not attached"
        ),
        pytest.param(user("a"), id="all nodes have room"),
    ],
)
def test_pods_that_it_has_nothing_to_do_with(web: Pod) -> None:
    there = cluster("n1 n2 n3", *A, csi_node("n1", example=1), csi_node("n2", example=None))
    assert NodeVolumeLimits().pre_filter({}, web, there) == SKIP


def test_of_many_nodes_only_the_full_ones_are_ruled_out() -> None:
    names = [f"n{i}" for i in range(20)]
    pods = [user("b", name=f"old-{name}", on=name) for name in names[::3]]
    there = cluster(
        [node(name) for name in names], *A, *B, *pods, *(csi_node(name, example=1) for name in names)
    )
    found = reasons(NodeVolumeLimits(), user("a"), there)
    assert sorted(found) == sorted(names[::3])
    assert reasons(NodeVolumeLimits(), user("b"), there) == {}  # there it is attached already


def test_a_claim_that_is_not_there_rules_out_every_node() -> None:
    said = 'looking up PVC default/a: persistentvolumeclaim "a" not found'
    there = cluster("n1 n2", csi_node("n1", example=1))
    assert reasons(NodeVolumeLimits(), user("a"), there) == {"n1": [said], "n2": [said]}


EPHEMERAL: Json = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


@pytest.mark.parametrize(("limit", "fits"), [(1, True), (0, False)])
def test_a_claim_that_was_made_for_the_pod_counts(limit: int, fits: bool) -> None:
    mine = claim("web-volume-0", "disk-a", owner="uid-of-web")
    there = cluster("n1", mine, csi_volume("disk-a"), csi_node("n1", example=limit))
    assert reasons(NodeVolumeLimits(), with_volumes(EPHEMERAL), there) == ({} if fits else TOO_MANY)


def test_a_claim_that_was_made_for_another_pod_is_an_error() -> None:
    there = cluster("n1", claim("web-volume-0", "disk-a", owner="another"), csi_node("n1", example=1))
    with pytest.raises(PluginError, match="was not created for pod default/web"):
        reasons(NodeVolumeLimits(), with_volumes(EPHEMERAL), there)


def test_a_pod_there_with_another_pods_claim_is_an_error_for_others() -> None:
    there = cluster(
        "n1", *A, claim("old-volume-0", owner="another"), with_volumes(EPHEMERAL, name="old", on="n1")
    )
    assert reasons(NodeVolumeLimits(), user("a"), there) == {}  # without a limit nobody asks
    there.apply(Change(Kind.ADDED, csi_node("n1", example=5)))
    with pytest.raises(PluginError, match="was not created for pod default/old"):
        reasons(NodeVolumeLimits(), user("a"), there)


def test_pods_with_the_same_volumes_wait_for_the_same_changes_unless_some_are_made_for_them() -> None:
    sign = NodeVolumeLimits().sign_for_hint
    assert sign(user("a", name="one")) == sign(user("a", name="two"))
    assert sign(user("a")) != sign(user("b"))
    assert sign(with_volumes(EPHEMERAL, name="one")) != sign(with_volumes(EPHEMERAL, name="two"))


# --- what is kept of nodes --------------------------------------------------------------------------------


def fits(there: Cache) -> bool:
    return reasons(NodeVolumeLimits(), user("a"), there) == {}


def change(kind: Kind, thing: Any) -> AnyChange:
    return Change(kind, thing, None if kind == Kind.ADDED else thing)


@pytest.mark.parametrize(
    ("at_first", "then"),
    [
        pytest.param([], user("b", name="new", on="n1"), id="a pod came"),
        pytest.param([], attachment("n1", "disk-b"), id="a volume was attached"),
        pytest.param([csi_node("n1", example=2)], csi_node("n1", example=0), id="the driver takes fewer"),
        pytest.param([user("late", name="old", on="n1")], claim("late", "disk-b"), id="a pod's claim came"),
        pytest.param(
            [user("late", name="old", on="n1"), claim("late", "late")],
            csi_volume("late"),
            id="a pod's volume came",
        ),
        pytest.param(
            [user("late", name="old", on="n1"), claim("late", storage_class="fast")],
            storage_class("fast"),
            id="the class of a pod's claim came",
        ),
        pytest.param([attachment("n1", "late")], csi_volume("late"), id="the volume of an attachment came"),
    ],
)
def test_what_is_known_of_a_node_holds_only_until_something_has_changed(
    at_first: list[Any], then: Any
) -> None:
    """There is room; then there is none; and when that is undone, there is room again."""
    there = cluster("n1 n2", *A, *B, csi_node("n1", example=1), *at_first)
    assert fits(there)
    before = [
        each for each in at_first if type(each) is type(then) and each.metadata.name == then.metadata.name
    ]
    there.apply(change(Kind.MODIFIED if before else Kind.ADDED, then))
    assert not fits(there)
    there.apply(change(Kind.MODIFIED, before[0]) if before else change(Kind.DELETED, then))
    assert fits(there)


def test_it_is_found_out_anew_after_more_changes_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.scheduling.storage.MAX_CHANGES", 2)
    there = cluster("n1", *A, *B, csi_node("n1", example=1))
    assert fits(there)
    for each in (attachment("n1", "disk-b"), csi_volume("x"), csi_volume("y")):
        there.apply(change(Kind.ADDED, each))
    assert not fits(there)


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        pytest.param(
            Change(Kind.DELETED, user("b", on="n1"), user("b", on="n1")), True, id="a pod with a claim went"
        ),
        pytest.param(
            Change(Kind.DELETED, with_volumes(EBS, on="n1"), with_volumes(EBS, on="n1")),
            True,
            id="one with a disk",
        ),
        pytest.param(
            Change(Kind.DELETED, pod("old", nodeName="n1"), pod("old", nodeName="n1")), False, id="another"
        ),
        pytest.param(
            Change(
                Kind.DELETED,
                with_volumes({"emptyDir": {}}, on="n1"),
                with_volumes({"emptyDir": {}}, on="n1"),
            ),
            False,
            id="one whose volumes aren't attached",
        ),
        pytest.param(change(Kind.DELETED, attachment("n1", "disk-b")), True, id="a volume was detached"),
        pytest.param(change(Kind.ADDED, attachment("n1", "disk-b")), False, id="a volume was attached"),
        pytest.param(change(Kind.ADDED, csi_node("n1", example=1)), True, id="a CSINode came"),
        pytest.param(
            Change(Kind.MODIFIED, csi_node("n1", example=2), csi_node("n1", example=1)),
            True,
            id="it takes more",
        ),
        pytest.param(
            Change(Kind.MODIFIED, csi_node("n1", example=1), csi_node("n1", example=2)),
            False,
            id="it takes fewer",
        ),
        pytest.param(
            Change(Kind.MODIFIED, csi_node("n1", example=None), csi_node("n1", example=2)),
            True,
            id="no limit now",
        ),
        pytest.param(
            Change(Kind.MODIFIED, csi_node("n1", example=2), csi_node("n1", example=None)),
            False,
            id="a limit now",
        ),
        pytest.param(change(Kind.MODIFIED, csi_node("n1", example=1)), False, id="it takes as many"),
        pytest.param(change(Kind.ADDED, claim("a")), True, id="its claim came"),
        pytest.param(change(Kind.ADDED, claim("b")), False, id="another claim came"),
    ],
)
def test_what_helps_a_pod_that_it_rejected(change: Any, helps: bool) -> None:
    assert NodeVolumeLimits().queueing_hint(user("a"), change) is helps


def test_only_a_detached_volume_of_the_same_driver_helps_a_pod_with_a_disk_of_its_own() -> None:
    hint = NodeVolumeLimits().queueing_hint
    assert hint(with_volumes(EBS), change(Kind.DELETED, attachment("n1", "disk-b", "ebs.csi.aws.com")))
    assert not hint(with_volumes(EBS), change(Kind.DELETED, attachment("n1", "disk-b")))
