#!/usr/bin/env python3
"""poller: a Kubernetes scheduler in one small loop.

Which pods have no node yet? Which node is best for each? Tell the API server, wait, ask again.

Each name here is explained where it is defined: the parts of `Poller` in lib/service/steps.py, the scheduling
cycle in lib/scheduling/scheduling_cycle.py, the binding cycle in lib/service/binding_cycle.py.
"""

import time
from collections.abc import Iterable

import lib.startup  # first: if poller can't run, it says what to do
from lib.service.binding_cycle import Completed, Result
from lib.service.steps import Poller


def tick(poller: Poller) -> None:
    """Apply the changes in the cluster, and place the pods that are to be tried now. Raises ApiError."""
    leads = poller.leads()  # before the poll, so that the poll shows all writes of an earlier leader
    for change in poller.changes():  # kubectl get pods, nodes
        with poller.skip_on_error(change):
            poller.cache.apply(change)
            if why := poller.queue.apply(change, time.monotonic()):
                poller.report.skipped(change.object, why)
    if leads:
        place(poller)


def place(poller: Poller) -> None:
    """Decide for each pod that is ready, and bind it."""
    with poller.writing():
        try:
            for decision in poller.recheck_permit():  # pods that wait for Permit
                poller.binding_cycle.submit(decision)
            for pods in poller.ready():  # for pod in ...: one pod, or a group that is placed all or none
                for decision in poller.schedule(pods):  # node=...: filter, score, pick, assume
                    poller.binding_cycle.submit(decision)  # curl -d ... /binding
                finish(poller, poller.binding_cycle.completed())
                finish(poller, poller.recorder.written(poller.queue.uids()))  # kubectl delete pod, of victims
        finally:  # also after a signal: handle what was sent, and write the events of bound pods
            finish(poller, poller.binding_cycle.drain())
            finish(poller, poller.recorder.flush(poller.queue.uids()))  # curl -d ... /events


def finish(poller: Poller, completed: Iterable[Completed]) -> None:
    """Handle each result of a binding cycle."""
    for each in completed:
        decision, result, now = each.decision, each.result, time.monotonic()
        uid = decision.pod.metadata.uid
        if result == Result.BOUND:
            poller.report.bound(decision)
            poller.recorder.scheduled(decision)
            poller.unconfirmed.add(decision, now, settled=True)
            poller.queue.drop(uid)
        elif result == Result.NOT_WRITTEN:
            poller.queue.drop(uid)
        elif result == Result.WAITING:  # its node is reserved; Permit or PreBind runs again at the next tick
            poller.report.waiting(decision)
            poller.waiting_pods.hold(decision, now)
            poller.recorder.nominated(decision)
            poller.queue.hold_for_permit(uid, decision.message)
        elif result == Result.UNSCHEDULABLE:  # tried again after a change that could help it
            poller.recorder.failed_scheduling(decision)
            poller.queue.requeue(uid, decision.rejected_by, decision.message, now)
            if decision.nominated:
                poller.queue.await_victims(uid, (*decision.victims, *decision.preempted_held))
        elif result == Result.REJECTED:
            poller.report.rejected(decision)
            poller.recorder.failed_scheduling(decision)
            poller.wake_for_room_of(decision)
            poller.queue.requeue(uid, decision.rejected_by, decision.message, now)
        elif result == Result.TAKEN:
            poller.report.taken(decision, each.why)
            poller.undo_taken(decision, each.now)
        elif result == Result.FAILED:  # tried again after a backoff
            poller.report.not_bound(decision, each.error)
            poller.free_room(decision)
            poller.recorder.failed_scheduling(decision)
            poller.queue.requeue(uid, (), f"its binding to {decision.node_name} failed", now)
        elif result == Result.UNSETTLED:  # likewise; it may be bound, so it stays assumed until then
            poller.report.not_bound(decision, each.error)
            poller.unconfirmed.add(decision, now, settled=False)
            poller.cache.hold(decision.pod)
            poller.recorder.failed_scheduling(decision, may_be_bound=True)
            poller.queue.requeue(uid, (), f"its binding to {decision.node_name} failed", now)
        elif result == Result.NOT_SENT:  # tried again at the next tick
            poller.free_room(decision)
            poller.queue.activate(uid)
        elif result == Result.NOT_RECORDED and uid not in poller.waiting_pods:
            poller.queue.requeue(uid, (), decision.message, now)  # its records may be outdated


def loop(poller: Poller) -> None:
    """Tick, once or until a signal raises Stopped."""
    poller.run_tick(tick)
    while not poller.options.once:
        poller.wait()  # sleep 1
        poller.run_tick(tick)


if __name__ == "__main__":
    lib.startup.run(loop)
