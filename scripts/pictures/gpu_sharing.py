#!/usr/bin/env python3
"""Draws how much is allocated against how much has arrived: for each policy, the mean of its replays.

gpu_sharing.py FIGURE.svg RESULT.csv...    a RESULT is what `poller.py replay --inflate ... -o csv` prints
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, pstdev

from matplotlib.figure import Figure


def main(figure: str, *files: str) -> None:
    by_policy: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        header, *rows = csv.reader(Path(file).read_text().splitlines())
        arrived = header.index("arrived_percent")
        for row in rows:
            by_policy[row[0]][round(float(row[arrived]) / 5) * 5].append(float(row[-1]))
    picture = Figure(figsize=(8, 5), layout="constrained")
    axes = picture.subplots()
    for policy, points in sorted(by_policy.items(), key=lambda each: -fmean(each[1][max(each[1])])):
        axes.plot(list(points), [fmean(each) for each in points.values()], label=policy, linewidth=1.4)
        last = points[max(points)]
        print(f"{policy:20} {fmean(last):6.2f} % ± {pstdev(last):.2f}, {len(last)} replays")
    axes.set_xlabel("arrived, % of what there is")
    axes.set_ylabel("allocated, %")
    axes.set_xlim(left=70)
    axes.set_ylim(bottom=70)
    axes.grid(alpha=0.3)
    axes.legend()
    picture.savefig(figure, metadata={"Date": None} if figure.endswith(".svg") else None)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
