"""Scenarios: folders with a cluster, the pods to place, and the expected result.

`scenario.yaml` says what is expected; `cluster.yaml` holds nodes, and pods that run already, in manifests or
as `kubectl get nodes,pods -A -o yaml` prints them; `pods.yaml` holds manifests.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lib.kube.bounded_files import MAX_YAML, TooMuchError, load_yaml, read_at_most
from lib.questions.manifests import read_manifests
from lib.questions.text import QuestionError

PRICE = "example.com/price"
"""The annotation of a node that says what an hour of it costs."""

Json = dict[str, Any]


class ScenarioError(Exception):
    """A scenario can't be used; the text names the file and says why."""


class Spread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pods of a workload, counted by a label of their nodes: most less fewest is `at_most` or less."""

    of: str
    by: str
    at_most: int = 1


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected result; None or empty: nothing is expected.

    placed: the least number of new pods with a node. nodes_used: the highest number of nodes with pods, old
    or new. cost: the highest cost of these nodes. spread: for several workloads. avoid: the nodes on which no
    new pod may be. evicted: the highest number of evicted pods.
    """

    placed: int | None = None
    nodes_used: int | None = None
    cost: float | None = None
    spread: tuple[Spread, ...] = ()
    avoid: tuple[str, ...] = ()
    evicted: int | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    expect: Expected


class Scenario:
    """A scenario. nodes: by name. running: the node of each pod that runs already, by NAMESPACE/NAME."""

    def __init__(self, folder: Path) -> None:
        """Read the folder. ScenarioError when a file can't be read, or names an object that doesn't exist."""
        file = folder / "scenario.yaml"
        try:
            told = msgspec.convert(next(load_yaml(read_at_most(file, MAX_YAML)), None), _File)
        except (OSError, TooMuchError, msgspec.MsgspecError, yaml.YAMLError) as error:
            raise ScenarioError(f"{file}: {error}") from error
        self.title, self.expect = told.title, told.expect
        pods_file = (folder / "pods.yaml").resolve()
        self.objects = list(_objects(folder / "cluster.yaml"))
        self.cluster = json.dumps(
            {"kind": "List", "apiVersion": "v1", "items": self.objects}, default=str
        ).encode()
        self.nodes = {each["metadata"]["name"]: each for each in self.objects if each["kind"] == "Node"}
        pods = [each for each in self.objects if each["kind"] == "Pod" and each["spec"].get("nodeName")]
        self.running = {_name(pod): pod["spec"]["nodeName"] for pod in pods}
        wanted = [each for each in _objects(pods_file) if each["kind"] != "PriorityClass"]
        workloads = {each["metadata"]["name"] for each in wanted}
        for spread in self.expect.spread:
            if spread.of not in workloads:
                raise ScenarioError(f"{file}: spread of {spread.of}: {pods_file} has no such workload")
        for name in self.expect.avoid:
            if name not in self.nodes:
                raise ScenarioError(f"{file}: avoid {name}: cluster.yaml has no such node")
        try:
            self.manifests = read_manifests([pods_file], "default")
        except QuestionError as error:
            raise ScenarioError(str(error)) from error

    def price_of(self, node: str) -> float:
        """The price of an hour of a node; 0 without the annotation."""
        said = self.nodes[node]["metadata"].get("annotations", {}).get(PRICE, 0)
        return float(said)

    def label_of(self, node: str, key: str) -> str:
        """The value of a node's label; empty without that label."""
        return str(self.nodes[node]["metadata"].get("labels", {}).get(key, ""))


def _objects(file: Path) -> Iterator[Json]:
    """The objects of a file; lists are taken apart."""
    try:
        documents = [each for each in load_yaml(read_at_most(file, MAX_YAML)) if each]
    except (OSError, TooMuchError, yaml.YAMLError) as error:
        raise ScenarioError(f"{file}: {error}") from error
    for document in documents:
        for each in document.get("items", [document]) if isinstance(document, dict) else [document]:
            if not isinstance(each, dict) or not {"kind", "metadata"} <= each.keys():
                raise ScenarioError(f"{file}: holds something that isn't a Kubernetes object")
            yield each


def _name(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"
