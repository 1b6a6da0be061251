"""Makes a film of recorded positions, in a process of its own: `python -m vivace.live.film` with a JSON argument."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import scenes
from ..errors import InputError
from ..io.film import FilmWriter


def start_film(frames: Path, target: Path, scene: str, scale: float, starts: float) -> subprocess.Popen[str]:
    """Begin to make it; the file of frames is removed when it is done."""
    what = {"frames": str(frames), "target": str(target), "scene": scene, "scale": scale, "starts": starts}
    command = [sys.executable, "-m", "vivace.live.film", json.dumps(what)]
    pipes: Any = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # an interrupt is not for it


def make_film(frames: str, target: str, scene: str, scale: float, starts: float) -> None:
    setup = scenes.find(scene)
    with np.load(frames) as file:
        positions, dt = file["positions"], float(file["dt"])
    model = replace(setup.make(scale).build(), positions=positions[0])
    writer = FilmWriter(Path(target), model, dt, setup.camera, starts)
    try:
        for shown in positions[1:]:
            writer.write(shown)
    except BaseException:
        writer.discard()
        raise
    writer.close()


def main() -> None:
    what: dict[str, Any] = json.loads(sys.argv[1])
    try:
        make_film(**what)
    except (InputError, OSError) as problem:
        sys.exit(f"{what['target']}: {problem}")
    finally:
        Path(what["frames"]).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
