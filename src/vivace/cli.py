"""The command `vivace`. Heavy imports wait until a command needs them, so that --help answers at once."""
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .errors import InputError, SimulationError

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Real-time soft bodies: cloth and solids by parallel Gauss-Seidel over graph colors.")
out, err = Console(), Console(stderr=True)
if not out.is_terminal:
    out = Console(width=200)  # a file or a pipe has no edge to wrap at
Json = Annotated[bool, typer.Option("--json", help="Answer with JSON on standard output, for programs.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Scale = Annotated[float, typer.Option(help="Make the scene smaller or larger: a factor on its number of particles.")]
SceneName = Annotated[str, typer.Argument(metavar="SCENE", help="A built-in name (see `vivace scenes`) or a Python file that defines scene().")]


def main() -> None:
    """Run the command; exit code 2 and one line on bad input, 1 when a simulation or the system fails."""
    try:
        app()
    except InputError as problem:
        _fail(str(problem), 2)
    except SimulationError as problem:
        _fail(str(problem), 1)
    except OSError as problem:
        _fail(f"{problem.filename or 'system'}: {problem.strerror or problem}", 1)
    except KeyboardInterrupt:
        _fail("stopped by the user", 130)


def _fail(message: str, code: int) -> None:
    err.print(f"vivace: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        from . import __version__
        typer.echo(f"vivace {__version__}")
        raise typer.Exit


@app.command()
def run(scene: SceneName,
        solver: Annotated[str, typer.Option(help="gauss-seidel (colored, parallel) or serial.")] = "gauss-seidel",
        iterations: Annotated[int | None, typer.Option(help="Iterations a substep [default: the scene's].")] = None,
        substeps: Annotated[int | None, typer.Option(help="Substeps a frame [default: the scene's].")] = None,
        frames: Annotated[int | None, typer.Option(help="Frames to simulate [default: the scene's].")] = None,
        dt: Annotated[float | None, typer.Option(help="Seconds a frame [default: the scene's].")] = None,
        damping: Annotated[float | None, typer.Option(help="Share of velocity lost per second, 1/s [default: the scene's].")] = None,
        paper: Annotated[bool, typer.Option("--paper", help="Settings of the paper that the scene comes from.")] = False,
        threads: Annotated[int | None, typer.Option(help="Threads [default: all cores]. The result is the same for any number.")] = None,
        seed: Seed = 0, scale: Scale = 1.0,
        output: Annotated[list[Path] | None, typer.Option("--out", metavar="PATH", help="Write .mp4, .gif, .png (last frame) or .npz (positions); may be repeated.")] = None,
        report: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write what every step did.")] = None,
        check: Annotated[bool, typer.Option("--check", help="Check the final state as the scene demands; exit code 1 if it is wrong.")] = False,
        as_json: Json = False) -> None:
    """Simulate a scene and write what it looks like."""
    _allow_threads(threads)
    with _preparing() as status:
        from dataclasses import replace

        from . import scenes
        from .io import check_writable, open_writers, write_text
        from .simulation import Simulation
        setup = scenes.find(scene)
        if paper and setup.paper is None:
            raise InputError(f"{scene} has no settings of a paper")
        given = {"iterations": iterations, "substeps": substeps, "frames": frames, "dt": dt, "damping": damping}
        settings = replace(setup.paper if paper and setup.paper else setup.settings, **{k: v for k, v in given.items() if v is not None})
        if settings.frames < 1:
            raise InputError(f"frames is {settings.frames}; it must be at least 1")
        if check and setup.check is None:
            raise InputError(f"{scene} defines no check(simulation)")
        if report:
            check_writable(report)
        status(f"building {setup.name}")
        simulation = Simulation(setup.make(scale), solver, settings.iterations, settings.substeps, settings.dt, settings.damping, threads, seed)
        writers = open_writers(output or [], simulation.model, settings.dt, setup.camera)
    reports, failure, start = [], None, time.perf_counter()
    try:
        with _progress(f"{setup.name}, {simulation.model.particle_count} particles", settings.frames, quiet=as_json) as advance:
            for done in simulation.run(settings.frames):
                reports.append(done)
                for writer in writers:
                    writer.write(simulation.positions)
                advance()
    except (SimulationError, KeyboardInterrupt) as problem:
        failure = problem  # what was simulated until here is still written
    written = []
    for path, writer in zip(output or [], writers):
        writer.close()
        written.append(str(path))
    summary = _summary(setup.name, simulation, reports, time.perf_counter() - start, written)
    if report:
        write_text(report, json.dumps({**summary, "frames": [step.as_dict() for step in reports]}, indent=1))
        summary["written"].append(str(report))
    statements = list(setup.check(simulation)) if check and setup.check and not failure else []
    if statements:
        summary["checks"] = {text: bool(holds) for text, holds in statements}
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
    else:
        _print_summary(summary)
    if failure:
        raise failure
    if not all(holds for _, holds in statements):
        sys.exit(1)


def _summary(name: str, simulation: Any, reports: list[Any], seconds: float, written: list[str]) -> dict[str, Any]:
    import numpy as np
    totals = [step.milliseconds["total"] for step in reports]
    stages = {stage: float(np.median([step.milliseconds[stage] for step in reports])) for stage in (reports[0].milliseconds if reports else {})}
    return {"scene": name, "particles": simulation.model.particle_count,
            "constraints": {group.name: len(group) for group in simulation.model.groups},
            "colors": reports[-1].colors if reports else {}, "frames": len(reports), "dt": simulation.dt,
            "iterations": simulation.iterations, "substeps": simulation.substeps, "threads": simulation.threads,
            "fps": 1e3 / float(np.median(totals)) if totals else 0.0, "milliseconds": stages, "seconds": seconds,
            "residual": {group: vars(residual) for group, residual in reports[-1].residual.items()} if reports else {}, "written": written}


def _print_summary(summary: dict[str, Any]) -> None:
    colors = ", ".join(f"{count} {name} in {summary['colors'].get(name, '-')} colors" for name, count in summary["constraints"].items())
    say = lambda text: out.print(text, highlight=False, markup=False, soft_wrap=True)  # noqa: E731
    say(f"{summary['scene']}: {summary['particles']} particles; {colors}")
    stages = ", ".join(f"{name} {ms:.2f}" for name, ms in summary["milliseconds"].items() if name != "total")
    say(f"{summary['frames']} frame{'s' * (summary['frames'] != 1)} of {summary['substeps']} x {summary['iterations']}: {summary['fps']:.0f} fps on {summary['threads']} thread{'s' * (summary['threads'] != 1)}, "
        f"simulation alone ({summary['milliseconds'].get('total', 0):.2f} ms: {stages})")
    units = {"stretch": "m", "bend": "rad", "volume": "m^3"}
    for name, residual in summary["residual"].items():
        say(f"residual {name}: RMS {residual['rms']:.2e}, largest {residual['largest']:.2e} {units.get(name, '')}".rstrip())
    for text, holds in summary.get("checks", {}).items():
        say(f"{'ok   ' if holds else 'WRONG'} {text}")
    for path in summary["written"]:
        say(f"wrote {Path(path).resolve()}")


@app.command()
def scenes(as_json: Json = False) -> None:
    """List the built-in scenes."""
    from .scenes import built_in
    found = [{"name": s.name, "summary": s.summary, "settings": vars(s.settings), "paper": vars(s.paper) if s.paper else None} for s in built_in().values()]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    table = Table("scene", "what it is", "substeps x iterations", "paper")
    for entry in found:
        steps = [f"{entry[key]['substeps']} x {entry[key]['iterations']}" if entry[key] else "-" for key in ("settings", "paper")]
        table.add_row(entry["name"], entry["summary"], *steps)
    out.print(table)


@app.command()
def color(scene: SceneName,
          algorithm: Annotated[str, typer.Option(help="A coloring algorithm, or all.")] = "smallest-last",
          seed: Seed = 0, scale: Scale = 1.0,
          plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the sizes of the colors.")] = None,
          as_json: Json = False) -> None:
    """Color a scene's constraint graphs: colors, their sizes, balance, milliseconds."""
    with _preparing():
        import numpy as np

        from . import coloring
        from . import scenes as scene_list
        from .checks import choice
        from .graph import Graph, constraint_graph
        from .io import check_writable
        names = sorted(coloring.algorithms()) if algorithm == "all" else [choice("coloring", algorithm, coloring.algorithms())]
        if plot:
            check_writable(plot)
        model = scene_list.find(scene).make(scale).build()
        for name in names:  # compile first, so that the times are those of coloring
            coloring.color(Graph.from_edges(2, [(0, 1)]), name)
        rows, colorings = [], []
        for group in model.groups:
            graph = constraint_graph(group.vertices, model.particle_count)
            for name in names:
                graph.__dict__.pop("degrees", None)  # each algorithm pays for its own
                colored = coloring.color(graph, name, np.random.default_rng(seed))
                colorings.append((group.name, colored))
                rows.append({"group": group.name, "constraints": len(group), "algorithm": name, "colors": colored.count, "at least": graph.largest_hub,
                             "smallest": int(colored.sizes.min()), "largest": int(colored.sizes.max()), "balance": colored.balance,
                             "milliseconds": colored.milliseconds, "sizes": colored.sizes.tolist()})
    if plot:
        _save_plot(plot, lambda figure: _plot_sizes(figure, colorings))
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    _print_rows([{k: v for k, v in row.items() if k != "sizes"} for row in rows])
    if plot:
        out.print(f"wrote {plot.resolve()}", highlight=False, markup=False, soft_wrap=True)


def _plot_sizes(figure: Any, colorings: list[Any]) -> None:
    figure.set_size_inches(4 * min(len(colorings), 4), 3 * -(-len(colorings) // 4))
    for axes, (group, colored) in zip(figure.subplots(-(-len(colorings) // 4), min(len(colorings), 4), squeeze=False).flat, colorings):
        axes.bar(range(colored.count), colored.sizes, color="#4477aa")
        axes.set(title=f"{group}, {colored.algorithm}: {colored.count} colors", xlabel="color", ylabel="constraints")


@app.command()
def bench(name: Annotated[str | None, typer.Argument(metavar="NAME", help="A benchmark, or all.")] = None,
          list_them: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
          folder: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where CSV and PNG go [default: benchmarks/results/<machine>].")] = None,
          quick: Annotated[bool, typer.Option("--quick", help="Shorter and less exact.")] = False,
          as_json: Json = False) -> None:
    """Run a benchmark: a table here, and CSV and PNG files."""
    from .bench import benches
    from .checks import choice
    known = benches()
    if list_them or name is None:
        table = Table("benchmark", "what it measures")
        for key, module in known.items():
            table.add_row(key, (module.__doc__ or "").strip().split("\n")[0])
        out.print(table)
        return
    names = list(known) if name == "all" else [choice("benchmark", name, known)]
    from .bench.results import machine_name, write_csv
    folder = folder or Path("benchmarks/results") / machine_name()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot write into {folder}: {problem.strerror}") from problem
    answers = {}
    for key in names:
        module = known[key]
        with _preparing() as status:
            rows = module.run(quick=quick, progress=lambda text, key=key: status(f"{key}: {text}"))
        answers[key] = rows
        write_csv(folder / f"{key}.csv", rows)
        _save_plot(folder / f"{key}.png", lambda figure, module=module, rows=rows: module.plot(rows, figure))
        if not as_json:
            out.print((module.__doc__ or "").strip(), highlight=False, markup=False)
            _print_rows(rows)
            out.print(f"wrote {(folder / key).resolve()}.csv and .png", highlight=False, markup=False, soft_wrap=True)
    if as_json:
        typer.echo(json.dumps(answers, indent=1))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what this machine offers: threads, lanes, kernel cache, extras, and what each missing one needs."""
    from .diagnosis import diagnose
    findings = diagnose()
    if as_json:
        typer.echo(json.dumps([vars(finding) for finding in findings], indent=1))
        return
    table = Table("", "what", "found", "what to do")
    for finding in findings:
        table.add_row("ok" if finding.good else "--", finding.what, finding.found, finding.advice)
    out.print(table)


def _allow_threads(threads: int | None) -> None:
    """Numba fixes its largest number of threads when it is imported."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is not None and threads > cores and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))


@contextmanager
def _preparing() -> Iterator[Any]:
    """A spinner that tells what is going on, with a line for each kernel that is really compiled."""
    with err.status("starting") as status:
        from .kernels.compile import announce_compiling
        with announce_compiling(lambda kernel: status.update(f"compiling {kernel} for this processor (once)")):
            yield status.update


@contextmanager
def _progress(title: str, total: int, quiet: bool) -> Iterator[Any]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("frames"), TimeRemainingColumn()
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*keys)
    for row in rows:
        table.add_row(*(_short(row.get(key, "")) for key in keys))
    out.print(table)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _save_plot(path: Path, draw: Any) -> None:
    from .io.picture import save_plot
    save_plot(path, draw)


if __name__ == "__main__":
    main()
