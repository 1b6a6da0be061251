"""Files that appear as a whole or not at all."""

import os
from pathlib import Path


def partial_name(path: Path) -> Path:
    """The temporary name of a file in the making; it keeps the ending, which some libraries look at."""
    return path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
