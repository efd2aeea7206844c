"""The writes of a pod's binding cycle: for PreBind its volumes, then the binding.

Source: pkg/scheduler/schedule_one.go, bindingCycle
"""

import logging
from collections.abc import Callable, Mapping

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.pod_writes import Fate, bind, nominate
from lib.kube.storage_writes import write_assumed
from lib.kube.write import Together, Write
from lib.scheduling.decision import Decision, Outcome
from lib.service.writes.results import Completed, Result

log = logging.getLogger(__name__)


def binding(
    decision: Decision, annotations: Mapping[str, str], clock: Callable[[], float]
) -> Write[Completed]:
    """Bind a pod to the node that was picked. Any error affects this pod only."""
    assert decision.node_name
    try:
        fate, now = yield from bind(decision.pod, decision.node_name, annotations)
    except Exception as error:
        return _failed(decision, error, 'Bind plugin "DefaultBinder"')
    finally:
        ended = clock()
        decision.binding += ended - decision.ended
        decision.ended = ended
    if fate == Fate.BOUND:
        return Completed(decision, Result.BOUND)
    return Completed(decision, Result.TAKEN, why=fate.value, now=now)


def volumes(decision: Decision) -> Write[Completed]:
    """Write what a PreBind plugin waits for; before that, the pod's nominated node."""
    assert decision.node_name
    pod, written = decision.pod, []
    try:
        if pod.status.nominated_node_name != decision.node_name:
            (error,) = yield Together([nominate(pod, decision.node_name)])
            if isinstance(error, UnreachableError | NotLeadingError):
                raise error
            if error:  # the volumes are bound all the same, as in kube-scheduler
                log.warning("%s is not nominated to %s: %s", pod, decision.node_name, error)
        for thing in decision.writes:
            now = yield from write_assumed(thing)
            written.append(now)
    except Exception as error:
        if isinstance(error, ApiError):
            error.unsettled = False  # the binding was not sent
        return _failed(decision, error, 'PreBind plugin "VolumeBinding"')
    decision.writes = tuple(written)
    return Completed(decision, Result.WAITING)


def _failed(decision: Decision, error: Exception, where: str) -> Completed:
    """The result of a binding that failed; the decision says why in kube-scheduler's words."""
    failed = as_api_error(error)
    if failed is not error:
        log.debug("%s: binding failed", decision.pod, exc_info=error)
    if isinstance(failed, UnreachableError | NotLeadingError) and not failed.unsettled:
        return Completed(decision, Result.NOT_SENT)
    decision.outcome, decision.reason = Outcome.ERROR, f"running {where}: {failed}"
    return Completed(decision, Result.DOUBTFUL if failed.unsettled else Result.FAILED, error=failed)
