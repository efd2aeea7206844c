#!/usr/bin/env python3
"""Draws which share of the GPUs isn't allocated, against how much has arrived.

It is the figure of "Beware of Fragmentation" (USENIX ATC'23), section 6.2.

gpu_sharing.py FIGURE.png RESULT.csv...    a RESULT is what `poller.py replay --inflate ... -o csv` prints

A line is the median of a policy's replays; the band around it holds the half of them that is in the middle.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median, pstdev, quantiles

from matplotlib.figure import Figure

NAMES = {
    "random.py": "Random",
    "dot_prod.py": "DotProd",
    "gpu_clustering.py": "Clustering",
    "gpu_packing.py": "Packing",
    "best_fit.py": "BestFit",
    "fgd.py": "FGD",
}
"""The paper's names, in the order of its legend."""

DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


def main(figure: str, *files: str) -> None:
    by_policy: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        header, *rows = csv.reader(Path(file).read_text().splitlines())
        arrived = header.index("arrived_percent")
        for row in rows:
            by_policy[row[0]][round(float(row[arrived]) / 5) * 5].append(float(row[-1]))
    picture = Figure(figsize=(10, 4), layout="constrained")
    axes = picture.subplots()
    order = [*NAMES]
    known = sorted(by_policy, key=lambda name: order.index(name) if name in order else len(order))
    for policy, dash in zip(known, reversed(DASHES[: len(known)]), strict=True):
        points = by_policy[policy]
        free = {at: sorted(100 - each for each in found) for at, found in points.items()}
        (line,) = axes.plot(
            list(free),
            [median(each) for each in free.values()],
            label=NAMES.get(policy, policy),
            linestyle=dash,
            linewidth=2,
        )
        if all(len(each) > 1 for each in free.values()):
            middle = [quantiles(each, n=4, method="inclusive") for each in free.values()]
            low, high = [each[0] for each in middle], [each[2] for each in middle]
            axes.fill_between(list(free), low, high, color=line.get_color(), alpha=0.2)
        last = points[max(points)]
        print(f"{policy:20} {fmean(last):6.2f} % ± {pstdev(last):.2f} allocated, {len(last)} replays")
    axes.plot([0, 100], [100, 0], label="Ideal", linestyle=":", color="grey")
    axes.set_xlabel("Arrived workloads (in % of cluster GPU capacity)")
    axes.set_ylabel("Unallocated GPU (%)")
    axes.set_xlim(75, 120)
    axes.set_ylim(0, 25)
    axes.grid(linestyle="-.", alpha=0.8)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1.03), frameon=False)
    picture.savefig(figure, dpi=144)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
