"""Selectors and requests that the API server refuses today: an older one stored them, or a file holds them.

What comes is what kube-scheduler 1.36's own plugins answered for the same objects.
"""

from random import Random
from typing import Any

import pytest
from objects import node, pod
from plugin_harness import fitting, reasons, scores

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.explaining.node_affinity import NodeAffinityExplainer
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NO_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NO_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
TOO_LONG = "must be no more than 63 bytes"


def cluster(*pods: Any) -> Cache:
    labels = {"app": "x", "zone": "a", "n": "5"}
    nodes = [node(name, labels={**labels, "zone": name, "kubernetes.io/hostname": name}) for name in "ab"]
    return Cache(nodes, pods)


def decided(asking: Any, *pods: Any) -> Decision:
    """With the plugins of the default profile."""
    return Scheduler(default_profile("default-scheduler"), Random(1)).schedule_one(asking, cluster(*pods))


def term(value: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": value}}, "topologyKey": "zone"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [*values]}


# --- InterPodAffinity -------------------------------------------------------------------------------------


def test_a_pod_with_an_invalid_term_fits_nowhere() -> None:
    near = {REQUIRED: [term("x"), term("x y")]}
    far = {PREFERRED: [{"weight": 1, "podAffinityTerm": term("-")}]}
    asking = pod(affinity={"podAffinity": near, "podAntiAffinity": far})
    found = decided(asking)
    said = (
        f'parsing pod: [requiredAffinityTerms: values[0][app]: Invalid value: "x y": {NO_VALUE}, '
        f'preferredAntiAffinityTerms: values[0][app]: Invalid value: "-": {NO_VALUE}]'
    )
    assert found.outcome == "unschedulable"
    assert {each.reason for each in found.rejected.values()} == {said}


@pytest.mark.parametrize(("terms", "fits"), [([term("x")], "b"), ([term("x"), term("x y")], "a b")])
def test_of_a_running_pod_all_terms_of_a_kind_are_left_out_if_one_is_invalid(terms: Any, fits: str) -> None:
    running = pod("running", nodeName="a", affinity={"podAntiAffinity": {REQUIRED: terms}})
    asking = pod()
    asking.metadata.labels["app"] = "x"
    assert fitting(InterPodAffinity(), asking, cluster(running)) == fits


# --- NodeAffinity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "invalid",
    [
        expression("n", "In", "5", "x y"),
        expression("n", "NotIn", "-5"),
        expression("n", "Gt", "-5"),
        expression("n", "Gt", "one"),
        expression("n", "Exists", "5"),
        expression("n", "NotIn"),
        expression("not here", "DoesNotExist"),
        expression("n", "Is", "5"),
    ],
    ids=str,
)
def test_an_invalid_required_term_matches_no_node_and_another_one_may(invalid: Any) -> None:
    other = {"matchExpressions": [expression("zone", "In", "a")]}
    for more, fits in (([], ""), ([other], "a")):
        terms = [{"matchExpressions": [expression("n", "Exists"), invalid]}, *more]
        asking = pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
        assert fitting(NodeAffinity(), asking, cluster()) == fits


def test_why_says_that_a_term_is_invalid() -> None:
    terms = [{"matchExpressions": [expression("n", "Gt", "-5")]}]
    asking = pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    plugin, found = NodeAffinity(), cluster()
    status = plugin.filter({}, asking, found.nodes["a"])
    assert status
    (line,) = NodeAffinityExplainer().explain({}, asking, found, found.nodes["a"], status)
    said = f'matchExpressions[0].values[0][n]: Invalid value: "-5": {NO_VALUE}'
    assert line == f"node affinity n Gt [-5]: an invalid term matches no node: {said}"


@pytest.mark.parametrize(
    ("invalid", "said"),
    [
        (expression("bad key", "Exists"), f'key: Invalid value: "bad key": {NO_KEY}'),
        (expression("n", "Gt", "0.5"), f'values[0]: Invalid value: "0.5": {NO_INTEGER}'),
        (expression("n", "Lt", f"{2**63}"), f'values[0]: Invalid value: "{2**63}": {NO_INTEGER}'),
        (expression("n", "In", "x" * 64), f'values[0][n]: Invalid value: "{"x" * 64}": {TOO_LONG}'),
        (expression("n" * 64, "Exists"), f'key: Invalid value: "{"n" * 64}": name part {TOO_LONG}'),
        (expression("/n", "Exists"), 'key: Invalid value: "/n": prefix part must be non-empty'),
    ],
    ids=str,
)
def test_an_invalid_preferred_term_fails_the_attempt_if_its_weight_is_not_0(invalid: Any, said: str) -> None:
    bad = {"matchExpressions": [invalid]}
    good = {"matchExpressions": [expression("zone", "In", "a")]}

    def liking(weight: int) -> Any:
        preferred = [{"weight": weight, "preference": bad}, {"weight": 3, "preference": good}]
        return pod(affinity={"nodeAffinity": {PREFERRED: preferred}})

    found = decided(liking(1))
    where = 'running PreScore plugin "NodeAffinity": [0].matchExpressions[0]'
    assert (found.outcome, found.message) == ("error", f"{where}.{said}")
    assert scores(NodeAffinity(), liking(0), cluster()) == {"a": 100, "b": 0}


# --- PodTopologySpread ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "where"),
    [
        ("DoNotSchedule", 'PreFilter plugin "PodTopologySpread": get constraints from pod: {} hard'),
        ("ScheduleAnyway", 'PreScore plugin "PodTopologySpread": calculating preScoreState: {} soft'),
    ],
)
def test_an_invalid_constraint_fails_the_attempt(action: str, where: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action}
    selector = {"matchExpressions": [expression("a b", "In", "x y")]}
    found = decided(pod(topologySpreadConstraints=[{**constraint, "labelSelector": selector}]))
    said = (
        f'key: Invalid value: "a b": {NO_KEY}',
        f'values[0][a b]: Invalid value: "x y": {NO_VALUE}',
    )
    where = where.format("obtaining pod's")
    expected = f"running {where} topology spread constraints: [{', '.join(said)}]"
    assert (found.outcome, found.message) == ("error", expected)


# --- NodeResourcesFit -------------------------------------------------------------------------------------


def test_of_resources_that_no_container_may_request_no_room_is_needed() -> None:
    asking = pod(requests={"storage": "5", "pods": "300", "foo": "7", "requests.example.com/x": "1"})
    assert reasons(NodeResourcesFit(), asking, cluster()) == {}
    asking = pod(requests={"example.com/foo": "7", "hugepages-2Mi": "2Mi", "attachable-volumes-ebs": "1"})
    found = reasons(NodeResourcesFit(), asking, cluster())["a"]
    lacking = {"example.com/foo", "hugepages-2Mi", "attachable-volumes-ebs"}
    assert {*found} == {f"Insufficient {name}" for name in lacking}
