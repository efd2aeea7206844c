"""In-tree volumes as volumes of the CSI drivers that replace their plugins (csi-translation-lib)."""

from typing import Any

import pytest
from objects import read

from lib.kube.storage import PersistentVolume
from lib.scheduling.explaining.term_texts import term_text
from lib.scheduling.volumes.in_tree import TranslationError, as_csi

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = (f"failure-domain.beta.kubernetes.io/{name}" for name in ("zone", "region"))

EBS: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GCE: dict[str, Any] = {"gcePersistentDisk": {"pdName": "pd"}}
PORTWORX: dict[str, Any] = {"portworxVolume": {"volumeID": "px-1"}}
EBS_ZONE, GCE_ZONE = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"


def volume(source: Any, labels: Any = None, *terms: Any) -> PersistentVolume:
    """A volume; terms: of its node affinity, each as a dict of a label's values."""
    spec = dict(source)
    if terms:
        selector = [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": values} for key, values in term.items()
                ]
            }
            for term in terms
        ]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": selector}}
    found: PersistentVolume = read(
        PersistentVolume, {"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}
    )
    return found


@pytest.mark.parametrize(
    ("before", "driver", "handle"),
    [
        (volume(EBS), "ebs.csi.aws.com", "vol-1"),
        (volume({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}}), "ebs.csi.aws.com", "vol-1"),
        (volume(GCE), "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd"),
        (
            volume(GCE, {ZONE: "eu-1-a"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/eu-1-a/disks/pd",
        ),
        (
            volume(GCE, {BETA_ZONE: "eu-1-a__eu-1-b"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/eu-1/disks/pd",
        ),
        (volume({"azureDisk": {"diskName": "d", "diskURI": "/a/d"}}), "disk.csi.azure.com", "/a/d"),
        (volume({"cinder": {"volumeID": "c-1"}}), "cinder.csi.openstack.org", "c-1"),
        (volume(PORTWORX), "pxd.portworx.com", "px-1"),
    ],
)
def test_an_in_tree_disk_is_a_volume_of_a_driver(before: PersistentVolume, driver: str, handle: str) -> None:
    after = as_csi(before)
    assert after.spec.csi
    assert (after.spec.csi.driver, after.spec.csi.volume_handle) == (driver, handle)
    assert after.metadata is before.metadata


@pytest.mark.parametrize(
    ("zones", "why"),
    [
        ("a__b", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: a"),
        ("eu-1-a__eu-2-a", "multiple or no regions gotten from zones, got: map[eu-1:{} eu-2:{}]"),
    ],
)
def test_a_disk_of_zones_without_a_common_region_is_none(zones: str, why: str) -> None:
    with pytest.raises(TranslationError) as error:
        as_csi(volume(GCE, {ZONE: zones}))
    assert str(error.value) == f"failed to get region from zones: {why}"


@pytest.mark.parametrize(
    ("before", "terms"),
    [
        pytest.param(volume(EBS), [], id="anywhere"),
        pytest.param(volume(EBS, {ZONE: "a"}), [f"{EBS_ZONE} In [a]"], id="a label"),
        pytest.param(volume(EBS, {BETA_ZONE: "a"}), [f"{EBS_ZONE} In [a]"], id="a beta label"),
        pytest.param(
            volume(GCE, {ZONE: "eu-1-b__eu-1-a"}), [f"{GCE_ZONE} In [eu-1-a, eu-1-b]"], id="two zones"
        ),
        pytest.param(volume(EBS, {}, {ZONE: ["a"]}), [f"{EBS_ZONE} In [a]"], id="a node affinity"),
        pytest.param(
            volume(EBS, {ZONE: "b"}, {ZONE: ["a"]}), [f"{EBS_ZONE} In [a]"], id="the affinity counts more"
        ),
        pytest.param(
            volume(EBS, {ZONE: "a"}, {"rack": ["1"]}),
            [f"rack In [1] and {EBS_ZONE} In [a]"],
            id="a label, and an affinity to something else",
        ),
        pytest.param(
            volume(EBS, {}, {BETA_ZONE: ["a"], BETA_REGION: ["eu"]}),
            [f"{EBS_ZONE} In [a] and {REGION} In [eu]"],
            id="a beta region",
        ),
        pytest.param(
            volume(EBS, {BETA_ZONE: "b"}, {ZONE: ["a"], BETA_REGION: ["eu"]}),
            [f"{EBS_ZONE} In [a] and {BETA_REGION} In [eu]"],
            id="the zone isn't beta",
        ),
        pytest.param(
            volume(EBS, {}, {ZONE: ["a"]}, {ZONE: ["b"], "rack": ["1"]}),
            [f"{EBS_ZONE} In [a]", f"{EBS_ZONE} In [b] and rack In [1]"],
            id="two terms",
        ),
        pytest.param(volume(PORTWORX, {}, {ZONE: ["a"]}), [f"{ZONE} In [a]"], id="a driver without zones"),
    ],
)
def test_the_driver_has_its_own_label_for_zones(before: PersistentVolume, terms: list[str]) -> None:
    required = as_csi(before).required_nodes
    assert [*map(term_text, required.node_selector_terms if required else ())] == terms
