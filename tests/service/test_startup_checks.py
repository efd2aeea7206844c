"""poller's warnings at the start: each once, with words that help."""

import gc
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.kube.api import Api
from lib.kube.attempt import PendingResponse
from lib.kube.election import LeaderElection
from lib.kube.resources import LOAD, NEEDS
from lib.service.rights import AT_ONCE, Right, needed_rights, rules_for
from lib.service.startup_checks import LOOK_AGAIN, StartupChecks
from lib.service.telemetry.report import Report
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ROOT
from tests.canned import canned
from tests.cluster import Cluster
from tests.faults import ALWAYS, Effect, Fault, answer, change_json, faulty, hold, refuse
from tests.later import Later

UNREADY = "[+]ping ok\n[+]log ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n"

EMBEDDED = pytest.mark.parametrize("servers", ["embedded"], indirect=True)
REAL = pytest.mark.parametrize("servers", ["real"], indirect=True)


@pytest.fixture
def one_node(cluster: Cluster) -> Cluster:
    cluster.add_node("n1")
    return cluster


class Checks:
    """The checks of a poller, beside a server without any validation."""

    def __init__(self, objects: dict[str, list[Any]], caplog: pytest.LogCaptureFixture, **more: Any) -> None:
        self.objects, self.machine, self._caplog = objects, Later(), caplog
        self._more = {"scheduler_names": ["my-scheduler"], "namespaces": [], "rights": [], **more}
        self.missing_namespaces: list[str] = []
        self.reads: list[str] = []

    @contextmanager
    def running(self, *forbidden: str) -> Iterator[Callable[[], list[str]]]:
        """Polls that succeed; each returns what is warned of after it."""
        with canned(self.objects) as server, Api(server.url, threading.Event(), system=self.machine) as api:
            server.forbidden, self.reads = {*forbidden}, server.reads
            checks = StartupChecks(api, report=Report(dry_run=False, explain=None), **self._more)

            def poll() -> list[str]:
                self._caplog.clear()
                checks.after_poll(patience=60)
                self.missing_namespaces = checks.missing_namespaces
                return self._caplog.messages

            yield poll


def test_a_served_namespace_that_does_not_exist_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    objects = {"namespaces": [{"metadata": {"name": "there"}}]}
    checks = Checks(objects, caplog, namespaces=["there", "nosuch"])
    with checks.running() as poll:
        assert poll() == ["--namespace: namespace nosuch not found"]
        assert checks.missing_namespaces == ["nosuch"]
        assert poll() == []


@pytest.mark.parametrize(
    ("name", "holder", "election", "is_said"),
    [
        ("default-scheduler", "control-plane_1", None, True),
        ("default-scheduler", "", None, False),
        ("my-scheduler", "control-plane_1", None, False),
        ("default-scheduler", "control-plane_1", LeaderElection(), True),
        (  # they take turns
            *("default-scheduler", "control-plane_1"),
            *(LeaderElection(resource_name="kube-scheduler", resource_namespace="kube-system"), False),
        ),
    ],
)
def test_two_schedulers_of_one_name_are_warned_of(
    name: str,
    holder: str,
    election: LeaderElection | None,
    is_said: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = {"name": "kube-scheduler", "namespace": "kube-system"}
    objects = {"leases": [{"metadata": names, "spec": {"holderIdentity": holder}}]}
    with Checks(objects, caplog, scheduler_names=[name], election=election).running() as poll:
        said = poll()
        assert [each.partition(":")[0] for each in said] == [
            "kube-scheduler schedules the pods of default-scheduler, too"
        ] * is_said
        assert all(holder in each for each in said)


def waiting(name: str, scheduler: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"schedulerName": scheduler}}


def test_a_name_like_ours_is_warned_of_once_and_new_ones_are_looked_for_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pods = [waiting("a", "my-shceduler"), waiting("b", "volcano")]
    checks = Checks({"pods": pods}, caplog, scheduler_names=["my-scheduler", "your-scheduler"])
    said = "default/{} waits for a scheduler named {}; this one is {}: is that a misspelling?"
    with checks.running() as poll:
        assert poll() == [said.format("a", "my-shceduler", "my-scheduler")]
        pods += waiting("d", "yuor-scheduler"), waiting("e", "my-shceduler")
        assert poll() == []
        checks.machine.seconds += LOOK_AGAIN
        assert poll() == [said.format("d", "yuor-scheduler", "your-scheduler")]
    for name in ("my-scheduler", "your-scheduler", "default-scheduler"):  # whose pods need no such look
        assert all(f",spec.schedulerName!={name}" in path for path in checks.reads)


def test_a_check_that_may_not_be_made_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    checks = Checks({}, caplog, namespaces=["hidden", "nosuch"])
    paths = "/api/v1/namespaces/hidden", "/api/v1/namespaces/hidden/pods"
    with checks.running(*paths) as poll:
        assert poll() == ["--namespace: namespace nosuch not found"]
        assert poll() == []


@EMBEDDED
def test_a_namespace_that_does_not_exist(one_node: Cluster) -> None:
    done = one_node.poller("--namespace", "nosuch")
    assert done.returncode == 1
    assert done.stderr.count("--namespace: namespace nosuch not found") == 1


@EMBEDDED
@pytest.mark.parametrize("how", [[], ["--watch"]], ids=["polling", "watching"])
def test_a_scheduler_name_that_is_nearly_ours(one_node: Cluster, how: list[str]) -> None:
    for name in ("db", "job", "web"):
        one_node.add_pod(name, schedulerName="my-shceduler")
    one_node.add_pod("other", schedulerName="volcano")
    one_node.add_pod("stock", schedulerName="default-scheduler")
    one_node.add_pod("ours")
    with one_node.running_poller(*how) as poller:
        poller.says("default/ours is bound to n1", within=30)
        one_node.add_pod("more")
        poller.says("default/more is bound to n1", within=30)
        said = poller.said
    misspelled = "default/db and 2 more wait for a scheduler named my-shceduler; this one is my-scheduler"
    assert said.count(misspelled) == 1
    assert "volcano" not in said
    assert "default/stock" not in said


@EMBEDDED
def test_kube_scheduler_is_at_work_already(one_node: Cluster) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "control-plane_1", "renewTime": now, "leaseDurationSeconds": 15}
    one_node.post(leases, {"metadata": {"name": "kube-scheduler"}, "spec": spec})
    warning = "kube-scheduler schedules the pods of default-scheduler, too: control-plane_1 holds the lease"
    assert warning in one_node.poller("--scheduler-name", "default-scheduler").stderr
    assert warning not in one_node.poller().stderr
    one_node.api.delete(f"{leases}/kube-scheduler")
    assert warning not in one_node.poller("--scheduler-name", "default-scheduler").stderr


@REAL
def test_the_api_server_itself_is_no_proxy(one_node: Cluster) -> None:
    done = one_node.poller(proxy=one_node.server)
    assert done.returncode == 1
    assert f"{one_node.server} is not a kubectl proxy: it speaks TLS" in done.stderr
    assert "Use --start-proxy: then poller starts" in done.stderr


@EMBEDDED
def test_a_proxy_that_is_asked_over_tls_does_not_speak_it(one_node: Cluster) -> None:
    address = one_node.proxy.removeprefix("http://")
    done = one_node.poller(proxy=f"https://{address}")
    assert done.returncode == 1
    assert (
        f"https://{address} doesn't speak TLS. Give its address with http: --proxy http://{address}"
        in done.stderr
    )


@REAL
def test_all_missing_rights_are_named_in_one_go(one_node: Cluster) -> None:
    """Those of someone who may only look at pods and nodes; and those of the administrator."""
    assert one_node.kubeconfig_for
    one_node.kubectl("create", "clusterrole", "looks", "--verb=list,get", "--resource=pods,nodes")
    one_node.kubectl("create", "clusterrolebinding", "looks", "--clusterrole=looks", "--user=june")
    with kubectl_proxy(one_node.server, one_node.kubeconfig_for("june")) as proxy:
        said = one_node.poller(proxy=proxy).stderr
    rules = [line.partition(" - ")[2] for line in said.splitlines() if " - {" in line]
    for rule in (
        '{apiGroups: [""], resources: ["namespaces", "services"], verbs: ["list"]}',
        '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}',
        '{apiGroups: [""], resources: ["pods"], verbs: ["delete"]}',
        '{apiGroups: ["apps"], resources: ["replicasets", "statefulsets"], verbs: ["get"]}',
        '{apiGroups: [""], resources: ["persistentvolumes", "persistentvolumeclaims"],'
        ' verbs: ["list", "patch", "get"]}',
    ):
        assert rule in rules
    assert '"nodes"' not in "".join(rules)
    assert "lacks rights" in said
    assert "lacks rights" not in one_node.poller().stderr


@REAL
def test_missing_rights_are_named_before_the_poll_that_needs_them_is_refused(one_node: Cluster) -> None:
    assert one_node.kubeconfig_for
    with kubectl_proxy(one_node.server, one_node.kubeconfig_for("nobody")) as proxy:
        done = one_node.poller(proxy=proxy)
    assert done.returncode == 1
    assert 0 < done.stderr.index("lacks rights") < done.stderr.index("nodes") < done.stderr.index("403 ")
    assert done.stderr.count("lacks rights") == 1


@EMBEDDED
def test_a_review_that_fails_keeps_no_request_with_its_connection(one_node: Cluster) -> None:
    """Else the others of its batch would stay connected until the garbage collector runs."""
    go_on, reviews = threading.Event(), "selfsubjectaccessreviews"
    faults = Fault("POST", reviews, refuse(), times=2), Fault("POST", reviews, hold(go_on), times=ALWAYS)
    rights = needed_rights([], NEEDS, writes=True, watch=True)
    gc.collect()
    gc.disable()
    try:
        with faulty(one_node.proxy, *faults) as between, Api(between.url, threading.Event()) as api:
            checks = StartupChecks(api, ["my-scheduler"], [], rights, Report(dry_run=False, explain=None))
            with checks.during_poll():
                (thread,) = (each for each in threading.enumerate() if each.name == "rights")
            thread.join()
            assert between.requests == []
            assert not [each for each in gc.get_objects() if isinstance(each, PendingResponse)]
            go_on.set()
    finally:
        gc.enable()


@EMBEDDED
def test_an_api_server_that_still_starts_says_nothing_about_rights(one_node: Cluster) -> None:
    """kube-apiserver refuses everything until it has read the roles; for its first moments, /readyz, too."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}
    refused = answer(403, json.dumps({**status, "message": "it is forbidden: User ..."}))
    starting = threading.Event()
    starting.set()

    def at_first(effect: Effect) -> Effect:
        return lambda exchange: effect(exchange) if starting.is_set() else exchange.forward()

    lacking = change_json(lambda review: {**review, "status": {"allowed": False}})
    faults = (
        Fault("GET", "^/readyz", refused),
        Fault("GET", "^/readyz", at_first(answer(500, UNREADY)), ALWAYS),
        Fault("GET", "/nodes|/pods", at_first(refused), ALWAYS),
        Fault("POST", "selfsubjectaccessreviews", at_first(lacking), ALWAYS),
    )
    one_node.add_pod("web")
    with faulty(one_node.proxy, *faults) as between, one_node.running_poller(proxy=between.url) as poller:
        poller.says("it is forbidden: User ...; the API server is still starting")
        poller.says("trying again, at least every 30 s")
        starting.clear()
        poller.says("default/web is bound to n1")
        assert "rule that is missing" not in poller.said
        assert "lacks rights" not in poller.said
        assert "the API server is back, after" in poller.said


@EMBEDDED
def test_reviews_that_fail_do_not_delay_each_poll(one_node: Cluster) -> None:
    tried: list[str] = []
    fault = Fault("POST", "selfsubjectaccessreviews", lambda _: tried.append("a review"), times=ALWAYS)
    rights = needed_rights([], NEEDS, writes=True, watch=True)
    with faulty(one_node.proxy, fault) as between, Api(between.url, threading.Event()) as api:
        checks = StartupChecks(api, ["my-scheduler"], [], rights, Report(dry_run=False, explain=None))
        for _ in range(3):
            with checks.during_poll():
                pass
        assert 0 < len(tried) <= AT_ONCE


@REAL
def test_a_person_gets_the_rights_by_the_two_commands_of_the_document(one_node: Cluster) -> None:
    assert one_node.kubeconfig_for
    document = Path(ROOT, "scripts/deploy/README.md").read_text()
    try:
        for command in re.findall(r"^kubectl (.*clusterrolebinding .*|apply .*for=people)", document, re.M):
            one_node.kubectl(*shlex.split(command))
        one_node.add_pod("web")
        with kubectl_proxy(one_node.server, one_node.kubeconfig_for("jane")) as proxy:
            done = one_node.poller(proxy=proxy)
    finally:
        one_node.kubectl(
            "delete", "--ignore-not-found", "clusterrole/poller", "clusterrolebinding/poller-jane"
        )
    assert done.returncode == 0, done.stderr
    assert "default/web is bound to n1" in done.stderr
    assert "lacks rights" not in done.stderr


def test_what_is_checked_is_what_the_deployment_grants() -> None:
    documents = yaml.safe_load_all(Path(ROOT, "scripts/deploy/permissions.yaml").read_text())
    rules = [rule for each in documents for rule in each.get("rules", ())]
    granted = {
        (verb, resource, group, name)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }
    election = LeaderElection(resource_namespace="poller")
    needs = [each for each in NEEDS if each is not LOAD]
    rights = needed_rights((), needs, writes=True, watch=True, election=election)
    assert {(each.verb, each.resource, each.group, each.name) for each in rights} == granted


def test_a_right_to_one_object_becomes_a_rule_in_its_namespace() -> None:
    lease = Right("get", "leases", "coordination.k8s.io", "kube-system", "poller")
    rule = '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]'
    assert rules_for([lease, lease._replace(name="")]) == {
        "kube-system": [f'{rule}, resourceNames: ["poller"]}}', f"{rule}}}"]
    }


def test_rights_to_one_resource_become_one_rule() -> None:
    rights = [Right(verb, resource) for resource in ("pods", "nodes") for verb in ("list", "watch")]
    assert rules_for(rights) == {
        "": ['{apiGroups: [""], resources: ["pods", "nodes"], verbs: ["list", "watch"]}']
    }


@REAL
def test_a_missing_right_to_the_lease_names_the_lease_and_its_role(one_node: Cluster) -> None:
    """A rule without the name would grant writing every Lease of the cluster."""
    assert one_node.kubeconfig_for
    with (
        kubectl_proxy(one_node.server, one_node.kubeconfig_for("nobody")) as proxy,
        one_node.running_poller("--leader-elect", proxy=proxy) as poller,
    ):
        poller.says("lacks rights. Add these rules to its Role in namespace kube-system:")
        poller.says('verbs: ["get", "update"], resourceNames: ["poller"]}')


def test_a_dry_run_needs_no_right_to_write() -> None:
    rights = needed_rights(["a", "b"], NEEDS, writes=False, watch=False)
    assert {each.verb for each in rights} == {"list", "get"}
    assert Right("list", "pods", namespace="b") in rights
    assert Right("list", "nodes") in rights
