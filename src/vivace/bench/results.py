"""Where results go."""

import csv
import io
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io import write_text
from ..kernels.region import core_count


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()


def machine_name() -> str:
    """A folder's name for this kind of machine, such as `amd-epyc-2-cores`."""
    return re.sub(r"[^a-z0-9]+", "-", f"{processor()} {core_count()} cores".lower()).strip("-")


def results_folder(folder: Path | None) -> Path:
    """The folder for results, made if it is not there; by default one for each machine."""
    folder = folder or Path("benchmarks/results") / machine_name()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot write into {folder}: {problem.strerror}") from problem
    return folder


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """All rows, with a column for every key; lists of numbers are joined, pictures left out."""
    rows = [{key: _cell(value) for key, value in row.items()} for row in without_pictures(rows)]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def without_pictures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without lists of pictures, which are for the plot."""
    return [{key: value for key, value in row.items() if not _is_pictures(value)} for row in rows]


def _is_pictures(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value)


def _cell(value: Any) -> Any:
    return " ".join(f"{item:g}" for item in value) if isinstance(value, list) else value
