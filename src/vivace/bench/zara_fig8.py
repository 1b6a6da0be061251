"""Figure 8 of paper 004: time of a frame of a cloth held at a corner, over particles, size of blocks and processors.

Mass-spring cloth, 5 iterations of conjugate gradients a frame of 1/25 s, divided by the masses as in the paper; ours is
`corner-cloth` on one rank and on two of one thread each. Times hold reading all positions, as the paper sends them to
its viewer. The residual is what the iterations leave of it, the median over the frames: so few leave much.

The paper plots surfaces over 2 to 9 processors of one machine and gives no numbers. What stands beside ours is read off
the axes of these plots, so it is where they end, not a measurement: 0.2 s for 100 particles, 3 s for 1,600, 18 s for
10,000, and 10 to 65 s for 90,000.
"""

from collections.abc import Callable
from typing import Any

from .ranks import Case, measured

NAME = "zara-fig8"
SIZES = (64, 256, 1024, 4096)  # rows of a block; those of all particles would leave nothing for a second rank
RANKS = (1, 2)
PAPER: dict[int, tuple[float | None, float]] = {  # [s], the ends of the axes
    100: (None, 0.2),
    1600: (None, 3.0),
    10_000: (None, 18.0),
    90_000: (10.0, 65.0),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    cases = [
        Case(particles, -(-particles // size), "mass", 50 if quick else frames_for(particles))
        for particles in list(PAPER)[: 2 if quick else None]
        for size in SIZES
        if size < particles
    ]
    for ranks in RANKS:
        progress(f"{ranks} ranks: {cases[0].particles} particles")
        for i, row in enumerate(measured(cases, ranks)):
            rows.append(
                {
                    "particles": row["particles"],
                    "rows of a block": row["rows of a block"],
                    "ranks": ranks,
                    "best ms": row["best ms"],
                    "median ms": row["median ms"],
                    "relative residual": row["residual"],
                    "paper, read off fig. 8": _paper(row["particles"]),
                }
            )
            if i + 1 < len(cases):
                progress(f"{ranks} ranks: {cases[i + 1].particles} particles")
    return sorted(rows, key=lambda row: (row["particles"], row["rows of a block"], row["ranks"]))


def frames_for(particles: int) -> int:
    """Frames that take long enough to find a quiet one, and not too long."""
    return min(max(4_000_000 // particles, 100), 1000)


def _paper(particles: int) -> str:
    least, most = PAPER[particles]
    return f"up to about {most:g} s" if least is None else f"about {least:g} to {most:g} s"


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(11, 6)
    left, right = figure.subplots(1, 2)
    counts, colors = sorted({row["particles"] for row in rows}), ("#4477aa", "#cc6677", "#228833", "#aa3377")
    for ranks, shift, mark, color in zip(RANKS, (0.93, 1.07), "os", colors):
        own = [[row["best ms"] for row in rows if (row["particles"], row["ranks"]) == (n, ranks)] for n in counts]
        least, most = [min(times) / 1e3 for times in own], [max(times) / 1e3 for times in own]
        places = [n * shift for n in counts]
        left.vlines(places, least, most, color=color)
        label = f"ours, {ranks} {'rank' if ranks == 1 else 'ranks'}: fastest size of blocks, up to the slowest"
        left.plot(places, least, f"{mark}-", color=color, label=label)
    left.plot(
        counts, [PAPER[n][1] for n in counts], "v--", color="gray", label="paper, read off fig. 8: the ends of its axes"
    )
    known = [n for n in counts if PAPER[n][0] is not None]
    left.plot(known, [PAPER[n][0] for n in known], "^", color="gray")
    left.vlines(known, [PAPER[n][0] for n in known], [PAPER[n][1] for n in known], color="gray")
    left.set(xscale="log", yscale="log", xlabel="particles", ylabel="seconds a frame", title="Over the particles")
    left.set_xticks(counts, [f"{n:,}" for n in counts])
    left.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    for n, color in zip(counts, colors):
        for ranks, style in zip(RANKS, ("o-", "s--")):
            own_rows = [row for row in rows if (row["particles"], row["ranks"]) == (n, ranks)]
            right.plot(
                [row["rows of a block"] for row in own_rows],
                [row["best ms"] for row in own_rows],
                style,
                color=color,
                label=f"{n:,} particles, {ranks} {'rank' if ranks == 1 else 'ranks'}",
            )
    right.set(xscale="log", yscale="log", xlabel="rows of a block", ylabel="milliseconds a frame")
    right.set_title("Ours, over the size of blocks")
    right.set_xticks(SIZES, [str(size) for size in SIZES])
    right.set_xticks([], minor=True)
    right.legend(fontsize=9, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.suptitle("A cloth held at a corner, 5 iterations (paper 004, figure 8)")
