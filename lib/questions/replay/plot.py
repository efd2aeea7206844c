"""Draws replays: allocation, waiting pods and used nodes over time, with one line a configuration."""

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from lib.questions.errors import QuestionError, file_errors
from lib.questions.replay.figures import Figures

FORMATS = (".svg", ".png", ".html")

ADVICE = "--plot needs matplotlib, which poller doesn't install: .venv/bin/pip install matplotlib"


def check(file: Path) -> None:
    """QuestionError when nothing could be drawn into this file: better now than after a long replay."""
    if file.suffix not in FORMATS:
        raise QuestionError(f"--plot {file}: must end in {', '.join(FORMATS)}")
    if not file.resolve().parent.is_dir():
        raise QuestionError(f"--plot {file}: there is no folder {file.resolve().parent}")
    try:
        import matplotlib.figure  # noqa: F401  # here, as few runs draw
    except ImportError:
        raise QuestionError(ADVICE) from None


def draw(replays: Sequence[Figures], file: Path) -> None:
    """Draw them into a file. QuestionError when it can't be written."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(10, 9), layout="constrained")
    pictures = picture.subplots(3, 1, sharex=True)
    longest = max((each.ended_at for each in replays), default=0.0)
    unit, size = next(
        (each for each in (("hours", 3600.0), ("minutes", 60.0)) if longest > 2 * each[1]), ("s", 1.0)
    )
    labels = (f"allocated {replays[0].main}, %", "pending pods", "nodes with pods")
    for column, (axes, label) in enumerate(zip(pictures, labels, strict=True), 1):
        for each in replays:
            times = [point[0] / size for point in each.points]
            values = [point[column] for point in each.points]
            axes.step(times, values, where="post", label=each.name, linewidth=1.2)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if column > 1:  # it counts something
            axes.yaxis.get_major_locator().set_params(integer=True)
    pictures[-1].set_xlabel(f"time, {unit}")
    pictures[0].legend(loc="best")
    body = io.BytesIO()
    picture.savefig(body, format="png" if file.suffix == ".png" else "svg", dpi=150, metadata={"Date": None})
    written = body.getvalue()
    if file.suffix == ".html":
        svg = written.decode()
        names = escape(", ".join(each.name for each in replays))
        page = f'<!DOCTYPE html><meta charset="utf-8"><title>{names}</title>{svg[svg.index("<svg") :]}'
        written = page.encode()
    with file_errors(f"--plot {file}"):
        file.write_bytes(written)
