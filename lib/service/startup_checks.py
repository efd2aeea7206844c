"""Warnings at the start: missing rights, namespaces that don't exist, names that may be misspelled.

If a check fails, it is skipped.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from math import inf

from lib.kube.api import Api
from lib.kube.election import LeaderElection
from lib.kube.errors import ApiError, NotFoundError, StartingError, StatusError
from lib.kube.lookup import PATIENCE, Lookup
from lib.kube.objects import Lease, Namespace, Pod
from lib.kube.paths import paths_of, segment
from lib.kube.resources import ALL, NAMESPACES, PODS
from lib.kube.source import MAIN_SCHEDULER
from lib.service.rights import Right, missing_rights, rules_for
from lib.service.telemetry.report import Report

log = logging.getLogger(__name__)

LOOK_AGAIN = 60.0
"""Seconds until misspelled scheduler names are looked for, or rights reviewed, again."""

SIMILAR = 0.8
"""The similarity of two names that differ in one or two of ten letters: difflib's ratio, from 0 to 1."""

KUBE_SCHEDULER = "kube-system/kube-scheduler"
"""The lease of kube-scheduler: its namespace and its name."""

KUBE_SCHEDULER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


Check = Callable[[], Sequence[str]]
"""A check; it returns what to warn of."""


class StartupChecks:
    """Checks that are made once, when the API server is reachable, in threads: no pod needs the answers.

    api: for quick reads. rights: those that poller needs. election: of the leader. missing_namespaces: served
    namespaces that don't exist.
    """

    def __init__(
        self,
        api: Api,
        scheduler_names: Sequence[str],
        namespaces: Sequence[str],
        rights: Sequence[Right],
        report: Report,
        election: LeaderElection | None = None,
    ) -> None:
        self.missing_namespaces: list[str] = []
        self._api = api
        self._scheduler_names = scheduler_names
        self._namespaces = namespaces
        self._rights = rights
        self._report = report
        self._reviews = Lookup("rights", self._review_rights, max_age=inf, system=api.system)
        self._checks = Lookup("checks", _warnings_of, max_age=inf, system=api.system)
        self._to_check: list[Check] = [partial(self._check_namespace, name) for name in namespaces]
        if MAIN_SCHEDULER in scheduler_names and str(election) != KUBE_SCHEDULER:  # else they take turns
            self._to_check.append(self._check_kube_scheduler)
        self._rights_known = False
        self._look_again_at = self._review_again_at = 0.0
        self._said: set[str] = set()

    @contextmanager
    def during_poll(self, patience: float = PATIENCE) -> Iterator[None]:
        """A block that polls. At its end, also after an ApiError, all rights that are missing are named.

        A thread reviews the rights meanwhile, because there are dozens of reviews, and the first poll mostly
        waits. If the reviews take longer than `patience`, in seconds, after a poll that succeeds, the missing
        rights are named later.
        """
        if self._rights_known or self._api.system.monotonic() < self._review_again_at:
            yield
            return
        self._reviews.begin([ALL])
        try:
            yield
        except ApiError:
            self._name_missing(inf)
            raise
        self._name_missing(patience)
        if not self._reviews.is_under_way:
            self._review_again_at = (
                self._api.system.monotonic() + LOOK_AGAIN
            )  # polls work: only reviews may fail

    def _review_rights(self, _: str) -> list[Right] | None:
        """The missing rights; None if they aren't known yet.

        No ApiError is kept: an exception refers to the requests that have failed, and these to connections.
        """
        try:
            missing = missing_rights(self._api, self._rights)
            if missing and self._api.is_starting():
                return None
            return missing_rights(self._api, missing)  # once more: it may have been starting until now
        except StartingError:
            return None
        except StatusError as error:
            log.debug("which rights are missing isn't known: %s", error)
            return []
        except ApiError as error:  # the poll reports it
            log.debug("which rights are missing isn't known yet: %s", error)
            return None

    def _name_missing(self, patience: float) -> None:
        self._reviews.wait(self._api.system.monotonic() + patience)
        rights = self._reviews.of(ALL)
        if rights is None or isinstance(rights, ApiError):  # they aren't known yet
            return
        self._rights_known = True
        if not rights:
            return
        for namespace, rules in rules_for(rights).items():
            role = f"Role in namespace {namespace}" if namespace else "ClusterRole"
            self._report.warning(f"kubectl proxy's user lacks rights. Add these rules to its {role}:")
            for rule in rules:
                self._report.warning(f"- {rule}")

    def after_poll(self, patience: float = PATIENCE) -> None:
        """After the API server has answered: warn of misspelled names.

        If the checks take longer than `patience`, in seconds, the warnings come later.
        """
        if self._api.system.monotonic() >= self._look_again_at:
            self._look_again_at = self._api.system.monotonic() + LOOK_AGAIN
            self._to_check.append(self._check_pods)
        self._checks.begin(self._to_check)
        self._checks.wait(self._api.system.monotonic() + patience)
        for check in self._to_check.copy():
            warnings = self._checks.of(check)
            if not isinstance(warnings, ApiError):  # else the answer hasn't come yet
                self._to_check.remove(check)
                for warning in warnings:
                    self._report.warning(warning)

    def _check_namespace(self, name: str) -> Sequence[str]:
        try:
            self._api.get(f"{NAMESPACES.path}/{segment(name)}", Namespace)
        except NotFoundError:
            self.missing_namespaces.append(name)
            return [f"--namespace: namespace {name} not found"]
        return []

    def _check_kube_scheduler(self) -> Sequence[str]:
        """Warn if kube-scheduler runs: both would schedule the pods of default-scheduler."""
        holder = self._api.get(KUBE_SCHEDULER_LEASE, Lease).spec.holder_identity
        if not holder:
            return []
        return [
            f"kube-scheduler schedules the pods of {MAIN_SCHEDULER}, too: {holder} holds the lease"
            f" {KUBE_SCHEDULER}. Stop it, or give poller another --scheduler-name"
        ]

    def _check_pods(self) -> Sequence[str]:
        """Warn about pods that wait for a scheduler with a name similar to ours."""
        others = ",".join(f"spec.schedulerName!={name}" for name in {*self._scheduler_names, MAIN_SCHEDULER})
        pods: list[Pod] = []
        for path in paths_of(PODS, self._namespaces):
            selector = f"spec.nodeName=,{others}"
            pods += self._api.list(path, Pod, fieldSelector=selector, resourceVersion="0").items
        by_name: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            by_name[pod.spec.scheduler_name].append(pod)
        warnings: list[str] = []
        for name, waiting in by_name.items():
            near = get_close_matches(name, self._scheduler_names, n=1, cutoff=SIMILAR)
            if near and name not in self._said:
                from lib.scheduling.text import names, verb  # here, as few runs need it

                self._said.add(name)
                warnings.append(
                    f"{names([str(pod) for pod in waiting], 2)} {verb(len(waiting), 'waits', 'wait')} for a "
                    f"scheduler named {name}; "
                    f"this one is {near[0]}: is that a misspelling?"
                )
        return warnings


def _warnings_of(check: Check) -> Sequence[str]:
    try:
        return check()
    except ApiError as error:
        log.debug("a check is skipped: %s", error)
        return []
