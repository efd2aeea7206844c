"""The pod templates in an object, and how many pods each is for: of workloads, and of custom resources.

A Deployment has one in spec.template; a JobSet, a RayCluster or a Volcano Job has several, in its own lists.
Sources: the API's types in kubernetes-sigs/jobset, kubernetes-sigs/lws, ray-project/kuberay
"""

from collections.abc import Iterator
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

from lib.kube.objects import Json
from lib.questions.errors import QuestionError

FACTORS = ("replicas", "numOfHosts")
"""Beside a template or around it: for how many pods it is."""


@dataclass(frozen=True)
class Template:
    """A pod template. role: the name of its part of the object, if it has one. count: of how many pods."""

    content: Json
    role: str
    count: int


def as_dict(value: Any, where: object) -> Json:
    """An object of a manifest, without null fields; QuestionError when it isn't an object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise QuestionError(f"{where}: {short(value)} stands where an object should")
    return {key: inner for key, inner in value.items() if inner is not None}


def pod_templates(part: Json, where: str, role: str = "", count: int = 1) -> Iterator[Template]:
    """The pod templates in a part of an object, which is for so many of the whole."""
    for factor in FACTORS:
        count *= _number(part, factor, 1, where)
    if part.get("completions") is not None or part.get("parallelism") is not None:  # it is a Job's
        parallelism = _number(part, "parallelism", 1, where)
        count *= min(parallelism, _number(part, "completions", parallelism, where))
    for key, inner in part.items():
        for name, found in _parts(key, inner):
            if not isinstance(found, dict):
                continue
            spec = found.get("spec") if key.lower().endswith("template") else None
            if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                yield Template(found, name or role, count * _of_group(part, key, where))
            else:
                yield from pod_templates(found, where, name or role, count)


def _parts(key: str, inner: object) -> Iterator[tuple[str, object]]:
    """The parts of a field's content, with what they are called."""
    if isinstance(inner, list):
        for i, item in enumerate(inner):
            named = item if isinstance(item, dict) else {}
            yield str(named.get("name") or named.get("groupName") or f"{key}-{i}"), item
    else:
        role = key.removesuffix("GroupSpec").removesuffix("Template").lower()
        yield "" if role in ("spec", "template", "job") else role, inner


def _of_group(part: Json, key: str, where: str) -> int:
    """How many of a LeaderWorkerSet's group are made of a template."""
    size = _number(part, "size", 1, where)
    if key == "workerTemplate":
        return size - ("leaderTemplate" in part)
    return 1


def _number(part: Json, field: str, usual: int, where: str) -> int:
    number = part.get(field)
    if number is None:
        return usual
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise QuestionError(f"{where}: {short(number)} is not a number of {field}")
    return number
