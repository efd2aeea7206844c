"""Warnings at the start: missing rights, namespaces that don't exist, names that may be misspelled.

If a check fails, it is skipped.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from difflib import get_close_matches

from lib.kube.api import Api
from lib.kube.errors import ApiError, NotFoundError, StatusError
from lib.kube.objects import Lease, Namespace, Pod
from lib.kube.paths import NAMESPACES, paths_of, segment
from lib.kube.source import MAIN_SCHEDULER
from lib.service.rights import Right, missing_rights, rules_for
from lib.service.telemetry.report import Report

log = logging.getLogger(__name__)

LOOK_AGAIN = 60.0
"""Seconds until misspelled scheduler names are looked for, or rights reviewed, again."""

ALIKE = 0.8
"""The similarity of two names that differ in one or two of ten letters: difflib's ratio, from 0 to 1."""

KUBE_SCHEDULER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class StartupChecks:
    """Checks that are made once, when the API server is reachable.

    api: for quick reads. rights: those that poller needs. missing_namespaces: served namespaces that don't
    exist.
    """

    def __init__(
        self,
        api: Api,
        scheduler_names: Sequence[str],
        namespaces: Sequence[str],
        rights: Sequence[Right],
        report: Report,
    ) -> None:
        self.missing_namespaces: list[str] = []
        self._api = api
        self._scheduler_names = scheduler_names
        self._namespaces = namespaces
        self._rights = rights
        self._report = report
        self._rights_known = self._checked = False
        self._look_again_at = self._review_again_at = 0.0
        self._said: set[str] = set()

    @contextmanager
    def during_poll(self) -> Iterator[None]:
        """A block that polls. At its end, also after an ApiError, all rights that are missing are named.

        A thread reviews them meanwhile: there are dozens of reviews, and the first poll mostly waits.
        """
        if self._rights_known or time.monotonic() < self._review_again_at:
            yield
            return
        missing: Future[list[Right] | None] = Future()
        threading.Thread(target=self._review_rights, args=(missing,), name="rights", daemon=True).start()
        try:
            yield
        except ApiError:
            self._name_missing(missing.result())
            raise
        self._name_missing(missing.result())
        self._review_again_at = time.monotonic() + LOOK_AGAIN  # polls work: only reviews may hang

    def _review_rights(self, missing: Future[list[Right] | None]) -> None:
        """The thread's function: finds the missing rights; None if they aren't known yet.

        It keeps no ApiError: an exception refers to the requests that have failed, and these to connections.
        """
        try:
            missing.set_result(missing_rights(self._api, self._rights))
        except StatusError as error:
            log.debug("which rights are missing isn't known: %s", error)
            missing.set_result([])
        except ApiError as error:  # the poll reports it
            log.debug("which rights are missing isn't known yet: %s", error)
            missing.set_result(None)
        except Exception as error:
            missing.set_exception(error)

    def _name_missing(self, rights: Sequence[Right] | None) -> None:
        if rights is None:
            return
        self._rights_known = True
        for namespace, rules in rules_for(rights).items():
            role = f"Role in namespace {namespace}" if namespace else "ClusterRole"
            self._report.warning(f"kubectl proxy's user lacks rights. Add these rules to its {role}:")
            for rule in rules:
                self._report.warning(f"- {rule}")

    def after_poll(self) -> None:
        """After the API server has answered: look for misspelled names."""
        if not self._checked:
            self._checked = True
            self._check_namespaces()
            if MAIN_SCHEDULER in self._scheduler_names:
                self._check_kube_scheduler()
        if time.monotonic() >= self._look_again_at:
            self._look_again_at = time.monotonic() + LOOK_AGAIN
            self._check_pods()

    def _check_namespaces(self) -> None:
        for name in self._namespaces:
            try:
                self._api.get(f"{NAMESPACES}/{segment(name)}", Namespace)
            except NotFoundError:
                self.missing_namespaces.append(name)
                self._report.warning(f"--namespace: namespace {name} not found")
            except ApiError as error:
                log.debug("whether namespace %s exists can't be seen: %s", name, error)

    def _check_kube_scheduler(self) -> None:
        """Warn if kube-scheduler runs: both would schedule the pods of default-scheduler."""
        try:
            holder = self._api.get(KUBE_SCHEDULER_LEASE, Lease).spec.holder_identity
        except ApiError as error:
            log.debug("whether kube-scheduler runs can't be seen: %s", error)
            return
        if holder:
            self._report.warning(
                f"kube-scheduler schedules the pods of {MAIN_SCHEDULER}, too: {holder} holds the lease"
                " kube-system/kube-scheduler. Stop it, or give poller another --scheduler-name"
            )

    def _check_pods(self) -> None:
        """Warn about pods that wait for a scheduler with a name similar to ours."""
        others = ",".join(f"spec.schedulerName!={name}" for name in {*self._scheduler_names, MAIN_SCHEDULER})
        pods: list[Pod] = []
        try:
            for path in paths_of("pods", self._namespaces):
                selector = f"spec.nodeName=,{others}"
                pods += self._api.list(path, Pod, fieldSelector=selector, resourceVersion="0").items
        except ApiError as error:
            log.debug("pods that wait for other schedulers can't be seen: %s", error)
            return
        by_name: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            by_name[pod.spec.scheduler_name].append(pod)
        for name, waiting in by_name.items():
            near = get_close_matches(name, self._other_than(name), n=1, cutoff=ALIKE)
            if near and name not in self._said:
                self._said.add(name)
                self._report.warning(
                    f"{waiting[0]}{_and_more(len(waiting) - 1)} waits for a scheduler named {name}; "
                    f"this one is {near[0]}: is that a misspelling?"
                )

    def _other_than(self, name: str) -> Iterable[str]:
        return [each for each in self._scheduler_names if each != name]


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count else ""
