"""Shows replays: as a table, as CSV, as a plot; and writes which node each pod got, while they run."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from math import isinf, isnan
from pathlib import Path
from typing import Any

from lib.kube.objects import Pod
from lib.questions.errors import CommandLineError, QuestionError, file_errors
from lib.questions.printing import Printer
from lib.questions.replay.figures import Figures
from lib.questions.replay.trace import Arrival
from lib.scheduling.text import count

CAUSES, LONGEST = 4, 5
"""So many causes of waits, and so many waits, are shown of a replay."""

STRIPS = 8
"""So many causes are drawn."""

COLUMNS = ("config", "pod", "node", "arrived_seconds", "placed_seconds")

Note = Callable[[str, Arrival, Pod, float], object]
"""Is told of a configuration, an arrival, its pod with a node, and the time."""


def show_replays(replays: Sequence[Figures], out: Printer) -> None:
    """A table with a row for each figure, and a column for each configuration."""
    resources = list(replays[0].capacity)
    rows = [
        ("pods that arrived", *(f"{replay.arrived:,}" for replay in replays)),
        ("placed", *(f"{replay.placed:,}" for replay in replays)),
        ("pending at the end", *(f"{replay.pending:,}" for replay in replays)),
        ("evicted", *(f"{replay.evictions:,}" for replay in replays)),
        *(
            (f"wait, p{int(100 * share)}", *(_time(replay.wait(share)) for replay in replays))
            for share in (0.5, 0.95, 0.99)
        ),
        *(
            (
                f"{name} allocated: mean, peak, end",
                *("{:.1f} %, {:.1f} %, {:.2f} %".format(*replay.allocated(name)) for replay in replays),
            )
            for name in resources
        ),
        (
            "nodes used: mean, peak",
            *(f"{mean:,.1f}, {most:,}" for mean, most in (replay.nodes_used for replay in replays)),
        ),
        (
            f"fragmentation of free {replays[0].main}",
            *(f"{replay.fragmentation:.1f} %" for replay in replays),
        ),
        ("decisions a second", *(f"{replay.decisions / (replay.seconds or 1):,.0f}" for replay in replays)),
    ]
    if any(replay.gave_up for replay in replays):
        rows.insert(3, ("deleted before they had a node", *(f"{replay.gave_up:,}" for replay in replays)))
    causes = dict.fromkeys(cause.cause for replay in replays for cause in [*replay.causes][:CAUSES])
    for cause in causes:
        found = [replay.causes.found.get(cause) for replay in replays]
        rows.append(
            (
                f"waited: {cause}",
                *(f"{cause.pods:,}, {_time(cause.seconds)}" if cause else "0" for cause in found),
            )
        )
    out.table(["", *(replay.name for replay in replays)], rows, right=range(1, len(replays) + 1))
    for replay in replays:
        if waits := replay.longest_waits[:LONGEST]:
            out.line(f"{replay.name}: the longest waits")
            out.table(
                ["pod", "from", "waited", "node", "for"],
                [
                    [
                        wait.pod,
                        _time(wait.began),
                        _time(wait.seconds(replay.ended_at)),
                        wait.node or "none",
                        "; ".join(
                            f"{cause}, {_time(end - start)}"
                            for start, end, cause in wait.parts(replay.ended_at)
                        ),
                    ]
                    for wait in waits
                ],
                right=(1, 2),
            )
        if replay.errors:
            out.line(
                f"{replay.name}: {count(replay.errors, 'decision')} failed; the first: {replay.first_error}"
            )
        if not replay.complete:
            out.line(f"{replay.name}: stopped after {replay.arrived:,} pods had arrived")


def print_csv(replays: Sequence[Figures]) -> None:
    """A row for each five percent that arrived, of each configuration; the allocated percent last."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    main = replays[0].main
    others = [name for name in replays[0].capacity if name != main]
    rows.writerow(
        ["config", "arrived_percent", "at_seconds", "placed", "pending", "nodes_used"]
        + [f"{name}_allocated_percent" for name in others]
        + [f"{main}_allocated_percent"]
    )
    for replay in replays:
        for row in replay.rows:
            figures = [f"{row.allocated[name]:.2f}" for name in (*others, main)]
            when = [replay.name, f"{row.arrived_percent:g}", f"{row.at:g}"]
            rows.writerow([*when, row.placed, row.pending, row.nodes_used, *figures])


@contextmanager
def placements_into(file: Path | None) -> Iterator[Note]:
    """A block in which placements are noted in a CSV; without a file, nowhere.

    QuestionError when it can't be written.
    """
    if file is None:
        yield lambda *_: None
        return
    with file_errors(f"--placements {file}"), file.open("w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(COLUMNS)

        def note(config: str, arrival: Arrival, pod: Pod, now: float) -> None:
            rows.writerow([config, str(pod), pod.spec.node_name, f"{arrival.at:g}", f"{now:g}"])

        yield note


def _time(seconds: float) -> str:
    """`1:02:03` for long waits, `4.0 s` for short ones."""
    if isnan(seconds):
        return "-"
    if isinf(seconds):
        return "never"
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


# --- plots ------------------------------------------------------------------------------------------------

FORMATS = (".svg", ".png", ".html")

ADVICE = "--plot needs matplotlib, which poller doesn't install: .venv/bin/pip install matplotlib"


def check_plot(file: Path) -> None:
    """QuestionError when nothing could be drawn into this file: better now than after a long replay."""
    if file.suffix not in FORMATS:
        raise CommandLineError(f"--plot {file}: must end in {', '.join(FORMATS)}")
    if not file.resolve().parent.is_dir():
        raise QuestionError(f"--plot {file}: there is no folder {file.resolve().parent}")
    try:
        import matplotlib.figure  # noqa: F401  # here, as few runs draw
    except ImportError:
        raise QuestionError(ADVICE) from None


def draw(replays: Sequence[Figures], file: Path) -> None:
    """Draw them into a file. QuestionError when it can't be written."""
    from matplotlib.figure import Figure

    waited = [replay for replay in replays if any(replay.strips)]
    heights = [3.0, 3.0, 3.0, *(0.6 + 0.4 * len(_drawn(replay)) for replay in waited)]
    picture = Figure(figsize=(10, sum(heights)), layout="constrained")
    pictures = picture.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    longest = max((replay.ended_at for replay in replays), default=0.0)
    unit, size = next(
        (unit for unit in (("hours", 3600.0), ("minutes", 60.0)) if longest > 2 * unit[1]), ("s", 1.0)
    )
    labels = (f"allocated {replays[0].main}, %", "pending pods", "nodes with pods")
    for column, (axes, label) in enumerate(zip(pictures[:3], labels, strict=True), 1):
        for replay in replays:
            times = [point[0] / size for point in replay.points]
            values = [point[column] for point in replay.points]
            axes.step(times, values, where="post", label=replay.name, linewidth=1.2)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if column > 1:  # it counts something
            axes.yaxis.get_major_locator().set_params(integer=True)
    for axes, replay in zip(pictures[3:], waited, strict=True):
        _strips(axes, replay, size)
    pictures[-1].set_xlabel(f"time, {unit}")
    pictures[0].legend(loc="best")
    body = io.BytesIO()
    picture.savefig(body, format="png" if file.suffix == ".png" else "svg", dpi=150, metadata={"Date": None})
    written = body.getvalue()
    if file.suffix == ".html":
        svg = written.decode()
        names = escape(", ".join(replay.name for replay in replays))
        html = f'<!DOCTYPE html><meta charset="utf-8"><title>{names}</title>{svg[svg.index("<svg") :]}'
        written = html.encode()
    with file_errors(f"--plot {file}"):
        file.write_bytes(written)


def _drawn(replay: Figures) -> list[str]:
    return [cause.cause for cause in replay.causes][:STRIPS]


def _strips(axes: Any, replay: Figures, size: float) -> None:
    """A strip for each cause of waits: the higher it is, the more pods wait for that."""
    causes = _drawn(replay)
    times = [point[0] / size for point in replay.points]
    most = max((count for strip in replay.strips for count in strip.values()), default=1)
    for row, cause in enumerate(reversed(causes)):
        tops = [row + 0.9 * strip.get(cause, 0) / most for strip in replay.strips]
        axes.fill_between(times, row, tops, step="post", linewidth=0)
    labels = [cause if len(cause) <= 40 else f"{cause[:39]}…" for cause in reversed(causes)]
    axes.set_yticks([row + 0.45 for row in range(len(causes))], labels)
    axes.set_ylim(0, len(causes))
    axes.set_title(f"{replay.name}: what pods wait for; a full strip is {most:,} pods", fontsize="medium")
