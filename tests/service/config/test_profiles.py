"""Profiles of a configuration file, where poller has rules of its own: policies, names, what it lacks."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from cluster import Cluster as RunningCluster
from configs import load_config
from objects import node, pod, read

from lib.kube.objects import Pod, Service
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.framework.interface import EXTENSION_POINTS, Profile
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_life import BackoffSettings
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.workloads import Workloads
from lib.service.config import ConfigError
from lib.service.options import Options, run_with_options
from lib.service.policies import load_policies
from lib.service.served_profiles import Asked, profiles_for
from scripts.servers.process import ROOT

ON_ONE_SERVER = True

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
MINE = "WEIGHT = 3\ndef filter(pod, node): return True\ndef score(pod, node): return 1\n"
BINDER = "class Binder:\n    def bind(self, state, pod, node_name): return None\n"


def write(folder: Path, *profiles: Any, **rest: Any) -> Path:
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump({**HEAD, "profiles": list(profiles), **rest}))
    return file


def served(folder: Path, *profiles: Any, policy: str = "", **asked: Any) -> list[Profile]:
    """What is served by a file with these profiles, with a policy of this source."""
    if policy:
        (folder / "mine.py").write_text(policy)
        asked["policies"] = tuple(load_policies([folder / "mine.py"]))
    return profiles_for(load_config(write(folder, *profiles)), Asked(**asked), Handle(Random(1)))


def refused(folder: Path, *profiles: Any, **asked: Any) -> str:
    with pytest.raises(ConfigError) as error:
        served(folder, *profiles, **asked)
    return "\n".join(error.value.problems)


def at(profile: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in profile.with_point(*EXTENSION_POINTS[point])]


def enabling(*names: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names]}


def disabling(*names: str) -> dict[str, Any]:
    return {"disabled": [{"name": name} for name in names]}


# --- policies ---------------------------------------------------------------------------------------------


def test_a_policy_joins_the_default_plugins_of_every_profile(tmp_path: Path) -> None:
    for profile in served(tmp_path, {"schedulerName": "a"}, {"schedulerName": "b"}, policy=MINE):
        assert at(profile, "filter")[-1] == at(profile, "score")[-1] == "mine"
        assert profile.weights["mine"] == 3


@pytest.mark.parametrize(
    ("plugins", "filters", "scores", "weight"),
    [
        ({"multiPoint": disabling("mine")}, False, [], None),
        ({"score": disabling("mine")}, True, [], None),
        ({"score": disabling("*")}, True, [], None),
        ({"filter": disabling("mine")}, False, ["TaintToleration"], 3),
        ({"score": enabling("mine")}, True, ["mine"], 1),  # named, it has the weight that is given there
        ({"score": {"enabled": [{"name": "mine", "weight": 7}]}}, True, ["mine"], 7),
        (
            {"score": {**enabling("mine", "ImageLocality"), **disabling("*")}},
            True,
            ["mine", "ImageLocality"],
            1,
        ),
    ],
)
def test_a_policy_is_disabled_or_moved_by_its_name(
    tmp_path: Path, plugins: Any, filters: bool, scores: list[str], weight: int | None
) -> None:
    (profile,) = served(tmp_path, {"plugins": plugins}, policy=MINE)
    assert ("mine" in at(profile, "filter")) == filters
    assert at(profile, "score")[: len(scores)] == scores
    assert profile.weights.get("mine") == weight


def test_a_policy_that_binds_is_asked_before_the_default_binder(tmp_path: Path) -> None:
    (profile,) = served(tmp_path, {}, policy=BINDER)
    assert at(profile, "bind") == ["Binder", "DefaultBinder"]
    (profile,) = served(tmp_path, {"plugins": {"bind": disabling("DefaultBinder")}}, policy=BINDER)
    assert at(profile, "bind") == ["Binder"]


def test_plugins_that_only_poller_has_may_be_named(tmp_path: Path) -> None:
    score = {"score": {**disabling("*"), **enabling("Random")}, "multiPoint": enabling("NodeNumber")}
    (profile,) = served(tmp_path, {"plugins": score})
    assert at(profile, "score") == ["Random"]
    assert at(profile, "permit") == ["NodeNumber"]


def test_what_prepares_a_plugin_is_asked_wherever_the_plugin_is(tmp_path: Path) -> None:
    """kube-scheduler's plugins look again at what they then don't find, or fail: each decides the same."""
    (profile,) = served(
        tmp_path,
        {"plugins": {"preScore": disabling("*"), "score": {**disabling("*"), **enabling("NodeAffinity")}}},
    )
    assert at(profile, "preScore") == at(profile, "score") == ["NodeAffinity"]


# --- names and options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "option", "expected"),
    [
        ([None], None, ["default-scheduler"]),
        ([None], "mine", ["mine"]),
        (["a"], None, ["a"]),
        ([None, "b"], "a", ["a", "b"]),
    ],
)
def test_the_one_profile_without_a_name_has_it_from_the_option(
    tmp_path: Path, names: list[str | None], option: str | None, expected: list[str]
) -> None:
    found = served(tmp_path, *({"schedulerName": name} for name in names), scheduler_name=option)
    assert [each.scheduler_name for each in found] == expected


@pytest.mark.parametrize(
    ("names", "option", "said"),
    [
        (["a", "b"], "c", "profiles: they have names; leave out --scheduler-name"),
        ([None, "b"], None, "profiles[0].schedulerName: is missing"),
        ([None, None], "a", "profiles[1].schedulerName: is missing"),
        ([None, "a"], "a", "profiles[1].schedulerName: a is the name of profiles[0], too"),
        ([""], None, "profiles[0].schedulerName: '' is not a valid"),
        (
            ["a,b"],
            None,
            "profiles[0].schedulerName: 'a,b' is not a valid name",
        ),
    ],
)
def test_names_must_be_clear(tmp_path: Path, names: list[str | None], option: str | None, said: str) -> None:
    assert said in refused(tmp_path, *({"schedulerName": name} for name in names), scheduler_name=option)


def test_without_preemption_no_profile_has_it(tmp_path: Path) -> None:
    explicit = {"schedulerName": "b", "plugins": {"postFilter": enabling("DefaultPreemption")}}
    for profile in served(tmp_path, {"schedulerName": "a"}, explicit, preemption=False):
        assert at(profile, "postFilter") == ["DynamicResources"]


def options(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Options:
    """What poller makes of a command line."""
    found: list[Options] = []
    monkeypatch.setattr(sys, "argv", ["poller.py", *arguments])
    with pytest.raises(SystemExit) as exit_:
        run_with_options(lambda each: found.append(each) or 0)  # type: ignore[func-returns-value]
    assert exit_.value.code == 0
    return found[0]


@pytest.mark.parametrize(
    ("rest", "arguments", "times"),
    [
        ({}, [], (1, 10)),
        ({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 20}, [], (3, 20)),
        ({"podInitialBackoffSeconds": 3}, ["--pod-initial-backoff=0.5"], (0.5, 10)),
        ({"podMaxBackoffSeconds": 20}, ["--pod-max-backoff=30"], (1, 30)),
    ],
)
def test_options_win_over_the_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rest: Any,
    arguments: list[str],
    times: tuple[float, float],
) -> None:
    found = options(monkeypatch, f"--config={write(tmp_path, **rest)}", *arguments)
    assert found.times == BackoffSettings(*times)


@pytest.mark.parametrize("name", [None, "mine"])
def test_without_profiles_the_file_changes_no_names(tmp_path: Path, name: str | None) -> None:
    found = served(tmp_path, scheduler_name=name)
    assert [each.scheduler_name for each in found] == (
        [name] if name else ["my-scheduler", "random-scheduler"]
    )


# --- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            {"plugins": {"score": enabling("ImageLocality", "PodGroupPodsCount")}},
            "plugins.score.enabled[1].name: poller doesn't have kube-scheduler's PodGroupPodsCount",
        ),
        (
            {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": -1}}]},
            "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: -1 is less than 0",
        ),
        (
            {"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "-1s"}}]},
            "profiles[0].pluginConfig[0].args.filterTimeout: -1s is less than 0",
        ),
        (
            {"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "10ms"}}]},
            "profiles[0].pluginConfig[0].args.bindingTimeout: 0.01s is less than 1s",
        ),
        (
            {
                "pluginConfig": [
                    {"name": "VolumeBinding", "args": {"shape": [{"utilization": 0, "score": 1}]}}
                ]
            },
            "profiles[0].pluginConfig[0].args.shape: poller doesn't score storage capacity; leave it out",
        ),
        (
            {"plugins": {"placementScore": enabling("NodeResourcesFit")}},
            "profiles[0].plugins.placementScore: poller doesn't place groups by topology; leave it out",
        ),
        (
            {"plugins": {"filter": enabling("NodeResourceFit")}},
            "there is no plugin 'NodeResourceFit'; did you mean NodeResourcesFit?",
        ),
        (
            {"plugins": {"preScore": enabling("ImageLocality")}},
            "ImageLocality has no preScore; it has score",
        ),
        (
            {"pluginConfig": [{"name": "EBSLimits"}]},
            "profiles[0].pluginConfig[0].name: kube-scheduler's EBSLimits is no longer there; leave it out",
        ),
        (
            {"plugins": {"queueSort": disabling("*")}},
            "profiles[0].plugins.queueSort: must be exactly one plugin, not none",
        ),
        (
            {"plugins": {"bind": disabling("*")}},
            "profiles[0].plugins.bind: must be at least one plugin, such as DefaultBinder",
        ),
        (
            {"percentageOfNodesToScore": 101},
            "profiles[0].percentageOfNodesToScore: 101 is not between 0 and 100",
        ),
        (
            {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": "x"}}]},
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: expected a whole number, got text",
        ),
        (
            {"pluginConfig": [{"name": "NodeAffinity", "args": {"kind": "FooArgs"}}]},
            "profiles[0].pluginConfig[0].args.kind: is 'FooArgs', not NodeAffinityArgs",
        ),
        (
            {"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}},
            "profiles[0].plugins.score.enabled[0].weight: -1 is not between 0 and 2147483647",
        ),
    ],
)
def test_what_is_wrong_with_a_profile_is_named_with_its_place(
    tmp_path: Path, profile: Any, said: str
) -> None:
    assert said in refused(tmp_path, profile)


def test_all_that_is_wrong_with_profiles_is_said_at_once(tmp_path: Path) -> None:
    first = {"schedulerName": "a", "plugins": {"score": enabling("Nonsense"), "bind": disabling("*")}}
    second = {"schedulerName": "a", "pluginConfig": [{"name": "EBSLimits"}]}
    places = [line.partition(": ")[0] for line in refused(tmp_path, first, second).splitlines()]
    assert places == [
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[0].plugins.bind",
        "profiles[1].pluginConfig[0].name",
        "profiles[1].schedulerName",
    ]


# --- what it decides --------------------------------------------------------------------------------------


def decide(profile: Profile, asking: Pod, cluster: Cache) -> Decision:
    return Scheduler(profile, Random(1)).schedule_one(asking, cluster)


def told(name: str, args: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": name, "args": args}], **rest}


FULL = pod("old", requests={"cpu": "2", "memory": "4Gi"}, nodeName="full")


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ({}, "empty"),
        ({"scoringStrategy": {"type": "MostAllocated"}}, "full"),
        (
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                    },
                }
            },
            "full",
        ),
    ],
)
def test_a_strategy_packs_or_spreads(tmp_path: Path, args: Any, place: str) -> None:
    (profile,) = served(tmp_path, told("NodeResourcesFit", args))
    cluster = Cache([node("full"), node("empty")], [FULL])
    assert decide(profile, pod(requests={"cpu": "1", "memory": "1Gi"}), cluster).node_name == place


@pytest.mark.parametrize(
    ("args", "actions"),
    [
        ({}, ["ScheduleAnyway"] * 2),
        ({"defaultingType": "System"}, ["ScheduleAnyway"] * 2),
        ({"defaultingType": "List"}, []),
    ],
)
def test_pods_are_spread_by_default_unless_the_file_says_otherwise(
    tmp_path: Path, args: Any, actions: list[str]
) -> None:
    (profile,) = served(tmp_path, told("PodTopologySpread", args))
    (plugin,) = [plugin for plugin in profile.plugins if isinstance(plugin, PodTopologySpread)]
    assert [constraint.when_unsatisfiable for constraint in plugin.default_constraints] == actions


def test_an_added_preference_counts_for_every_pod(tmp_path: Path) -> None:
    there = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    preferred = [{"weight": 1, "preference": there}]
    args = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    (profile,) = served(tmp_path, told("NodeAffinity", args))
    cluster = Cache([node(f"n{i}", {"disk": "ssd"} if i == 4 else {}) for i in range(5)], [])
    assert decide(profile, pod(), cluster).node_name == "n4"


@pytest.mark.parametrize("value", ["foo", ""])
def test_an_added_affinity_holds_for_every_pod(tmp_path: Path, value: str) -> None:
    requirement = {"key": "scheduler-profile", "operator": "In", "values": [value]}
    terms = [{"matchExpressions": [requirement]}]
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    (profile,) = served(tmp_path, told("NodeAffinity", args, schedulerName="foo-scheduler"))
    cluster = Cache([node("n1"), node("n2", {"scheduler-profile": value})], [])
    decision = decide(profile, pod(), cluster)
    assert decision.node_name == "n2"
    assert decision.rejected["n1"].status.reasons == (
        "node(s) didn't match scheduler-enforced node affinity",
    )


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"kind": "DynamicResourcesArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"},
        {"filterTimeout": "0s"},
        {"filterTimeout": "10s", "bindingTimeout": "1m30s"},
    ],
)
def test_what_kube_scheduler_is_told_of_devices_is_accepted(tmp_path: Path, args: dict[str, Any]) -> None:
    (profile,) = served(tmp_path, told("DynamicResources", args))
    assert "DynamicResources" in at(profile, "preFilter")


def test_default_constraints_may_rule_nodes_out(tmp_path: Path) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultConstraints": [constraint], "defaultingType": "List"}
    (profile,) = served(tmp_path, told("PodTopologySpread", args))
    web = {"namespace": "default", "labels": {"app": "web"}}
    running = read(
        Pod, {"metadata": {**web, "name": "old", "uid": "old"}, "spec": {"containers": [{}], "nodeName": "a"}}
    )
    new = read(Pod, {"metadata": {**web, "name": "new", "uid": "new"}, "spec": {"containers": [{}]}})
    cluster = Cache([node("a", {"zone": "a"}), node("b", {"zone": "b"})], [running])
    service = {"metadata": {"namespace": "default", "name": "web"}, "spec": {"selector": {"app": "web"}}}
    cluster.looked_up = LookedUp(workloads=Workloads([read(Service, service)], {}))
    assert decide(profile, new, cluster).node_name == "b"


def test_pods_are_placed_by_the_profile_that_they_name(cluster: RunningCluster) -> None:
    """Pods of default-scheduler among them, which most pods are."""
    cluster.add_node("full")
    cluster.add_node("empty")
    busy = [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}]
    cluster.add_pod("old", nodeName="full", containers=busy)
    cluster.add_pod("packed", "default-scheduler")
    cluster.add_pod("spread", "spreading-scheduler")
    cluster.add_pod("other", "my-scheduler")
    packing = told("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    balanced = disabling("NodeResourcesBalancedAllocation")
    file = write(
        cluster.folder,
        {**packing, "schedulerName": "default-scheduler", "plugins": {"score": balanced}},
        {"schedulerName": "spreading-scheduler"},
    )
    done = cluster.poller(f"--config={file}", afresh=True)
    assert done.returncode == 0, done.stderr
    assert cluster.placement() == {"old": "full", "packed": "full", "spread": "empty", "other": None}


def test_the_example_of_the_readme_is_served(tmp_path: Path) -> None:
    (example,) = re.findall("```yaml\n(.*?)```", (ROOT / "lib/service/README.md").read_text(), re.DOTALL)
    mine, packing = served(tmp_path, *yaml.safe_load(example)["profiles"])
    assert mine.scheduler_name == "my-scheduler"
    assert at(packing, "score")[0] == "NodeResourcesFit"
    cluster = Cache([node("full"), node("empty")], [FULL])
    assert decide(packing, pod(requests={"cpu": "1"}), cluster).node_name == "full"


# --- --check-config ---------------------------------------------------------------------------------------


def check(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """The exit status of --check-config, and what it says."""
    monkeypatch.setattr(sys, "argv", ["poller.py", "--check-config", *arguments])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exit_:
        run_with_options(lambda _: pytest.fail("it ran"))
    said = capfd.readouterr()
    return int(exit_.value.code or 0), said.out, said.err


def test_it_shows_who_is_asked_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    packing = told(
        "NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}, schedulerName="packing"
    )
    packing["plugins"] = {"score": {**disabling("*"), "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}
    (tmp_path / "mine.py").write_text(MINE)
    file = write(tmp_path, packing, {"schedulerName": "other"}, percentageOfNodesToScore=30)
    status, out, _ = check(monkeypatch, capfd, f"--config={file}", f"--plugin={tmp_path}/mine.py")
    assert status == 0
    first, second = out.split("other: ")
    assert "packing: for pods with this spec.schedulerName\n" in first
    assert "score: says how good a node is\n      NodeResourcesFit*5\n" in first
    assert "NodeResourcesFit: strategy='MostAllocated'\n" in first
    assert "postFilter: runs when no node fits, and may make one fit\n" in second
    assert "\n      DynamicResources, DefaultPreemption\n" in second
    assert re.search(r"ImageLocality\*1,\s+mine\*3\n", second)
    assert "30 %" in first
    assert max(map(len, out.splitlines())) <= 80


def test_it_shows_what_is_served_without_a_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = check(monkeypatch, capfd)
    assert status == 0
    assert "my-scheduler: " in out
    assert "score: says how good a node is\n      Random*1\n" in out


@pytest.mark.parametrize(
    ("file", "arguments", "said"),
    [
        (None, [], "leader election: off"),
        ({}, [], "leader election: off"),
        (None, ["--leader-elect"], "leader election: lease kube-system/poller, lease duration 15 s"),
        ({"leaderElect": True}, [], "leader election: lease kube-system/poller, lease duration 15 s"),
        (
            {"resourceName": "a", "leaseDuration": "20s"},
            [],
            "leader election: lease kube-system/a, lease duration 20 s",
        ),
        ({"resourceName": "a"}, ["--leader-elect-resource-name=b"], "leader election: lease kube-system/b,"),
        ({"leaderElect": False, "resourceName": "a"}, [], "leader election: off"),
        (
            {"leaderElect": False, "resourceName": "a"},
            ["--leader-elect"],
            "leader election: lease kube-system/a,",
        ),
        ({"leaderElect": True}, ["--once"], "leader election: off"),
    ],
)
def test_options_win_over_what_the_file_says_of_an_election(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    file: dict[str, Any] | None,
    arguments: list[str],
    said: str,
) -> None:
    fields = {} if file is None else {"leaderElection": file}
    status, out, _ = check(monkeypatch, capfd, f"--config={write(tmp_path, **fields)}", *arguments)
    assert status == 0
    assert said in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("profiles", "arguments", "said"),
    [
        ([{"plugins": {"score": enabling("Nonsense")}}], [], "there is no plugin 'Nonsense'"),
        (
            [{}],
            ["--policy=random", "--scheduler-name=a"],
            "can't be combined with a --config that has profiles",
        ),
        ([{"schedulerName": "a"}], ["--scheduler-name=b"], "leave out --scheduler-name"),
    ],
)
def test_it_refuses_what_is_wrong_as_any_bad_option(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    profiles: list[Any],
    arguments: list[str],
    said: str,
) -> None:
    status, out, err = check(monkeypatch, capfd, f"--config={write(tmp_path, *profiles)}", *arguments)
    assert (status, out) == (2, "")
    assert "Usage: poller.py" in err
    assert said in " ".join(err.replace("│", " ").split())
