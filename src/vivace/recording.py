"""Running a simulation into writers, so that what was made is kept whatever happens."""

import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint
from .errors import InputError, SimulationError
from .io import Writer, write_text
from .simulation import Report, Simulation


@dataclass
class Recording:
    """What came of a run."""

    reports: list[Report]
    written: list[str]
    seconds: float
    failure: BaseException | None = None


def record(
    simulation: Simulation,
    frames: int,
    writers: Iterable[Writer],
    advance: Callable[[], None],
    budget_ms: float | None = None,
    spend: str = "iterations",
    before_frame: Callable[[Simulation], None] | None = None,
    save: Callable[[Simulation, bool], None] | None = None,
) -> Recording:
    """Simulate and write frame by frame. What ends it early is the `failure`; the files hold all frames until then.

    `before_frame` may do what a user would do while it runs: move pins, change gravity. `save(simulation, last)` is
    told of every frame, and once more at the end.
    """
    recording, start = Recording([], [], 0.0), time.perf_counter()
    try:
        for _ in range(frames):
            if before_frame:
                before_frame(simulation)
            report = simulation.step(budget_ms, spend)
            for writer in writers:
                writer.write(simulation.positions)
            recording.reports.append(report)
            if save:
                save(simulation, False)
            advance()
    except BaseException as problem:
        recording.failure = problem  # whatever it was, what there is gets written first
    if save and not isinstance(recording.failure, SimulationError):
        save(simulation, True)
    for writer in writers:
        try:
            writer.close()
            recording.written.append(str(writer.path))
        except Exception as problem:
            if isinstance(problem, OSError):
                problem.filename = str(writer.path)
            recording.failure = recording.failure or problem
    recording.seconds = time.perf_counter() - start
    return recording


def saver(path: Path, every: int, job: dict[str, Any]) -> Callable[[Simulation, bool], None]:
    """Writes a checkpoint every so many frames, and at the end.

    A disk that is full must not end a long run: the checkpoint before stays, and the next one may find room.
    """
    saved = -1

    def save(simulation: Simulation, last: bool) -> None:
        nonlocal saved
        if simulation.frame == saved or not (last or simulation.frame % every == 0):
            return
        try:
            checkpoint.save(path, simulation, {"job": job})
            saved = simulation.frame
        except InputError as problem:
            warnings.warn(f"frame {simulation.frame}: {problem}; the run goes on", stacklevel=2)

    return save


def summarize(name: str, simulation: Simulation, recording: Recording) -> dict[str, Any]:
    """Plain numbers about a run, for people and for JSON."""
    reports = recording.reports
    totals = [report.milliseconds["total"] for report in reports]
    stages = list(reports[0].milliseconds) if reports else []
    return {
        "scene": name,
        "particles": simulation.model.particle_count,
        "units": {group.name: getattr(group.constraint, "UNIT", "") for group in simulation.model.groups},
        "constraints": {group.name: len(group) for group in simulation.model.groups},
        "colors": simulation.colors,
        **({"phantoms": simulation.plan.phantom_count} if simulation.plan.phantom_count else {}),
        "frames": len(reports),
        "dt": simulation.dt,
        "iterations": float(np.median([report.iterations for report in reports])) if reports else 0,
        "substeps": float(np.median([report.substeps for report in reports])) if reports else 0,
        "deadlines missed": sum(report.deadline_missed for report in reports),
        "threads": simulation.threads,
        "ranks": reports[-1].ranks if reports else 1,
        "fps": 1e3 / float(np.median(totals)) if totals else 0.0,
        "best milliseconds": min(totals, default=0.0),
        "milliseconds": {
            stage: float(np.median([report.milliseconds[stage] for report in reports])) for stage in stages
        },
        "seconds": recording.seconds,
        "residual": {group: vars(residual) for group, residual in reports[-1].residual.items()} if reports else {},
        "written": recording.written,
        **({"touches": vars(reports[-1].touches)} if reports and reports[-1].touches else {}),
        **({"solve": vars(reports[-1].solve)} if reports and reports[-1].solve else {}),
    }


def write_report(path: Path, summary: dict[str, Any], recording: Recording) -> None:
    """The summary and what every step did, as JSON."""
    steps = [report.as_dict() for report in recording.reports]
    write_text(path, json.dumps({"summary": summary, "steps": steps}, indent=1))
    recording.written.append(str(path))
