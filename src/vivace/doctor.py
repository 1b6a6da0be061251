"""What `vivace doctor` looks at."""

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from . import __version__, caching
from .errors import InputError
from .io.picture import check_gl
from .kernels import region
from .kernels.lanes import WIDTH

EXTRAS = {
    "pyvista": ("pictures", "render"),
    "imageio_ffmpeg": ("MP4", "render"),
    "PIL": ("GIF", "render"),
    "imageio": ("PNG", "render"),
    "matplotlib": ("plots", "render"),
    "igl": ("mesh colliders", "mesh"),
    "trimesh": ("mesh files", "mesh"),
    "websockets": ("serving a simulation", "live"),
    "viser": ("the live page", "live"),
    "mpi4py": ("several ranks", "mpi"),
    "pymetis": ("blocks made and shared out to ranks", "mpi"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    good: bool = True
    advice: str = ""


def diagnose() -> list[Finding]:
    """Everything that decides how fast vivace runs here and what it can write."""
    return [
        Finding(
            "versions",
            f"vivace {__version__}, Python {platform.python_version()}, "
            f"Numba {_version('numba')}, NumPy {_version('numpy')}",
        ),
        Finding(
            "threads",
            f"{region.core_count()} cores for this process, {region.most_threads()} threads in a region at most",
        ),
        _layer(),
        _lanes(),
        _cache(),
        _kept(),
        *(_extra(module, *use) for module, use in EXTRAS.items()),
        _gl(),
    ]


def _version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


def _layer() -> Finding:
    together, layer = region.runs_threads_together(region.core_count()), region.threading_layer()
    return Finding(
        "threading layer",
        layer,
        together,
        "" if together else "a parallel region for each sweep is slower; unset NUMBA_THREADING_LAYER, or set it to omp",
    )


def _lanes() -> Finding:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    wide = next((name for name in ("avx512f", "avx2", "neon") if features.get(name)), "none")
    return Finding(
        "lanes",
        f"{WIDTH} floats at a time ({binding.get_host_cpu_name()}, {wide})",
        wide != "none",
        "" if wide != "none" else "without AVX2 or NEON the sweeps run, but slower",
    )


def _cache() -> Finding:
    folder = Path(os.environ.get("NUMBA_CACHE_DIR", Path(__file__).parent / "kernels" / "__pycache__"))
    kernels = sum(1 for _ in folder.rglob("*.nbc")) if folder.is_dir() else 0
    writable = os.access(folder if folder.is_dir() else folder.parent, os.W_OK)
    advice = (
        ""
        if writable
        else "kernels go to the user's cache folder; if that fails too, set NUMBA_CACHE_DIR to a writable one"
    )
    return Finding(
        "kernel cache",
        f"{kernels} kernels in {folder}" if kernels else f"empty ({folder}); the first run compiles for some seconds",
        writable,
        advice,
    )


def _kept() -> Finding:
    folder = caching.folder()
    files = list(folder.rglob("*.npz")) if folder.is_dir() else []
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    return Finding("kept results", f"{len(files)} files, {megabytes:.1f} MB in {folder} (VIVACE_CACHE moves it)")


def _extra(module: str, use: str, extra: str) -> Finding:
    there = importlib.util.find_spec(module) is not None
    return Finding(
        f"{use} ({module})",
        "installed" if there else "missing",
        there,
        "" if there else f"{Path(sys.executable).name} -m pip install 'vivace[{extra}]'",
    )


def _gl() -> Finding:
    try:
        check_gl()
    except InputError as problem:
        return Finding("OpenGL", "missing", False, str(problem))
    return Finding("OpenGL", "found")
