"""Where poller's answers differ from kube-scheduler's on purpose, each with the reason."""

import json
from collections.abc import Callable
from typing import NamedTuple

from .kube_scheduler import Json


class Intended(NamedTuple):
    """A difference that is meant. is_about: whether an ask may show it."""

    reason: str
    is_about: Callable[[Json], bool]


INTENDED = (
    Intended(
        "kubernetes/kubernetes 141526: to kube-scheduler 1.36.2, a term of the pod with a namespaceSelector "
        "of NotIn or DoesNotExist matches all namespaces: it looks at none of their labels",
        lambda ask: any(
            '"operator": "NotIn"' in each or '"operator": "DoesNotExist"' in each
            for each in json.dumps(ask).split('"namespaceSelector"')[1:]
        ),
    ),
)
"""None of them is about a case that Kubernetes' own tests show."""


def reason_for(ask: Json) -> str:
    """Why a difference in the answers to an ask may be meant; "" if it isn't."""
    return next((each.reason for each in INTENDED if each.is_about(ask)), "")
