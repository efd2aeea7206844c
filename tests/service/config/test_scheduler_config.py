"""poller makes of a configuration what kube-scheduler 1.36 made of it, and refuses what that refused.

The files are examples of Kubernetes' documentation, cases of the rules of merging, wrong ones, and ones made
at random. What kube-scheduler has that poller hasn't is left out of the comparison.
"""

import gzip
import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from all_cases import check_each
from configs import load_config

from lib.kube.api import Api
from lib.scheduling.framework.interface import EXTENSION_POINTS, Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.pod_topology_spread import SYSTEM_DEFAULTS
from lib.scheduling.plugins.registry import LACKING
from lib.service.config import ConfigError
from lib.service.config.file import KubeSchedulerConfiguration
from lib.service.config.profile_builder import PREPARED_AT
from lib.service.http_extender import connected
from lib.service.served_profiles import Asked, profiles_for

LINES = gzip.decompress((Path(__file__).parents[2] / "data" / "scheduler-config-1.36.jsonl.gz").read_bytes())
CASES: list[dict[str, Any]] = [json.loads(line) for line in LINES.splitlines()]
STRICTER = "poller is stricter"
WRONG = [case for case in CASES if "error" in case["answer"] or STRICTER in case["about"]]
GOOD = [case for case in CASES if case not in WRONG]

NOWHERE = Api("http://127.0.0.1:1", threading.Event())

ONLY_THERE = {("preEnqueue", "DefaultPreemption")}
"""There a pod is kept out of the queue while its victims are being deleted; poller deletes them at once."""
ONLY_HERE = {("preScore", "ImageLocality"), ("preScore", "DynamicResources")}


def read(folder: Path, case: dict[str, Any]) -> tuple[KubeSchedulerConfiguration, list[Profile]]:
    """What poller makes of a file."""
    file = folder / "scheduler.yaml"
    file.write_text(case["config"])
    config = load_config(file)
    # Without profiles, kube-scheduler serves one.
    asked = Asked() if config.profiles else Asked("default-scheduler")
    with connected(config.extenders, NOWHERE, print) as extenders:
        return config, profiles_for(config, asked, Handle(extenders=extenders))


def named(cases: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(case["about"], case) for case in cases]


def test_there_are_as_many_as_were_recorded() -> None:
    assert (len(GOOD), len(WRONG)) == (93, 131)


@pytest.mark.parametrize("part", range(2))
def test_poller_serves_the_same(tmp_path: Path, part: int) -> None:
    check_each(named(GOOD[part::2]), partial(serves_alike, tmp_path))


def serves_alike(folder: Path, case: dict[str, Any]) -> None:
    config, profiles = read(folder, case)
    answer = case["answer"]
    for profile, theirs in zip(profiles, answer["profiles"], strict=True):
        assert profile.scheduler_name == theirs["schedulerName"]
        own, common = theirs["percentageOfNodesToScore"], answer["percentageOfNodesToScore"]
        assert profile.percentage_of_nodes_to_score == (common if own is None else own)
        for point, found in theirs["points"].items():
            compare_point(profile, point, [each[0] if point == "score" else each for each in found])
        weights = dict(theirs["points"]["score"])
        assert all(profile.weights[name] == weights[name] for name in asked(profile, "score"))
        for plugin in profile.plugins:
            if hasattr(plugin, "args"):
                assert arguments(plugin) == canonical(plugin.name, theirs["args"][plugin.name])
    assert (config.pod_initial_backoff_seconds or 1) == answer["podInitialBackoffSeconds"]
    assert (config.pod_max_backoff_seconds or 10) == answer["podMaxBackoffSeconds"]
    ours, elected = config.leader_election, answer["leaderElection"]
    assert ours.leader_elect in (None, elected["leaderElect"])
    assert ours.lease_duration is None or f"{ours.lease_duration:g}s" == elected["leaseDuration"]
    assert ours.resource_name in (None, elected["resourceName"])


@pytest.mark.parametrize("part", range(3))
def test_what_kube_scheduler_refuses_poller_refuses(tmp_path: Path, part: int) -> None:
    check_each(named(WRONG[part::3]), partial(refuses, tmp_path))


def refuses(folder: Path, case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        read(folder, case)
    assert all(": " in problem for problem in error.value.problems)  # where, and what


# --- comparing --------------------------------------------------------------------------------------------


def compare_point(profile: Profile, point: str, names: list[str]) -> None:
    theirs = [name for name in names if name not in LACKING and (point, name) not in ONLY_THERE]
    ours = [name for name in asked(profile, point) if (point, name) not in ONLY_HERE | ONLY_THERE]
    assert ours[: len(theirs)] == theirs
    # Disabled where it prepares what it is asked elsewhere, a plugin is asked all the same.
    after = [later for later, before in PREPARED_AT.items() if before == point]
    assert set(ours[len(theirs) :]) <= {name for later in after for name in asked(profile, later)}


def asked(profile: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in profile.with_point(*EXTENSION_POINTS[point])]


def arguments(plugin: Any) -> dict[str, Any]:
    """What a plugin is told, as kube-scheduler has it."""
    if plugin.name == "DefaultPreemption":
        return {
            "minCandidateNodesPercentage": plugin.min_candidate_nodes_percentage,
            "minCandidateNodesAbsolute": plugin.min_candidate_nodes_absolute,
        }
    if plugin.name == "InterPodAffinity":
        return {
            "hardPodAffinityWeight": plugin.hard_pod_affinity_weight,
            "ignorePreferredTermsOfExistingPods": plugin.ignore_preferred_terms_of_existing_pods,
        }
    if plugin.name == "NodeAffinity":
        added = plugin.added_affinity
        return {"addedAffinity": json.loads(msgspec.json.encode(added))} if added else {}
    if plugin.name == "NodeResourcesBalancedAllocation":
        return {"resources": dict(plugin.resources)}
    if plugin.name == "PodTopologySpread":
        if plugin.default_constraints is SYSTEM_DEFAULTS:
            return {"defaultingType": "System"}
        constraints = [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} | msgspec.to_builtins(each)
            for each in plugin.default_constraints
        ]
        return {"defaultingType": "List"} | ({"defaultConstraints": constraints} if constraints else {})
    if plugin.name == "VolumeBinding":
        return {"bindTimeoutSeconds": plugin.bind_timeout_seconds}
    if plugin.name == "DynamicResources":
        return {"bindingTimeout": plugin.binding_timeout, "filterTimeout": plugin.filter_timeout}
    assert plugin.name == "NodeResourcesFit"
    told = {"type": plugin.strategy, "resources": dict(plugin.resources)}
    if plugin.strategy == "RequestedToCapacityRatio":
        told["requestedToCapacityRatio"] = {
            "shape": [{"utilization": at, "score": score} for at, score in plugin.shape]
        }
    ignored = {
        "ignoredResources": sorted(plugin.ignored),
        "ignoredResourceGroups": sorted(plugin.ignored_resource_groups),
    }
    return {key: names for key, names in ignored.items() if names} | {"scoringStrategy": told}


def canonical(name: str, theirs: dict[str, Any]) -> dict[str, Any]:
    """kube-scheduler's arguments, with resources by name, and without what makes no difference."""
    theirs = {key: value for key, value in theirs.items() if key not in ("apiVersion", "kind")}
    if name == "NodeResourcesBalancedAllocation":
        return {"resources": by_name(theirs["resources"])}
    if name == "DynamicResources":
        return {key: seconds(text) for key, text in theirs.items()}
    if name == "NodeResourcesFit":
        strategy = theirs["scoringStrategy"]
        return theirs | {"scoringStrategy": strategy | {"resources": by_name(strategy["resources"])}}
    preferred = theirs.get("addedAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution", [])
    for term in [each for each in preferred if each["weight"] == 0]:
        preferred.remove(term)
    return theirs


def seconds(text: str) -> float:
    """A duration such as 10m0s."""
    minutes, _, rest = text.rpartition("m")
    return 60 * int(minutes or 0) + float(rest.removesuffix("s"))


def by_name(resources: list[dict[str, Any]]) -> dict[str, int]:
    """A resource that is given twice counts with both weights."""
    return {
        name: sum(each["weight"] for each in resources if each["name"] == name)
        for name in {each["name"] for each in resources}
    }
