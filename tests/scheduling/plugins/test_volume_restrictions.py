"""VolumeRestrictions: no pod gets a disk or a claim that another uses and that can't be shared."""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import reasons
from storage_objects import Json, claim, cluster, user, with_volumes

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.volume_binding import VolumeBinding
from lib.scheduling.plugins.volume_restrictions import VolumeRestrictions
from lib.scheduling.status import SKIP, Code, CycleState, PluginError, Status

TAKEN = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)


# --- disks that pods name themselves ----------------------------------------------------------------------


def gce(name: str = "disk", read_only: bool = False) -> Json:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(volume_id: str = "vol-1", read_only: bool = False) -> Json:
    return {"awsElasticBlockStore": {"volumeID": volume_id, "readOnly": read_only}}


def iscsi(iqn: str = "iqn.2001-04.com.example:disk", read_only: bool = False, lun: int = 0) -> Json:
    return {"iscsi": {"iqn": iqn, "readOnly": read_only, "lun": lun, "targetPortal": "10.0.0.1"}}


def rbd(monitors: str = "m1 m2", pool: str = "rbd", image: str = "disk", read_only: bool = False) -> Json:
    return {"rbd": {"monitors": monitors.split(), "pool": pool, "image": image, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        pytest.param(gce(), gce(), True, id="GCE: both write"),
        pytest.param(gce(read_only=True), gce(), True, id="GCE: the other writes"),
        pytest.param(gce(), gce(read_only=True), True, id="GCE: this one writes"),
        pytest.param(gce(read_only=True), gce(read_only=True), False, id="GCE: both only read"),
        pytest.param(gce(), gce("other"), False, id="GCE: another disk"),
        pytest.param(ebs(), ebs(), True, id="EBS: both write"),
        pytest.param(
            ebs(read_only=True), ebs(read_only=True), True, id="EBS: even who only reads has it alone"
        ),
        pytest.param(ebs(), ebs("vol-2"), False, id="EBS: another disk"),
        pytest.param(iscsi(), iscsi(), True, id="iSCSI: both write"),
        pytest.param(iscsi(), iscsi(lun=1), True, id="iSCSI: a target is one disk, whatever the lun"),
        pytest.param(iscsi(read_only=True), iscsi(), True, id="iSCSI: the other writes"),
        pytest.param(iscsi(read_only=True), iscsi(read_only=True), False, id="iSCSI: both only read"),
        pytest.param(iscsi(), iscsi("iqn.2001-04.com.example:other"), False, id="iSCSI: another target"),
        pytest.param(rbd(), rbd(), True, id="RBD: both write"),
        pytest.param(rbd("m1 m2"), rbd("m2 m3"), True, id="RBD: one monitor in common is enough"),
        pytest.param(rbd("m1"), rbd("m2"), False, id="RBD: no monitor in common is another cluster"),
        pytest.param(rbd(), rbd(pool="fast"), False, id="RBD: another pool"),
        pytest.param(rbd(), rbd(image="other"), False, id="RBD: another image"),
        pytest.param(rbd(read_only=True), rbd(), True, id="RBD: the other writes"),
        pytest.param(rbd(read_only=True), rbd(read_only=True), False, id="RBD: both only read"),
        pytest.param(gce("disk"), ebs("disk"), False, id="a disk of another kind with the same name"),
    ],
)
def test_two_pods_and_a_disk(wanted: Json, used: Json, conflict: bool) -> None:
    there = cluster("n1 n2", with_volumes(used, name="other", on="n1"))
    assert reasons(VolumeRestrictions(), with_volumes(wanted), there) == ({"n1": [TAKEN]} if conflict else {})


def test_each_disk_is_compared_with_each_disk_of_all_pods_there() -> None:
    others = [
        with_volumes(gce("a"), ebs("vol-7"), name="one", on="n1"),
        with_volumes({"emptyDir": {}}, iscsi(), name="two", on="n2"),
    ]
    there = cluster("n1 n2 n3", *others)
    web = with_volumes({"emptyDir": {}}, rbd(), ebs("vol-7"), iscsi())
    assert reasons(VolumeRestrictions(), web, there) == {"n1": [TAKEN], "n2": [TAKEN]}


def test_a_disk_is_taken_in_every_namespace() -> None:
    other = with_volumes(ebs(), name="other", on="n1")
    other.metadata.namespace = "theirs"
    assert reasons(VolumeRestrictions(), with_volumes(ebs()), cluster("n1", other)) == {"n1": [TAKEN]}


@pytest.mark.parametrize(
    "web",
    [
        pytest.param(pod("web"), id="without volumes"),
        pytest.param(with_volumes({"emptyDir": {}}), id="with a directory"),
        pytest.param(with_volumes({"cinder": {"volumeID": "1"}}), id="with a disk that isn't looked at"),
    ],
)
def test_pods_that_it_has_nothing_to_do_with(web: Pod) -> None:
    assert VolumeRestrictions().pre_filter({}, web, cluster("n1")) == SKIP


# --- claims for one pod alone -----------------------------------------------------------------------------


def alone(name: str) -> Any:
    return claim(name, accessModes=["ReadWriteOncePod"])


@pytest.mark.parametrize(
    ("wanted", "others", "in_use"),
    [
        pytest.param("one", [], False, id="nobody uses it"),
        pytest.param("one", [user("one", name="other", on="n1")], True, id="a pod uses it: no node will do"),
        pytest.param(
            "shared", [user("shared", name="other", on="n1")], False, id="a claim that may be shared"
        ),
        pytest.param("one", [user("two", name="other", on="n1")], False, id="a pod uses another one"),
        pytest.param("one two", [user("two", name="other", on="n1")], True, id="one of two is in use"),
        pytest.param("one", [user("one", name="other", on="gone")], False, id="of a node that isn't there"),
    ],
)
def test_a_claim_for_one_pod_alone(wanted: str, others: list[Pod], in_use: bool) -> None:
    there = cluster("n1 n2", alone("one"), alone("two"), claim("shared"), *others)
    expected = {"n1": [IN_USE], "n2": [IN_USE]} if in_use else {}
    assert reasons(VolumeRestrictions(), user(*wanted.split()), there) == expected


def test_a_claim_of_the_same_name_in_another_namespace_is_another_one() -> None:
    other = user("one", name="other", on="n1")
    other.metadata.namespace = "theirs"
    assert reasons(VolumeRestrictions(), user("one"), cluster("n1", alone("one"), other)) == {}


def test_a_disk_is_told_of_before_a_claim() -> None:
    web = with_volumes(ebs(), {"persistentVolumeClaim": {"claimName": "one"}})
    there = cluster(
        "n1 n2", alone("one"), with_volumes(ebs(), name="a", on="n1"), user("one", name="b", on="n2")
    )
    assert reasons(VolumeRestrictions(), web, there) == {"n1": [TAKEN], "n2": [IN_USE]}


def test_a_claim_that_is_not_there() -> None:
    found = VolumeRestrictions().pre_filter({}, user("one"), cluster("n1"))
    assert found == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ('persistentvolumeclaim "one" not found',))


def is_in_use(there: Cache) -> bool:
    return VolumeRestrictions().pre_filter(CycleState(), user("one"), there) != SKIP


def test_it_is_free_again_when_the_pod_has_gone() -> None:
    other = user("one", name="other", on="n1")
    there = cluster("n1 n2", alone("one"))
    assert not is_in_use(there)
    there.apply(Change(Kind.ADDED, other))
    assert is_in_use(there)
    there.apply(Change(Kind.ADDED, node("n3")))  # whoever counts pods begins anew
    assert is_in_use(there)
    there.apply(Change(Kind.DELETED, other, other))
    assert not is_in_use(there)


@pytest.mark.parametrize(
    ("users", "removed", "in_use"),
    [
        pytest.param(["a"], [], True, id="nobody is removed"),
        pytest.param(["a"], ["a"], False, id="the pod that has it is removed"),
        pytest.param(["a", "b"], ["b"], False, id="one of two: there should be one, so that is enough"),
        pytest.param(["a"], ["bystander"], True, id="another pod is removed"),
    ],
)
def test_as_preemption_tries_it(users: list[str], removed: list[str], in_use: bool) -> None:
    pods = {name: user("one", name=name, on="n1") for name in users}
    pods["bystander"] = pod("bystander", nodeName="n1")
    there = cluster("n1", alone("one"), *pods.values())
    with there.without([pods[name] for name in removed]):
        assert is_in_use(there) is in_use
    assert is_in_use(there)  # they are back


@pytest.mark.parametrize(
    ("web", "change", "helps"),
    [
        pytest.param(user("one"), Change(Kind.ADDED, alone("one")), True, id="its claim came"),
        pytest.param(user("one"), Change(Kind.ADDED, alone("two")), False, id="another claim came"),
        pytest.param(user("one"), Change(Kind.MODIFIED, alone("one"), alone("one")), False, id="it changed"),
        pytest.param(user("one"), Change(Kind.ADDED, node("n2")), True, id="a node came"),
        pytest.param(user("one"), Change(Kind.MODIFIED, node("n2"), node("n2")), False, id="a node changed"),
        pytest.param(user("one"), user("one", name="old", on="n1"), True, id="who used its claim went"),
        pytest.param(user("one"), user("two", name="old", on="n1"), False, id="who used another one went"),
        pytest.param(
            with_volumes(ebs()), with_volumes(ebs(), name="old", on="n1"), True, id="its disk is free"
        ),
        pytest.param(
            with_volumes(gce(read_only=True)),
            with_volumes(gce(read_only=True), name="old", on="n1"),
            False,
            id="they could have shared it",
        ),
    ],
)
def test_what_helps_a_pod_that_it_rejected(web: Pod, change: Any, helps: bool) -> None:
    """A pod stands for its deletion."""
    change = Change(Kind.DELETED, change, change) if isinstance(change, Pod) else change
    assert VolumeRestrictions().queueing_hint(web, change) is helps


@pytest.mark.parametrize("plugin", [VolumeRestrictions(), VolumeBinding()])
def test_only_a_pod_with_claims_fails_while_claims_cannot_be_read(plugin: Any) -> None:
    unseen = Cache([node("n1")], looked_up=LookedUp(storage_unseen="claims can't be read"))
    with pytest.raises(PluginError, match="claims can't be read"):
        plugin.pre_filter({}, user("data"), unseen)
    for volumes in ([], [{"name": "scratch", "emptyDir": {}}]):
        assert plugin.pre_filter({}, pod(volumes=volumes), unseen) == SKIP
