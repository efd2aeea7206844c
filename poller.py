#!/usr/bin/env python3
"""poller: a Kubernetes scheduler in one small loop.

Which pods have no node yet? Which node is best for each? Tell the API server, wait, ask again.

Each name here is explained where it is defined: the parts of `Poller` in lib/service/steps.py, the scheduling
cycle in lib/scheduling/scheduling_cycle.py, what is written in lib/service/writes/writes.py.
"""

import lib.startup  # first: if poller can't run, it says what to do; isort: skip

from collections.abc import Iterable
from math import inf

from lib.scheduling.hints import freed_room
from lib.service.steps import Poller
from lib.service.writes.results import Completed, Result


def tick(poller: Poller) -> None:
    """Apply the changes in the cluster, and place the pods that are to be tried now. Raises ApiError."""
    leads = poller.leads()  # before the poll, so that the poll shows all writes of an earlier leader
    for change in poller.changes():  # kubectl get pods, nodes
        try:
            poller.cache.apply(change)
            if why := poller.queue.apply(change, poller.now()):
                poller.report.skipped(change.object, why)
        except Exception as error:  # of this object alone: the next change follows
            poller.report.not_processed(change, error)
    if leads:
        place(poller)


def place(poller: Poller) -> None:
    """Decide for each pod that is ready, and bind it."""
    with poller.writing():
        try:
            for pods in poller.ready():  # for pod in ...: one pod, or a group that is placed all or none
                for decision in poller.schedule(pods):  # node=...: filter, score, pick, assume, Permit
                    poller.writes.submit(decision)  # curl -d ... /binding
                finish(poller, poller.writes.completed())
        finally:  # conditions, events and evictions are sent, too; all answers may come in later ticks
            finish(poller, poller.writes.drain())


def finish(poller: Poller, completed: Iterable[Completed]) -> None:
    """Handle each result: lead its pod to the next phase of its life."""
    for written in completed:
        decision, result, lives, now = written.decision, written.result, poller.lives, poller.now()
        uid = decision.pod.metadata.uid
        if result == Result.BOUND:
            poller.report.bound(decision)
            if (life := lives.get(uid)) and life.nominated not in ("", decision.node_name):
                poller.queue.apply(freed_room(decision.pod, life.nominated), now)  # that room is free now
            lives.bound(uid, now)
        elif result == Result.NOT_WRITTEN:
            lives.bound(uid, inf)
        elif result == Result.WAITING:  # its node is reserved; Permit or PreBind runs again at the next tick
            poller.report.waiting(decision)
            lives.hold(uid, decision.message)
        elif result == Result.UNSCHEDULABLE:
            poller.try_later(decision)
        elif result == Result.FAILED:
            poller.report.not_bound(decision, written.error)
            poller.try_later(poller.follow_up.free(decision))
        elif result == Result.DOUBTFUL:  # it may be bound, so its room stays reserved until it is looked up
            poller.report.not_bound(decision, written.error)
            lives.doubt(uid, now)
            poller.try_later(decision)
        elif result == Result.TAKEN:
            poller.report.taken(decision, written.why)
            poller.follow_up.taken(decision.pod, written.now)
        elif result == Result.NOT_SENT:  # tried again at the next tick
            poller.follow_up.free(decision)
        elif result == Result.FOUND:
            poller.follow_up.found(decision.pod, written.now)
        elif result == Result.NOT_FOUND_OUT:
            poller.look_up_later(written)
        elif result == Result.NOT_RECORDED:
            poller.queue.requeue(uid, (), decision.message, now)  # its records may be outdated


def loop(poller: Poller) -> None:
    """Tick, once or until a signal raises Stopped."""
    try:
        poller.run_tick(tick)
        while not poller.options.once:
            finish(poller, poller.wait())  # sleep 1
            poller.run_tick(tick)
    finally:
        finish(poller, poller.end())  # what was sent


if __name__ == "__main__":
    lib.startup.run(loop)
