"""Policies that try to change the cluster, or that raise what isn't an Exception: only their pods wait."""

import signal
import textwrap
from pathlib import Path

import pytest
from cluster import Cluster, eventually

ON_ONE_SERVER = True

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}

OF_A_FUNCTION = {
    "node.taints.pop()": "a node: taints",
    "node.taints[0].key = 'x'": "a node: taints.key",
    "del node.taints[0]": "a node: taints",
    "node.taints += [1]": "a node: taints",
    "node.spec.taints.clear()": "a node: spec.taints",
    "node.spec.taints[0].effect = ''": "a node: spec.taints.effect",
    "node.labels['rack'] = 'r2'": "a node: labels",
    "node.labels.update(rack='r2')": "a node: labels",
    "node.labels = {}": "a node: labels",
    "node.metadata.labels.pop('rack')": "a node: metadata.labels",
    "node.metadata.name = 'n2'": "a node: metadata.name",
    "node.annotations |= {'a': 'b'}": "a node: annotations",
    "node.images.clear()": "a node: images",
    "node.allocatable['cpu'] = 0": "a node: allocatable",
    "node.requested.pop('cpu')": "a node: requested",
    "node.free.clear()": "a node: free",
    "node.status.allocatable['cpu'] = 10**9": "a node: status.allocatable",
    "node.status.images.append(1)": "a node: status.images",
    "node.pods.clear()": "a node: pods",
    "node.pods[0].labels.clear()": "a pod: labels",
    "node.pods[0].spec.containers[0].resources.requests['cpu'] = 0": (
        "a pod: spec.containers.resources.requests"
    ),
    "pod.labels['app'] = 'x'": "a pod: labels",
    "pod.metadata.annotations.setdefault('a', 'b')": "a pod: metadata.annotations",
    "pod.requests['cpu'] = 0": "a pod: requests",
    "pod.spec.priority = 10**6": "a pod: spec.priority",
    "pod.spec.containers.pop()": "a pod: spec.containers",
    "pod.spec.tolerations.append(1)": "a pod: spec.tolerations",
    "pod.spec.tolerations[0].key = ''": "a pod: spec.tolerations.key",
    "del pod.spec.node_selector": "a pod: spec.node_selector",
}

OF_A_CLASS = {
    "node.taints.pop()": "a node: taints",
    "node.taints[0].key = 'x'": "a node: taints.key",
    "node.labels['rack'] = 'r2'": "a node: labels",
    "node.node.metadata.labels.clear()": "a node: metadata.labels",
    "node.requested['cpu'] = 0": "a node: requested",
    "node.remove(node.pods[0])": "a node: pods",
    "node.pods.clear()": "a node: pods",
    "node.pods[0].metadata.labels.clear()": "a pod: metadata.labels",
    "vars(node)['labels'] = {}": "a node: __dict__",
    "pod.spec.priority = 10**6": "a pod: spec.priority",
    "pod.spec.node_selector.clear()": "a pod: spec.node_selector",
    "cluster.nodes.pop('n1')": "the cluster: nodes",
    "cluster.nodes['n1'].labels.clear()": "a node: labels",
    "cluster.node_list.clear()": "the cluster: node_list",
    "cluster.version = 7": "the cluster: version",
    "cluster.assume(pod, 'n1')": "the cluster: ",
}

FUNCTION = """
def filter(pod, node):
    attempt = pod.annotations.get("attempt")
{attempts}
    return True
"""

CLASS = """
class Meddler:
    def pre_filter(self, state, pod, cluster):
        state["cluster"] = cluster

    def filter(self, state, pod, node):
        attempt = pod.metadata.annotations.get("attempt")
        cluster = state["cluster"]
{attempts}
"""


@pytest.mark.parametrize(
    ("name", "source", "attempts"),
    [("meddler", FUNCTION, OF_A_FUNCTION), ("Meddler", CLASS, OF_A_CLASS)],
    ids=["function", "class"],
)
def test_a_policy_can_change_nothing(
    cluster: Cluster, tmp_path: Path, name: str, source: str, attempts: dict[str, str]
) -> None:
    """After all attempts, a pod that may not run on the only node, or has no room there, still waits."""
    tries = "\n".join(f"if attempt == '{i}': {attempt}" for i, attempt in enumerate(attempts))
    whole = source.format(attempts=textwrap.indent(tries, " " * (8 if source == CLASS else 4)))
    (tmp_path / "meddler.py").write_text(whole)
    cluster.add_node("n1", {"rack": "r1"})
    cluster.patch("/api/v1/nodes/n1", {"spec": {"taints": [GPU]}})
    cluster.add_pod("old", nodeName="n1", requests={"cpu": "3"})
    may_run = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    for i in range(len(attempts)):
        cluster.add_pod(f"p{i}", metadata={"annotations": {"attempt": f"{i}"}}, **may_run)
    cluster.add_pod("forbidden")
    cluster.add_pod("large", requests={"cpu": "2"}, **may_run)
    done = cluster.poller("--plugin", str(tmp_path / "meddler.py"))
    for i, (attempt, what) in enumerate(attempts.items()):
        (line,) = [at for at, text in enumerate(whole.splitlines(), 1) if f"== '{i}': {attempt}" in text]
        failed = f"default/p{i}: plugin {name} failed at meddler.py:{line} for node n1: ReadOnlyError"
        assert f"{failed}: a policy can't change {what}" in done.stderr
    assert {node for name, node in cluster.placement().items() if name != "old"} == {None}


EXCEPTIONS = {
    "asyncio.CancelledError()": "CancelledError",
    "GeneratorExit()": "GeneratorExit",
    "KeyboardInterrupt()": "KeyboardInterrupt",
    "SystemExit(7)": "SystemExit: 7",
    "Bug('beyond repair')": "Bug: beyond repair",
}

RAISES = """
import asyncio

class Bug(BaseException):
    pass

def raise_what(pod, at):
    if pod.metadata.annotations.get("at") == at:
        raise eval(pod.metadata.annotations["what"])

def filter(pod, node):
    raise_what(pod, "filter")
    return True

def score(pod, node):
    raise_what(pod, "score")
    return 1

class Own:
    def pre_enqueue(self, pod): raise_what(pod, "pre_enqueue")
    def pre_filter(self, state, pod, cluster): raise_what(pod, "pre_filter")
    def pre_score(self, state, pod, cluster, nodes): raise_what(pod, "pre_score")
    def reserve(self, state, pod, node_name): raise_what(pod, "reserve")
    def unreserve(self, state, pod, node_name): raise_what(pod, "reserve")
    def permit(self, state, pod, node_name, waited): raise_what(pod, "permit")
    def pre_bind(self, state, pod, node_name): raise_what(pod, "pre_bind")
    def post_bind(self, state, pod, node_name): raise_what(pod, "post_bind")
    def queueing_hint(self, pod, change): raise_what(pod, "filter")
"""

POINTS = ("pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reserve", "permit", "pre_bind")


def test_no_exception_of_a_policy_ends_poller(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(RAISES)
    for name in ("n1", "n2"):
        cluster.add_node(name)
    names = {}
    for i, (what, said) in enumerate(EXCEPTIONS.items()):
        for point in (*POINTS, "post_bind"):
            name = f"{point.replace('_', '-')}-{i}"
            names[name] = point, said
            cluster.add_pod(
                name, metadata={"annotations": {"at": point, "what": what}}, requests={"cpu": "1m"}
            )
    cluster.add_pod("zz-good")
    with cluster.running_poller("--plugin", str(tmp_path / "raises.py")) as poller:
        poller.says("default/zz-good is bound to n")
        for name, (point, said) in names.items():
            if point == "post_bind":
                poller.says(f"default/{name} is bound to n")
                poller.says(f"plugin Own failed after default/{name} was bound")
            elif point == "pre_enqueue":
                poller.says(f"default/{name} plugin Own failed: {said}")
            else:
                plugin = "raises" if point in ("filter", "score") else "Own"
                poller.says(f"default/{name}: plugin {plugin} failed at raises.py:9")
        for said in EXCEPTIONS.values():
            assert f": {said}\n" in poller.said
        cluster.add_node("n3")  # the hints are asked
        cluster.add_pod("zz-late")
        poller.says("default/zz-late is bound to n")
        poller.stop(signal.SIGTERM)
    placed = {name for name, node in cluster.placement().items() if node}
    assert placed == {
        "zz-good",
        "zz-late",
        *(name for name, (point, _) in names.items() if point == "post_bind"),
    }


@pytest.mark.parametrize("what", ["KeyboardInterrupt()", "asyncio.CancelledError()"])
def test_a_policy_that_fails_while_it_is_loaded_is_a_bad_option(
    servers: Cluster, tmp_path: Path, what: str
) -> None:
    # In the background, SIGINT is ignored, and so it is by the processes that a test starts there.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    (tmp_path / "broken.py").write_text(f"import asyncio; {heard}\nraise {what}\n")
    done = servers.poller("--plugin", str(tmp_path / "broken.py"), COLUMNS="200")
    if "Keyboard" in what:  # it can't be told from Ctrl+C
        assert done.returncode == 130
    else:
        assert done.returncode == 2
        assert "broken.py:2: CancelledError" in done.stderr


ODD = """
from pathlib import Path

class Odd:
    def annotate(self, state, pod, node):
        return {"from": {"path": Path("web"), "name": "caf\\udce9.txt"}.get(pod.metadata.name, "")}
"""


def test_annotations_that_are_not_text_keep_only_their_pods_from_being_bound(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    cluster.add_node("n1")
    for name in ("path", "name", "good"):
        cluster.add_pod(name)
    with cluster.running_poller("--plugin", str(tmp_path / "odd.py")) as poller:
        poller.says("default/good is bound to n1")
        poller.says("default/path: plugin Odd failed: PosixPath('web') is given as an annotation, but isn't")
        poller.says(r"default/name: plugin Odd failed: 'caf\udce9.txt' is given as an annotation, but isn't")
        poller.stop(signal.SIGTERM)
        assert poller.process.returncode == 0
    assert cluster.placement() == {"path": None, "name": None, "good": "n1"}


WORDS = """
from lib.scheduling.framework.interface import PostFilterResult
from lib.scheduling.status import PluginError, unschedulable

class Reason(str):
    pass

class Words:
    def pre_filter(self, state, pod, cluster):
        if pod.metadata.name == "raises":
            raise PluginError("no file caf\\udce9.txt")

    def filter(self, state, pod, node):
        if pod.metadata.name in ("helped", "counted", "rejected"):
            return unschedulable(Reason("no"))

    def post_filter(self, state, pod, cluster, rejected, filter_node):
        if pod.metadata.name == "helped":
            return PostFilterResult("", reasons=("caf\\udce9.txt",))
        if pod.metadata.name == "counted":
            return PostFilterResult("", rejected_by=7)
"""


@pytest.mark.parametrize("options", [[], ["--log-format=json", "--explain=json"]], ids=["text", "json"])
def test_words_that_cannot_be_encoded_do_not_end_poller(
    cluster: Cluster, tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    cluster.add_node("n1")
    for name in ("raises", "helped", "counted", "rejected", "good"):
        cluster.add_pod(name)
    with cluster.running_poller("--plugin", str(tmp_path / "words.py"), *options) as poller:
        poller.says("default/good is bound to n1")
        said = ("raises: no file", "helped: plugin Words failed", "counted: plugin Words failed")
        for each in (*said, "rejected fits nowhere"):
            poller.says(f"default/{each}")
        wanted = r"no file caf\udce9.txt"
        eventually(lambda: wanted in [each["message"] for each in cluster.events("FailedScheduling")])
        poller.stop(signal.SIGTERM)
        assert poller.process.returncode == 0
