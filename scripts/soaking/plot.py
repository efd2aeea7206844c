"""Draws a soak."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from .figures import Figures, Rest

NAMES = {
    "memory": "memory, MiB",
    "descriptors": "descriptors",
    "threads": "threads",
    "bound": "pods bound in 5 s",
    "latency": "95% bound, ms",
}


def draw(samples: Sequence[Figures], rests: Sequence[Rest], warm_up: float, file: Path) -> None:
    """Draw the figures over time. What comes before `warm_up` is shaded: it isn't judged."""
    picture = Figure(figsize=(9, 10), layout="constrained")
    minutes = [each.seconds / 60 for each in samples]
    *rows, last = picture.subplots(len(NAMES) + 1, 1, sharex=True)
    for axes, (name, label) in zip(rows, NAMES.items(), strict=True):
        axes.plot(minutes, [getattr(each, name) for each in samples], linewidth=1.2)
        axes.set_ylabel(label)
    last.plot(
        [each.seconds / 60 for each in rests], [each.blocks / 1000 for each in rests], "o-", linewidth=1.2
    )
    last.set_ylabel("thousand blocks\nat rest")
    last.set_xlabel("minutes")
    for axes in (*rows, last):
        axes.axvspan(0, warm_up / 60, color="0.92")
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.grid(alpha=0.3)
    picture.align_ylabels()
    picture.savefig(file, dpi=110)
