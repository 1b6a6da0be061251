"""The command `vivace`. Heavy imports wait until a command needs them, so that --help answers at once."""

import json
import os
import signal
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from .errors import InputError, SimulationError
from .terminal import complain, out, preparing, print_rows, print_summary, progress_bar, say, shortened

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Real-time soft bodies: cloth and solids by parallel Gauss-Seidel over graph colors.",
)
Json = Annotated[bool, typer.Option("--json", help="Answer with JSON on standard output, for programs.")]
Iterations = Annotated[int | None, typer.Option(help="Iterations a substep [default: the scene's].")]
Substeps = Annotated[int | None, typer.Option(help="Substeps a frame [default: the scene's].")]
Threads = Annotated[int | None, typer.Option(help="Threads [default: the cores that the scene keeps busy].")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Scale = Annotated[float, typer.Option(help="Make the scene smaller or larger: a factor on its particles.")]
Particles = Annotated[int | None, typer.Option(help="About how many particles to make it of, instead of --scale.")]
Ranks = Annotated[int | None, typer.Option(help="Processes to share the work, by MPI.")]
Hosts = Annotated[str | None, typer.Option(metavar="A,B,...", help="Computers to start them on [default: this one].")]
Restart = Annotated[int, typer.Option(help="Times to go on by itself when a process is lost.", min=0)]
SceneName = Annotated[
    str, typer.Argument(metavar="SCENE", help="A built-in name (vivace scenes) or a Python file that defines scene().")
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option("--out", metavar="PATH", help="Write .mp4, .gif, .png (last frame) or .npz; may be repeated."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FILE.ckpt", help="Write checkpoints, for vivace resume; the last two are kept."),
]
Every = Annotated[int | None, typer.Option(help="Frames from one checkpoint to the next [default: 50].")]
ReportTo = Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write what every step did.")]
CheckIt = Annotated[
    bool, typer.Option("--check", help="Check the final state as the scene demands; exit code 1 if wrong.")
]
Diagnose = Annotated[
    bool, typer.Option("--diagnose", help="Count triangles that cross and particles in colliders at the end.")
]


def main() -> None:
    """Run the command; exit code 2 and one line on bad input, 1 when a simulation or the system fails."""
    for ending in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, ending):
            signal.signal(getattr(signal, ending), signal.default_int_handler)  # finish as if ended by the user
    warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        # Not standalone: usage errors are one line as well, and an interrupt is ours to answer.
        code = app(standalone_mode=False) or 0
        if code == 130:  # an interrupt that nobody has answered yet
            raise KeyboardInterrupt
        sys.exit(code)
    except InputError as problem:
        _fail(str(problem), 2)
    except SimulationError as problem:
        _fail(str(problem), 1)
    except OSError as problem:
        _fail(f"{problem.filename or 'system'}: {problem.strerror or problem}", 1)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except Exception as problem:
        if hasattr(problem, "format_message"):  # the command line's own: an unknown option, not a number
            _fail(problem.format_message(), 2)
        if "VIVACE_TRACEBACK" in os.environ:
            raise
        _fail(f"{type(problem).__name__}: {problem} (set VIVACE_TRACEBACK=1 to see where)", 1)


def _fail(message: str, code: int) -> None:
    complain(message)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        from . import __version__

        typer.echo(f"vivace {__version__}")
        raise typer.Exit


@app.command()
def run(
    scene: SceneName,
    solver: Annotated[
        str,
        typer.Option(
            help="gauss-seidel, xpbd, vivace, phantoms, averaged-jacobi, hybrid-jacobi, serial, or pd-jacobi, "
            "pd-chebyshev, pd-direct, or implicit, for springs."
        ),
    ] = "gauss-seidel",
    colors: Annotated[
        str | None,
        typer.Option(help="Colors of each group, a number or half, for the solvers phantoms and hybrid-jacobi."),
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(help="Blocks of particles, at most, for the solver implicit [default: by size].")
    ] = None,
    decomposition: Annotated[
        str | None, typer.Option(help="What makes them: halves, or metis, for smaller borders [default: halves].")
    ] = None,
    iterations: Iterations = None,
    substeps: Substeps = None,
    frames: Annotated[int | None, typer.Option(help="Frames to simulate [default: the scene's].")] = None,
    dt: Annotated[float | None, typer.Option(help="Seconds a frame [default: the scene's].")] = None,
    damping: Annotated[float | None, typer.Option(help="Rate of velocity loss, 1/s [default: the scene's].")] = None,
    budget_ms: Annotated[float | None, typer.Option(help="Milliseconds a frame: do as much as fits.")] = None,
    spend: Annotated[
        str | None, typer.Option(help="What a budget goes into: iterations or substeps [default: the scene's].")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Settings of the paper that the scene comes from.")] = False,
    threads: Threads = None,
    seed: Seed = 0,
    scale: Scale = 1.0,
    particles: Particles = None,
    output: Outputs = None,
    report: ReportTo = None,
    check: CheckIt = False,
    diagnose: Diagnose = False,
    checkpoint: Checkpoint = None,
    every: Every = None,
    ranks: Ranks = None,
    hosts: Hosts = None,
    restart: Restart = 0,
    as_json: Json = False,
) -> None:
    """Simulate a scene and write what it looks like."""
    _allow_threads(threads)
    backend = _on_ranks(ranks, hosts, restart, checkpoint)
    given: dict[str, Any] = {"iterations": iterations, "substeps": substeps, "frames": frames, "dt": dt}
    given |= {"damping": damping, "spend": spend}
    with preparing():
        from . import scenes
        from .job import Job

        setup = scenes.find(scene)
        settings = setup.chosen(paper, **{name: value for name, value in given.items() if value is not None})
        chosen = {"colors": None if colors is None else _number_or_name(colors)}
        chosen |= {"blocks": blocks, "decomposition": decomposition}
        options = {name: value for name, value in chosen.items() if value is not None}
        job = Job(scene, _scale(setup, scale, particles), solver, options, settings, seed, budget_ms)
    _run(job, threads, output, report, (check, diagnose), (checkpoint, every), as_json, backend)


@app.command()
def resume(
    path: Annotated[Path, typer.Argument(metavar="FILE.ckpt", help="A checkpoint of vivace run.")],
    frames: Annotated[int | None, typer.Option(help="Frames to reach [default: those of the run].")] = None,
    threads: Threads = None,
    output: Outputs = None,
    report: ReportTo = None,
    check: CheckIt = False,
    diagnose: Diagnose = False,
    every: Every = None,
    ranks: Ranks = None,
    hosts: Hosts = None,
    restart: Restart = 0,
    as_json: Json = False,
) -> None:
    """Go on with a run from its checkpoint, to the same bits, and write what it looks like from there on."""
    _allow_threads(threads)
    backend = _on_ranks(ranks, hosts, restart, path)
    with preparing():
        from dataclasses import replace

        from .checkpoint import read_header, recover
        from .job import job_of

        recover(path)
        job, done = job_of(path), read_header(path)["frame"]
        wanted = job.settings.frames if frames is None else frames
        if wanted <= done:
            raise InputError(f"{path} has its {wanted} frames already; --frames says how many there shall be")
        job = replace(job, settings=replace(job.settings, frames=wanted))
    _run(job, threads, output, report, (check, diagnose), (path, every), as_json, backend, resumed=path)


def _on_ranks(ranks: int | None, hosts: str | None, restart: int, checkpoint: Path | None) -> str:
    """The backend for a command that may run on several ranks.

    Where the ranks are still to be started, they are, with the same command, and this process ends with them. Those
    that are started already meet here, and all but the first stay until the end.
    """
    from .checks import extra, whole
    from .cluster import in_job

    if in_job():
        from .backends.mpi_join import join, remember_checkpoint

        if checkpoint is not None:
            remember_checkpoint(checkpoint)
        comm = join()
        if ranks is not None and ranks != comm.size:
            raise InputError(f"--ranks is {ranks}, but {comm.size} ranks were started")
        return "mpi" if comm.size > 1 else "cpu"
    if ranks is None:
        if hosts or restart:
            raise InputError(f"{'--hosts' if hosts else '--restart'} is for --ranks")
        return "cpu"
    from .cluster.launch import supervise

    whole("ranks", ranks, 1)
    if restart and checkpoint is None:
        raise InputError("--restart goes on from a checkpoint: add --checkpoint")
    extra("mpi4py", "mpi")
    listed = [host.strip() for host in hosts.split(",") if host.strip()] if hosts else []
    sys.exit(supervise(sys.argv[1:], ranks, listed, checkpoint, restart, complain))


def _run(
    job: Any,
    threads: int | None,
    output: list[Path] | None,
    report: Path | None,
    at_the_end: tuple[bool, bool],
    checkpoints: tuple[Path | None, int | None],
    as_json: bool,
    backend: str,
    resumed: Path | None = None,
) -> None:
    with preparing() as status:
        from .checks import whole
        from .io import check_writable, open_writers
        from .recording import record, saver, summarize, write_report

        setup, settings, (checkpoint, every) = job.setup, job.settings, checkpoints
        check, diagnose = at_the_end
        job.check()
        if check and not callable(setup.check):
            raise InputError(f"{job.scene} defines no check(simulation)")
        if every is not None and checkpoint is None:
            raise InputError("--every is for --checkpoint")
        every = whole("every", 50 if every is None else every, 1)
        if checkpoint:
            check_writable(checkpoint)
        if report:
            if report.suffix.lower() != ".json":
                raise InputError(f"cannot write {report}: a report's name must end in .json")
            check_writable(report)
        simulation = job.simulation(threads, backend, say=status)
        if resumed:
            simulation.load(resumed)
        writers = open_writers(output or [], simulation.model, settings.dt, setup.camera)
    title, left = f"{setup.name}, {simulation.model.particle_count} particles", settings.frames - simulation.frame
    with progress_bar(title, left, quiet=as_json) as advance:
        save = saver(checkpoint, every, job.as_dict()) if checkpoint else None
        recording = record(simulation, left, writers, advance, job.budget_ms, settings.spend, setup.before_frame, save)
    summary = summarize(setup.name, simulation, recording)
    if checkpoint and checkpoint.exists():
        summary["written"].append(str(checkpoint))
    if diagnose and not recording.failure:
        from .diagnostics import interpenetration

        summary["interpenetration"] = vars(interpenetration(simulation))
    if report:
        write_report(report, summary, recording)
    if check and not recording.failure:
        summary["checks"] = setup.checked(simulation)
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
    else:
        print_summary(summary)
    if isinstance(recording.failure, KeyboardInterrupt):
        _fail("stopped; what was simulated until then is written", 130)
    if recording.failure:
        raise recording.failure
    if not all(summary.get("checks", {}).values()):
        sys.exit(1)


LiveSolver = Annotated[str, typer.Option(help="The solver to begin with; it can be changed on the page.")]
LiveBudget = Annotated[
    float | None, typer.Option(help="Milliseconds a step [default: 60 % of the time between two]; 0: none.")
]
Rate = Annotated[float | None, typer.Option(help="Steps a second [default: real time].")]
Recordings = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where viewers may write the last seconds, .mp4 or .npz [default: nowhere]."),
]
RecordTo = Annotated[
    Path | None, typer.Option("--record", metavar="FILE.json", help="Save what was done, to repeat it to the bit.")
]
Replay = Annotated[
    Path | None, typer.Option("--replay", metavar="FILE.json", help="First do again what was saved, then pause.")
]
LastOut = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="Write the last seconds, .mp4 or .npz, at the end.")
]
Last = Annotated[float, typer.Option(metavar="SECONDS", help="How many seconds --out has, 10 at most.")]
PagePort = Annotated[int, typer.Option(help="Port of the page; another one if it is taken.", min=0, max=65535)]
Browser = Annotated[bool, typer.Option(help="Open the page in a browser.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="VIVACE_TOKEN", help="What viewers must know [default: one is made up and printed]."),
]


@app.command()
def live(
    scene: SceneName,
    solver: LiveSolver = "gauss-seidel",
    iterations: Iterations = None,
    substeps: Substeps = None,
    budget_ms: LiveBudget = None,
    rate: Rate = None,
    threads: Threads = None,
    seed: Seed = 0,
    scale: Scale = 1.0,
    page_port: PagePort = 8080,
    browser: Browser = True,
    recordings: Recordings = None,
    record: RecordTo = None,
    replay: Replay = None,
    output: LastOut = None,
    last: Last = 10.0,
) -> None:
    """Simulate a scene and open a page: watch it, drag it, change the solver while it runs."""
    given = {"iterations": iterations, "substeps": substeps}
    options = solver, scale, seed, threads, rate, budget_ms, recordings, given
    beside: dict[str, Any] = {
        "page_port": page_port,
        "browser": browser,
        "record": record,
        "output": output and (output, last),
    }
    _serve(scene, options, replay, host="127.0.0.1", port=0, token=None, **beside)


@app.command()
def serve(
    scene: SceneName,
    host: Annotated[str, typer.Option(help="Address to listen on; another than loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.", min=0, max=65535)] = 7007,
    token: Token = None,
    solver: LiveSolver = "gauss-seidel",
    iterations: Iterations = None,
    substeps: Substeps = None,
    budget_ms: LiveBudget = None,
    rate: Rate = None,
    threads: Threads = None,
    seed: Seed = 0,
    scale: Scale = 1.0,
    recordings: Recordings = None,
    record: RecordTo = None,
    replay: Replay = None,
    output: LastOut = None,
    last: Last = 10.0,
    frames: Annotated[int | None, typer.Option(help="End after so many frames [default: never].", min=1)] = None,
    ranks: Ranks = None,
    hosts: Hosts = None,
) -> None:
    """Simulate a scene for viewers on this or other computers, who may come and go (vivace view)."""
    given = {"iterations": iterations, "substeps": substeps}
    options = solver, scale, seed, threads, rate, budget_ms, recordings, given
    beside: dict[str, Any] = {"record": record, "output": output and (output, last), "stop_after": frames}
    backend = _on_ranks(ranks, hosts, 0, None)
    if replay and backend != "cpu":
        raise InputError("--replay is for one process")
    _serve(scene, options, replay, backend=backend, host=host, port=port, token=token, **beside)


def _serve(scene: str, options: tuple, replay: Path | None, backend: str = "cpu", **settings: Any) -> None:
    solver, scale, seed, threads, rate, budget_ms, recordings, given = options
    _allow_threads(threads)
    with preparing() as status:
        from .io import check_writable
        from .live.launch import make_session, run_server, session_again

        if recordings is not None and not recordings.is_dir():
            raise InputError(f"there is no folder {recordings}")
        if settings["output"]:
            check_writable(settings["output"][0])
        status(f"building {scene}")
        frames, recorded = None, settings["record"] is not None
        if replay:
            if (solver, scale, seed, rate, budget_ms) != ("gauss-seidel", 1.0, 0, None, None) or any(given.values()):
                raise InputError("--replay does what was saved: leave out --solver, --scale, --rate and the like")
            session, setup, rate, frames = session_again(replay, threads, recordings, recorded)
            if session.about["scene"] != scene:
                raise InputError(f"{replay} is a session of {session.about['scene']}, not of {scene}")
        else:
            changes = {name: value for name, value in given.items() if value is not None}
            session, setup, rate = make_session(
                scene, solver, scale, seed, threads, rate, budget_ms, recordings, changes, recorded, backend
            )
    run_server(session, setup, rate, say=say, frames=frames, **settings)


@app.command()
def view(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where vivace serve listens.")],
    token: Token = None,
    page_port: PagePort = 8080,
    browser: Browser = True,
) -> None:
    """Show what a server simulates, on a page of this computer."""
    from .live.launch import run_viewer

    if run_viewer(address, token, page_port, browser, say):
        complain(f"{address} has closed the connection")


@app.command()
def scenes(as_json: Json = False) -> None:
    """List the built-in scenes."""
    from .scenes import Settings, built_in

    def steps(settings: Settings | None) -> str:
        return f"{settings.substeps} x {settings.iterations}" if settings else "-"

    found = built_in().values()
    if as_json:
        plain = [
            {"name": s.name, "summary": s.summary, "settings": vars(s.settings), "paper": s.paper and vars(s.paper)}
            for s in found
        ]
        typer.echo(json.dumps(plain, indent=1))
        return
    table = Table("scene", "what it is", "substeps x iterations", "paper")
    for setup in found:
        table.add_row(setup.name, escape(setup.summary), steps(setup.settings), steps(setup.paper))
    out.print(table)


@app.command()
def color(
    scene: SceneName,
    algorithm: Annotated[str, typer.Option(help="A coloring algorithm, or all.")] = "smallest-last",
    phantoms: Annotated[
        str | None,
        typer.Option(metavar="COLORS", help="Reach so many colors, a number or half, by phantom particles."),
    ] = None,
    insertion: Annotated[
        str | None, typer.Option(help="How phantoms are inserted: split or paper [default: split].")
    ] = None,
    cliques: Annotated[
        str | None, typer.Option(help="Cliques to break up: particles or bron-kerbosch [default: particles].")
    ] = None,
    seed: Seed = 0,
    scale: Scale = 1.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the sizes of the colors.")] = None,
    as_json: Json = False,
) -> None:
    """Color a scene: the constraints of each group, and the particles; colors, sizes, balance, milliseconds."""
    with preparing() as status:
        from . import coloring
        from . import scenes as scene_list
        from .checks import choice
        from .graph import Graph, constraint_graph, vertex_graph
        from .io import check_writable

        if phantoms is None and (insertion or cliques):
            raise InputError("--insertion and --cliques are for --phantoms")
        known = sorted(coloring.algorithms())
        names = known if algorithm == "all" else [choice("coloring", algorithm, known)]
        if plot:
            check_writable(plot)
        model = scene_list.find(scene).make(scale).build()
        if phantoms is not None:
            options: dict[str, Any] = {"colors": _number_or_name(phantoms), "insertion": insertion or "split"}
            options["cliques"] = cliques or "particles"
            coloring.partition([[(0, 1), (0, 2), (0, 3)]], **{**options, "colors": 2})  # compile first, as below
            made = coloring.partition(model.groups, **options, particle_count=model.particle_count)
            _show_partition(made, plot, as_json)
            return
        for name in names:  # compile first, so that the times are those of coloring
            coloring.color(Graph.from_edges(2, [(0, 1)]), name)
        rows, colorings = [], []
        graphs = {group.name: constraint_graph(group.vertices, model.particle_count) for group in model.groups}
        graphs["particles"] = vertex_graph([group.vertices for group in model.groups], model.particle_count)
        for what, graph in graphs.items():
            for name in names:
                status(f"coloring {what}, {name}")
                colored = coloring.color(graph, name, seed)
                colorings.append((what, colored))
                rows.append({"of": what, "nodes": graph.node_count, **colored.as_dict()})
    if plot:
        from .io.plots import plot_color_sizes, save_plot

        save_plot(plot, lambda figure: plot_color_sizes(figure, colorings))
    _show_rows(rows, plot, as_json)


def _show_partition(made: Any, plot: Path | None, as_json: bool) -> None:
    """Colors before and after phantoms were inserted."""
    if plot:
        from .io.plots import plot_before_after, save_plot

        save_plot(plot, lambda figure: plot_before_after(figure, made))
    _show_rows(made.report, plot, as_json)


def _show_rows(rows: list[dict[str, Any]], plot: Path | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    print_rows([{key: shortened(v) if isinstance(v, list) else v for key, v in row.items()} for row in rows])
    if plot:
        say(f"wrote {plot.resolve()}")


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A benchmark, or all.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="For CSV and PNG [default: benchmarks/results/<machine>]."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter and less exact.")] = False,
    as_json: Json = False,
) -> None:
    """Run a benchmark: a table here, and CSV and PNG files."""
    from .bench import benches
    from .checks import choice

    known = benches()
    if list_them or name is None:
        if as_json:
            summaries = {key: (module.__doc__ or "").strip().split("\n")[0] for key, module in known.items()}
            typer.echo(json.dumps(summaries, indent=1))
            return
        table = Table("benchmark", "what it measures")
        for key, module in known.items():
            table.add_row(key, (module.__doc__ or "").strip().split("\n")[0])
        out.print(table)
        return
    names = list(known) if name == "all" else [choice("benchmark", name, known)]
    from .bench.results import results_folder, without_pictures, write_csv
    from .io import extra
    from .io.plots import save_plot

    extra("matplotlib")
    folder = results_folder(folder)
    answers: dict[str, Any] = {}
    for key in names:
        try:
            with preparing() as status:
                rows = known[key].run(quick=quick, progress=lambda text, key=key: status(f"{key}: {text}"))
        except InputError as problem:
            if name != "all":
                raise
            complain(str(problem))  # the others can still run
            continue
        answers[key] = without_pictures(rows)
        write_csv(folder / f"{key}.csv", rows)
        save_plot(folder / f"{key}.png", partial(known[key].plot, rows))
        if not as_json:
            say((known[key].__doc__ or "").strip())
            print_rows(rows)
            say(f"wrote {(folder / key).resolve()}.csv and .png")
    if as_json:
        typer.echo(json.dumps(answers, indent=1))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what this machine offers: threads, lanes, kernel cache, extras, and what each missing one needs."""
    with preparing():
        from .doctor import diagnose

        findings = diagnose()
    if as_json:
        typer.echo(json.dumps([vars(finding) for finding in findings], indent=1))
        return
    table = Table("", "what", "found", "what to do")
    for finding in findings:
        table.add_row("ok" if finding.good else "--", *map(escape, (finding.what, finding.found, finding.advice)))
    out.print(table)


def _scale(setup: Any, scale: float, particles: int | None) -> float:
    if particles is None:
        return scale
    if scale != 1:
        raise InputError("give either --particles or --scale, not both")
    return setup.scale_for(particles)


def _number_or_name(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _allow_threads(threads: int | None) -> None:
    """Numba fixes its largest number of threads when it is imported, by default at the number of cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is not None and threads > cores and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))


if __name__ == "__main__":
    main()
