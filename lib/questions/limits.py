"""Limit ranges: the default requests of containers, and which pods a namespace refuses.

Source: plugin/pkg/admission/limitranger/admission.go
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import gt, lt

import msgspec

from lib.kube.objects import Json, NamedObject, Object, Pod, with_parts
from lib.kube.quantity import Quantity
from lib.scheduling.resources import Resources, amounts, pod_limits, pod_requests
from lib.scheduling.text import exact_amount


class LimitRangeItem(Object):
    """The limits of containers or of pods. default: limits for containers without any; likewise requests."""

    type: str = ""
    default_request: dict[str, Quantity] = msgspec.field(default_factory=dict)
    default: dict[str, Quantity] = msgspec.field(default_factory=dict)
    min: dict[str, Quantity] = msgspec.field(default_factory=dict)
    max: dict[str, Quantity] = msgspec.field(default_factory=dict)
    max_limit_request_ratio: dict[str, Quantity] = msgspec.field(default_factory=dict)


class LimitRangeSpec(Object):
    """The limits of a namespace."""

    limits: list[LimitRangeItem] = msgspec.field(default_factory=list)


class LimitRange(NamedObject):
    """core/v1 LimitRange."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)


def items_of(ranges: Iterable[LimitRange], namespace: str) -> list[LimitRangeItem]:
    """All limits of a namespace."""
    return [
        item
        for limit_range in ranges
        if limit_range.metadata.namespace == namespace
        for item in limit_range.spec.limits
    ]


def set_defaults(resources: Json, items: Iterable[LimitRangeItem]) -> None:
    """Add the limits and requests that a container doesn't name: its namespace's, else its limits.

    resources: the container's `limits` and `requests`; both are there.
    A limit range in a manifest needn't name all defaults: SetDefaults_LimitRangeItem in
    pkg/apis/core/v1/defaults.go.
    """
    limits, requests = resources["limits"], resources["requests"]
    default_limits, default_requests = dict[str, Quantity](), dict[str, Quantity]()
    for item in items:
        if item.type == "Container":
            of_item = {**item.max, **item.default}
            default_limits |= of_item
            default_requests |= {**item.min, **of_item, **item.default_request}
    resources["limits"] = {**_texts(default_limits), **limits}
    # The API's own default, the limits, is set before the namespace's.
    resources["requests"] = {**_texts(default_requests), **limits, **requests}


def _texts(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    """Quantities as a pod has them in its manifest."""
    return {name: exact_amount(name, amount) for name, amount in amounts(quantities).items()}


def refusals(
    containers: Iterable[tuple[Resources, Resources]],
    pod: Pod,
    items: Iterable[LimitRangeItem],
) -> Iterator[str]:
    """In the API server's words, why its namespace doesn't allow a pod.

    containers: the requests and limits of each. The overhead of the pod's sandbox doesn't count.
    """
    bare = with_parts(pod, spec={"overhead": {}})
    for item in items:
        if item.type == "Container":
            for requests, limits in containers:
                yield from _against(item, requests, limits)
        elif item.type == "Pod":
            yield from _against(item, pod_requests(bare), pod_limits(bare))


def _against(item: LimitRangeItem, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    of = {"request": requests, "limit": limits}
    for bounds, word, first, other, beyond in (
        (item.min, "minimum", "request", "limit", lt),
        (item.max, "maximum", "limit", "request", gt),
    ):
        for name, bound in amounts(bounds).items():
            usage = f"{word} {name} usage per {item.type} is {exact_amount(name, bound)}"
            if name not in of[first]:
                yield f"{usage}. No {first} is specified"
                continue
            wrong = [what for what in (first, other) if name in of[what] and beyond(of[what][name], bound)]
            for what in wrong[:1]:
                yield f"{usage}, but {what} is {exact_amount(name, of[what][name])}"
    for name, most in item.max_limit_request_ratio.items():
        usage = f"{name} max limit to request ratio per {item.type} is {exact_amount('cpu', most.milli)}"
        if missing := [word for word in of if not of[word].get(name)]:
            yield f"{usage}, but no {missing[0]} is specified or {missing[0]} is 0"
        elif (ratio := limits[name] / requests[name]) * 1000 > most.milli:
            yield f"{usage}, but provided ratio is {ratio:f}"
