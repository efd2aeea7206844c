"""DynamicResources: when a pod is tried. How devices are given: tests/scheduling/devices."""

from typing import Any

import pytest
from objects import node, pod, read

from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import PodResourceClaimStatus, with_parts
from lib.scheduling.cache import Cache
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.status import SKIP, PluginError

USES = [{"name": "gpu", "resourceClaimName": "train"}]


@pytest.mark.parametrize(
    "needs", [{"resourceClaims": USES}, {"requests": {"example.com/gpu": "1"}}], ids=["claim", "resource"]
)
def test_no_devices_are_given_while_it_cannot_be_read_who_has_them(needs: dict[str, object]) -> None:
    cluster = Cache([node()], looked_up=LookedUp(devices_unseen="devices can't be read: 403"))
    spec = {"extendedResourceName": "example.com/gpu"}
    cluster.devices.put(read(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec}))
    with pytest.raises(PluginError, match="devices can't be read: 403"):
        DynamicResources().pre_filter({}, pod(**needs), cluster)
    assert DynamicResources().pre_filter({}, pod(requests={"cpu": "1"}), cluster) == SKIP


CLASS = read(DeviceClass, {"metadata": {"name": "gpu"}})
SLICE = read(ResourceSlice, {"metadata": {"name": "of-n1"}, "spec": {"driver": "d", "pool": {"name": "n1"}}})


def claim(name: str, owner: str = "", *, given: bool = False, **metadata: Any) -> ResourceClaim:
    """A ResourceClaim; owner: the uid of the pod that it was made for. given: whether it has devices."""
    owners = [{"kind": "Pod", "name": "web", "uid": owner, "controller": True}] if owner else []
    body = {
        "metadata": {"namespace": "default", "name": name, "ownerReferences": owners, **metadata},
        "status": {"allocation": {}} if given else {},
    }
    found: ResourceClaim = read(ResourceClaim, body)
    return found


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        pytest.param(Change(Kind.ADDED, CLASS), True, id="a class came"),
        pytest.param(Change(Kind.MODIFIED, CLASS, CLASS), True, id="a class has changed"),
        pytest.param(Change(Kind.DELETED, CLASS, CLASS), False, id="a class went"),
        pytest.param(Change(Kind.ADDED, SLICE), True, id="devices came"),
        pytest.param(Change(Kind.DELETED, SLICE, SLICE), False, id="devices went"),
        pytest.param(Change(Kind.ADDED, claim("train")), True, id="its claim came"),
        pytest.param(
            Change(Kind.ADDED, claim("made", "uid-of-web")), True, id="a claim that was made for it came"
        ),
        pytest.param(Change(Kind.ADDED, claim("other")), False, id="another claim came"),
        pytest.param(
            Change(Kind.ADDED, claim("train", namespace="other")), False, id="one of another namespace"
        ),
        pytest.param(
            Change(Kind.MODIFIED, claim("train", given=True), claim("train")),
            True,
            id="its claim got devices",
        ),
        pytest.param(
            Change(Kind.MODIFIED, claim("train", labels={"a": "b"}), claim("train")),
            False,
            id="its claim got a label",
        ),
        pytest.param(Change(Kind.DELETED, claim("train"), claim("train")), False, id="its claim went"),
        pytest.param(
            Change(Kind.MODIFIED, claim("other", given=True), claim("other")), False, id="another got devices"
        ),
        pytest.param(
            Change(Kind.MODIFIED, claim("other"), claim("other", given=True)),
            True,
            id="another gave its devices back",
        ),
        pytest.param(
            Change(Kind.MODIFIED, claim("other", given=True), claim("other", given=True)),
            False,
            id="another kept its devices",
        ),
        pytest.param(
            Change(Kind.DELETED, claim("other", given=True), claim("other", given=True)),
            True,
            id="another went with its devices",
        ),
        pytest.param(Change(Kind.DELETED, claim("other"), claim("other")), False, id="another went"),
    ],
)
def test_what_helps_a_pod_that_it_rejected(change: Any, helps: bool) -> None:
    assert DynamicResources().queueing_hint(pod(resourceClaims=USES), change) is helps


MADE = [{"name": "gpu", "resourceClaimTemplateName": "of-gpu"}]
NAMED = [PodResourceClaimStatus("gpu", "made")]
NONE_NEEDED = [PodResourceClaimStatus("gpu")]


@pytest.mark.parametrize(
    ("uses", "made", "claims", "why"),
    [
        pytest.param(USES, [], [], 'could not find ResourceClaim "default/train"', id="it isn't there"),
        pytest.param(
            USES,
            [],
            [claim("train", deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "train" is being deleted',
            id="it is being deleted",
        ),
        pytest.param(USES, [], [claim("train")], "", id="it is there"),
        pytest.param(
            MADE, [], [], 'pod "default/web": ResourceClaim not created yet', id="it isn't made yet"
        ),
        pytest.param(
            MADE,
            NAMED,
            [claim("made", "another")],
            "ResourceClaim default/made was not created for Pod default/web (Pod is not owner)",
            id="it was made for another pod",
        ),
        pytest.param(MADE, NAMED, [claim("made", "uid-of-web")], "", id="it was made for the pod"),
        pytest.param(MADE, NONE_NEEDED, [], "", id="none is needed after all"),
        pytest.param(
            [{"name": "gpu"}],
            [],
            [],
            'pod "default/web", spec.resourceClaim "gpu": none of the supported fields are set',
            id="neither a claim nor a template",
        ),
    ],
)
def test_a_pod_is_tried_when_its_claims_are_there(uses: Any, made: Any, claims: Any, why: str) -> None:
    cluster = Cache([node()])
    cluster.knows_claims = True
    for each in claims:
        cluster.devices.put(each)
    web = with_parts(pod(resourceClaims=uses), status={"resource_claim_statuses": made})
    rejection = DynamicResources(handle=Handle(cache=cluster)).pre_enqueue(web)
    assert (rejection.reasons if rejection else ("",)) == (why,)
