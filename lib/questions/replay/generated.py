"""Traces that are made up: pods of a few sizes arrive at random."""

import re
from collections.abc import Iterator, Mapping

from lib.kube.objects import Pod
from lib.kube.system import MACHINE
from lib.questions.errors import QuestionError
from lib.questions.manifests import convert
from lib.questions.replay.trace import Arrival, Made

SIZES: Mapping[str, tuple[str, str]] = {
    "small": ("250m", "512Mi"),
    "medium": ("1", "2Gi"),
    "large": ("4", "16Gi"),
    "huge": ("16", "64Gi"),
}
"""What a pod of each size requests: cpu, memory."""

PER = {"s": 1.0, "min": 60.0, "h": 3600.0}


def generated(arrivals: str, mix: str, length: float, mean_run: float, seed: int) -> Made:
    """Pods that arrive for `length` seconds, and run for `mean_run` seconds in the mean.

    arrivals: such as poisson:20/min; the times between two pods are exponential, and so is how long each
    runs. mix: sizes with weights, such as small=70,large=30. QuestionError when one of them is wrong. The
    same seed makes the same pods.
    """
    form = re.fullmatch(r"poisson:(\d{1,9}(?:\.\d{1,9})?)/(s|min|h)", arrivals)
    if not form or not float(form[1]):
        raise QuestionError(f"--arrivals {arrivals}: is not of the form poisson:20/min; also /s and /h")
    if not mean_run:
        raise QuestionError("--runs-for: must be longer than 0s")
    rate = float(form[1]) / PER[form[2]]
    weights = _weights(mix)
    pods = {size: _pod(*SIZES[size]) for size in weights}

    def make() -> Iterator[Arrival]:
        random = MACHINE.random(seed)
        at, number = random.expovariate(rate), 0
        while at <= length:
            number += 1
            (size,) = random.choices([*weights], [*weights.values()])
            yield Arrival(at, f"{size}-{number}", pods[size], random.expovariate(1 / mean_run))
            at += random.expovariate(rate)

    return Made(make, sum(1 for _ in make()))


def _weights(mix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in mix.split(","):
        size, _, weight = part.partition("=")
        if size not in SIZES or not re.fullmatch(r"\d{1,9}", weight) or size in found:
            known = ", ".join(SIZES)
            raise QuestionError(f"--mix {mix}: is not of the form small=70,large=30; sizes are {known}")
        found[size] = float(weight)
    if not any(found.values()):
        raise QuestionError(f"--mix {mix}: one of the weights must be more than 0")
    return found


def _pod(cpu: str, memory: str) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    return convert({"metadata": {"name": "like", "namespace": "default"}, "spec": spec}, Pod, "a pod")
