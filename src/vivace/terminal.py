"""What the command shows: tables, progress, summaries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

err = Console(stderr=True)
out = Console()
if not out.is_terminal:
    out = Console(width=200)  # a file or a pipe has no edge to wrap at


def say(text: str) -> None:
    """A line as it is, without colors and wrapping."""
    out.print(text, highlight=False, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """One line about what went wrong."""
    err.print(f"vivace: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def preparing() -> Iterator[Callable[[str], None]]:
    """A spinner that tells what is going on; each kernel that is really compiled is named."""
    with err.status("starting") as status:
        from .kernels.compile import announce_compiling
        from .progress import told_to

        named: list[str] = []

        def compiling(kernel: str) -> None:
            status.update(f"compiling {kernel} for this processor (once)")
            if not named and not err.is_terminal:
                complain("compiling kernels for this processor, once; this takes some seconds")
            named.append(kernel)

        def told(what: str, done: int, total: int) -> None:
            filled = round(20 * done / max(total, 1))
            status.update(f"{what} {'━' * filled}{'─' * (20 - filled)} {done} of {total}")

        with announce_compiling(compiling), told_to(told):
            yield status.update


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar over `total` frames; call what it gives after each."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("frames")
    hidden = quiet or not err.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """A table with a column for every key, but those that hold lists."""
    keys = list(dict.fromkeys(key for row in rows for key, value in row.items() if not isinstance(value, list)))
    table = Table(*keys)
    for row in rows:
        table.add_row(*(_short(row.get(key, "")) for key in keys))
    out.print(table)


def shortened(sizes: list[int]) -> str:
    """The first sizes of a long list."""
    return " ".join(map(str, sizes[:8])) + (" ..." if len(sizes) > 8 else "")


def print_summary(summary: dict[str, Any]) -> None:
    """What a run did, in a few lines."""
    colors = {name: f" in {_count(number, 'color')}" for name, number in summary["colors"].items()}
    groups = ", ".join(f"{count} {name}{colors.get(name, '')}" for name, count in summary["constraints"].items())
    phantoms = f" and {_count(summary['phantoms'], 'phantom')}" if "phantoms" in summary else ""
    say(f"{summary['scene']}: {summary['particles']} particles{phantoms}{colors.get('particles', '')}; {groups}")
    milliseconds = summary["milliseconds"]
    stages = ", ".join(f"{name} {ms:.2f}" for name, ms in milliseconds.items() if name != "total")
    filmed = any(Path(path).suffix in (".mp4", ".gif") for path in summary["written"])
    if not summary["frames"]:
        return
    cores = _count(summary["threads"], "thread")
    cores = cores if summary["ranks"] == 1 else f"{summary['ranks']} ranks of {cores}"
    say(
        f"{_count(summary['frames'], 'frame')} of {summary['substeps']:.0f} x {summary['iterations']:.0f}: "
        f"{summary['fps']:.0f} fps on {cores}, simulation alone"
        f"{' (while filming, which shares the cores)' if filmed else ''}; "
        f"best frame {summary['best milliseconds']:.2f} ms, median {milliseconds.get('total', 0):.2f} ms ({stages})"
    )
    if summary["deadlines missed"]:
        say(f"{_count(summary['deadlines missed'], 'frame')} took longer than the budget")
    if "touches" in summary:
        touches = summary["touches"]
        say(
            f"contacts at the end: {touches['contacts']} in {_count(touches['colors'], 'color')}, "
            f"{touches['overflow']} averaged; room for them was made larger {_count(touches['times_grown'], 'time')}"
        )
    if "solve" in summary:
        solve = summary["solve"]
        say(f"linear system at the end: {_count(solve['iterations'], 'iteration')} left {solve['residual']:.1e} of it")
    for name, residual in summary["residual"].items():
        unit = summary["units"][name]
        say(f"residual {name}: RMS {residual['rms']:.2e}, largest {residual['largest']:.2e} {unit}".rstrip())
    if "interpenetration" in summary:
        found = summary["interpenetration"]
        say(
            f"{_count(found['crossing_pairs'], 'pair')} of {_count(found['triangles'], 'triangle')} cross; "
            f"{_count(found['particles_inside'], 'particle')} in colliders, "
            f"{1e3 * found['deepest']:.3g} mm at the deepest"
        )
    for text, holds in summary.get("checks", {}).items():
        say(f"{'ok   ' if holds else 'WRONG'} {text}")
    for path in summary["written"]:
        say(f"wrote {Path(path).resolve()}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
