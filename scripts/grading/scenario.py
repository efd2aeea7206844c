"""Scenarios: folders with a cluster, the pods to place, and the expected result.

`scenario.yaml` says what is expected; `cluster.yaml` holds nodes, and pods that run already, in manifests or
as `kubectl get nodes,pods -A -o yaml` prints them; `pods.yaml` holds manifests.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lib.kube.bounded_files import MAX_YAML, TooMuchError, read_at_most
from lib.kube.kubernetes_yaml import load_documents
from lib.questions.errors import QuestionError
from lib.questions.manifests import read_manifests

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


class Worth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an expectation is worth.

    points: all of them if it is met. none_at: from this value on there are none; values between get a part.
    Without it, a value that isn't as expected gets none.
    """

    points: float = 1
    none_at: float | None = None


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each expectation is worth."""

    placed: Worth = Worth()
    nodes_used: Worth = Worth()
    cost: Worth = Worth()
    spread: Worth = Worth()
    avoid: Worth = Worth()
    evicted: Worth = Worth()


class Hidden(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other clusters of the same kind, on which a policy must do as well.

    secret: with the student's name it says how they differ from the open one.
    """

    clusters: int = 2
    secret: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    expect: Expected
    rubric: Rubric = Rubric()
    hidden: Hidden = Hidden()


class Scenario:
    """A scenario. nodes: by name. running: the node of each pod that runs already, by NAMESPACE/NAME.

    objects: those of the cluster. manifests: those of the pods to place. is_hidden: students haven't seen it.
    """

    def __init__(self, folder: Path) -> None:
        """Read the folder. ScenarioError when a file can't be read, or names an object that doesn't exist."""
        file = folder / "scenario.yaml"
        try:
            told = msgspec.convert(next(load_documents(read_at_most(file, MAX_YAML)), None), _File)
        except (OSError, TooMuchError, msgspec.MsgspecError, yaml.YAMLError) as error:
            raise ScenarioError(f"{file}: {error}") from error
        pods_file = (folder / "pods.yaml").resolve()
        try:
            manifests = read_manifests([pods_file], "default")
        except QuestionError as error:
            raise ScenarioError(str(error)) from error
        self.title, self.hidden, self.is_hidden = told.title, told.hidden, False
        self._set(list(_objects(folder / "cluster.yaml")), manifests, told.expect, told.rubric)
        for name in self.nodes:
            try:
                self.price_of(name)
            except (TypeError, ValueError):
                raise ScenarioError(f"{folder / 'cluster.yaml'}: {PRICE} of {name} is not a number") from None
        workloads = {each["metadata"].get("name") for each in manifests if each["kind"] != "PriorityClass"}
        for spread in self.expect.spread:
            if spread.of not in workloads:
                raise ScenarioError(f"{file}: spread of {spread.of}: {pods_file} has no such workload")
        for name in self.expect.avoid:
            if name not in self.nodes:
                raise ScenarioError(f"{file}: avoid {name}: cluster.yaml has no such node")

    def _set(
        self, objects: Sequence[Json], manifests: Sequence[Json], expect: Expected, rubric: Rubric
    ) -> None:
        self.objects, self.manifests, self.expect, self.rubric = objects, manifests, expect, rubric
        self.nodes: Mapping[str, Json] = {
            each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"
        }
        pods = [each for each in objects if each["kind"] == "Pod" and each["spec"].get("nodeName")]
        self.running = {_name(pod): pod["spec"]["nodeName"] for pod in pods}
        whole = {"kind": "List", "apiVersion": "v1", "items": objects}
        self.cluster = json.dumps(whole, default=str).encode()

    def like_this(
        self, objects: Sequence[Json], manifests: Sequence[Json], expect: Expected, rubric: Rubric
    ) -> "Scenario":
        """A hidden scenario of the same kind."""
        other = Scenario.__new__(Scenario)
        other.title, other.hidden, other.is_hidden = self.title, self.hidden, True
        other._set(objects, manifests, expect, rubric)
        return other

    def price_of(self, node: str) -> float:
        """The price of an hour of a node; 0 without the annotation."""
        said = (self.nodes[node]["metadata"].get("annotations") or {}).get(PRICE, 0)
        return float(said)

    def label_of(self, node: str, key: str) -> str:
        """The value of a node's label; empty without that label."""
        return str((self.nodes[node]["metadata"].get("labels") or {}).get(key, ""))


def _objects(file: Path) -> Iterator[Json]:
    """The objects of a file; lists are taken apart."""
    try:
        documents = [each for each in load_documents(read_at_most(file, MAX_YAML)) if each]
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
