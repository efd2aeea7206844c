"""What nodes use now, as the API metrics.k8s.io told in the last minutes."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import takewhile
from math import inf

from lib.kube.objects import NodeMetrics

MAX_SAMPLES = 20
"""At most so many samples of a node are kept: with metrics-server, those of five minutes."""

REFRESH = 10.0
"""After so many seconds the metrics are read again, if a pod needs them; metrics-server's are 15 s apart."""


class Load:
    """The samples of each node, the newest first.

    It never changes: `with_more` returns another one. read: when it was read, in seconds of the loop's clock.
    """

    def __init__(self, samples: Mapping[str, list[NodeMetrics]] | None = None, read: float = -inf) -> None:
        self._samples, self.read = samples or {}, read

    def is_old(self, now: float) -> bool:
        """Whether it is time to read the metrics again."""
        return now - self.read >= REFRESH

    def with_more(self, found: Iterable[NodeMetrics], now: float) -> "Load":
        """With the metrics that were read now. Nodes that aren't among them are forgotten."""
        samples = {}
        for metrics in found:
            known = self._samples.get(metrics.metadata.name, [])
            is_new = not known or known[0].timestamp != metrics.timestamp
            samples[metrics.metadata.name] = [metrics, *known][:MAX_SAMPLES] if is_new else known
        return Load(samples, now)

    def read_in_vain(self, now: float) -> "Load":
        """The same, after the metrics could not be read."""
        return Load(self._samples, now)

    def since(self, node: str, earliest: datetime) -> list[NodeMetrics]:
        """The samples of a node that aren't older, the newest first."""
        samples = self._samples.get(node, [])
        return [*takewhile(lambda each: each.timestamp is not None and each.timestamp >= earliest, samples)]
