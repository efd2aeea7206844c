"""Discovery: the version, groups and resources; also aggregated, as kubectl requests them."""

import platform
from itertools import groupby
from typing import Any

from .resources import RESOURCES, Resource, Subresource

Object = dict[str, Any]

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",  # of the kube-apiserver that this one is compared with
    "gitCommit": "minicluster",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": f"python {platform.python_version()}",
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def core_versions(server_address: str) -> Object:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups() -> Object:
    names = dict.fromkeys(resource.group for resource in RESOURCES if resource.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group(name: str) -> Object | None:
    found = name and any(resource.group == name for resource in RESOURCES)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)} if found else None


def resource_list(group_version: str) -> Object | None:
    found = [resource for resource in RESOURCES if resource.group_version == group_version]
    if not found:
        return None
    described = [entry for resource in found for entry in _entries(resource)]
    version = {"apiVersion": "v1"} if "/" in group_version else {}  # the core list is older than that field
    return {"kind": "APIResourceList", **version, "groupVersion": group_version, "resources": described}


def aggregated(core: bool) -> Object:
    """All resources of all groups at once, as kubectl asks for them (KEP-3352)."""
    items = []
    for name, of_group in groupby(RESOURCES, key=lambda resource: resource.group):
        if (not name) == core:
            versions = [
                {
                    "version": version,
                    "resources": [*map(_aggregated_entry, resources)],
                    "freshness": "Current",
                }
                for version, resources in groupby(of_group, key=lambda resource: resource.version)
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _group(name: str) -> Object:
    versions = dict.fromkeys(resource.version for resource in RESOURCES if resource.group == name)
    described = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": described, "preferredVersion": described[0]}


def _entries(resource: Resource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if "get" in resource.verbs:
        entry["storageVersionHash"] = resource.storage_version_hash
    return [entry, *(_sub_entry(resource, sub) for sub in resource.subresources)]


def _sub_entry(resource: Resource, sub: Subresource) -> Object:
    name, _, version = sub.group_version.rpartition("/")
    return {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **({"group": name, "version": version} if sub.group_version else {}),
        "kind": sub.kind or resource.kind,
        "verbs": list(sub.verbs),
    }


def _aggregated_entry(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [_aggregated_sub(resource, sub) for sub in resource.subresources]
    return entry


def _aggregated_sub(resource: Resource, sub: Subresource) -> Object:
    name, _, version = sub.group_version.rpartition("/")
    kind = {"group": name, "version": version, "kind": sub.kind or resource.kind}
    return {"subresource": sub.name, "responseKind": kind, "verbs": list(sub.verbs)}


def _names(resource: Resource) -> Object:
    names: Object = {}
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return names
