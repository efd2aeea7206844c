"""Translates in-tree volumes, such as cloud disks, to volumes of the CSI drivers that replace their plugins.

Source: k8s.io/csi-translation-lib, and pkg/scheduler/framework/plugins/nodevolumelimits/utils.go
"""

from dataclasses import dataclass

import msgspec

from lib.kube.objects import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    SEVERAL_ZONES,
    ZONE,
    InTreeSources,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    with_parts,
)
from lib.kube.storage import (
    MIGRATED_PLUGINS,
    CSINode,
    CSIPersistentVolumeSource,
    PersistentVolume,
    VolumeNodeAffinity,
)


@dataclass(frozen=True)
class InTreePlugin:
    """An in-tree plugin, the CSI driver that replaces it, and that driver's label for zones."""

    name: str
    driver: str
    zone_key: str = ""


GCE_PD = InTreePlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
AWS_EBS = InTreePlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone")
AZURE_DISK = InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com")
CINDER = InTreePlugin(
    "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
)
PORTWORX = InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com")

PLUGINS = {plugin.name: plugin for plugin in (GCE_PD, AWS_EBS, AZURE_DISK, CINDER, PORTWORX)}


class TranslationError(Exception):
    """A volume can't be translated to a CSI volume. The text says why."""


def plugin_of(source: InTreeSources) -> InTreePlugin | None:
    """The in-tree plugin of a volume; None if it has none."""
    if source.gce_persistent_disk:
        return GCE_PD
    if source.aws_elastic_block_store:
        return AWS_EBS
    if source.azure_disk:
        return AZURE_DISK
    if source.cinder:
        return CINDER
    return PORTWORX if source.portworx_volume else None


def volume_handle(source: InTreeSources, zones: str = "") -> str:
    """The CSI driver's name for the disk. zones: the label's value; TranslationError if it is invalid."""
    if source.gce_persistent_disk:
        where = "zones/UNSPECIFIED"
        if zones:
            names = zones.split(SEVERAL_ZONES)
            where = f"zones/{zones}" if len(names) == 1 else f"regions/{_region(names)}"
        return f"projects/UNSPECIFIED/{where}/disks/{source.gce_persistent_disk.pd_name}"
    if source.aws_elastic_block_store:
        return source.aws_elastic_block_store.volume_id.rpartition("/")[2]  # aws://zone/id, or the id alone
    if source.azure_disk:
        return source.azure_disk.disk_uri
    if source.cinder:
        return source.cinder.volume_id
    return source.portworx_volume.volume_id if source.portworx_volume else ""


def _region(zones: list[str]) -> str:
    """The common region of all zones."""
    for zone in zones:
        if len(zone.split("-")) != 3:
            expected = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: " + zone
            raise TranslationError(f"failed to get region from zones: {expected}")
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1:
        got = " ".join(f"{region}:{{}}" for region in sorted(regions))
        several = f"multiple or no regions gotten from zones, got: map[{got}]"
        raise TranslationError(f"failed to get region from zones: {several}")
    return regions.pop()


def is_migrated(plugin: InTreePlugin, csi_node: CSINode | None) -> bool:
    """Whether a node says that a CSI driver replaces a plugin there."""
    said = csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "") if csi_node else ""
    return plugin.name in said.split(",")


def as_csi(volume: PersistentVolume) -> PersistentVolume:
    """A volume as one of the CSI driver that replaces its plugin. TranslationError when that is impossible.

    Zones in its node affinity, or else in its labels, get the driver's label.
    """
    plugin = plugin_of(volume.spec)
    if plugin is None:
        return volume
    labels = volume.metadata.labels
    handle = volume_handle(volume.spec, labels.get(BETA_ZONE) or labels.get(ZONE, ""))
    changed = {
        **dict.fromkeys(InTreeSources.__struct_fields__),
        "csi": CSIPersistentVolumeSource(plugin.driver, handle),
        "node_affinity": _translated(volume, plugin.zone_key)
        if plugin.zone_key
        else volume.spec.node_affinity,
    }
    return with_parts(volume, spec=changed)


def _translated(volume: PersistentVolume, zone_key: str) -> VolumeNodeAffinity | None:
    """The node affinity, in the driver's terms (in_tree_volume.go, translateTopologyFromInTreeToCSI)."""
    terms = volume.required_nodes.node_selector_terms if volume.required_nodes else ()
    labels = volume.metadata.labels
    keys = {expression.key for term in terms for expression in term.match_expressions}
    beta = ZONE not in keys and (BETA_ZONE in keys or (ZONE not in labels and BETA_ZONE in labels))
    zone = BETA_ZONE if beta else ZONE
    if any(
        expression.values for term in terms for expression in term.match_expressions if expression.key == zone
    ):
        terms = tuple(_renamed(term, zone, zone_key) for term in terms)
    elif zones := {name.strip() for name in labels.get(zone, "").split(SEVERAL_ZONES)} - {""}:
        inside = Requirement(zone_key, "In", tuple(sorted(zones)))
        terms = tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, inside))
            for term in terms or (NodeSelectorTerm(),)
        )
    if beta:
        terms = tuple(_renamed(term, BETA_REGION, REGION) for term in terms)
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else volume.spec.node_affinity


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    """A term in which one key is replaced by another."""
    expressions = tuple(
        msgspec.structs.replace(expression, key=new) if expression.key == old else expression
        for expression in term.match_expressions
    )
    return msgspec.structs.replace(term, match_expressions=expressions)
