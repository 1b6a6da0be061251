"""NumPy archive: positions (frames, n, 3) float32, triangles (t, 3), dt [s]. Written in bounded memory."""

import shutil
import zipfile
from pathlib import Path

import numpy as np

from ..model import Model
from . import Camera, partial_name


class NpzWriter:
    """Frames go to a raw file as they come; closing puts them behind a header into the archive."""

    def __init__(self, path: Path, model: Model, dt: float, camera: Camera | None = None):
        self.path, self.model, self.dt, self.frames = path, model, dt, 0
        self.raw = partial_name(path.with_name(f"{path.name}.raw"))
        self._file = self.raw.open("wb")

    def write(self, positions: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(positions, np.float32).tobytes())
        self.frames += 1

    def close(self) -> None:
        target = partial_name(self.path)
        try:
            self._file.close()
            with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
                with archive.open("positions.npy", "w", force_zip64=True) as member, self.raw.open("rb") as frames:
                    shape = (self.frames, self.model.particle_count, 3)
                    np.lib.format.write_array_header_1_0(
                        member, {"descr": "<f4", "fortran_order": False, "shape": shape}
                    )
                    shutil.copyfileobj(frames, member, 1 << 20)
                for name, values in (("triangles", self.model.triangles), ("dt", np.float64(self.dt))):
                    with archive.open(f"{name}.npy", "w") as member:
                        np.lib.format.write_array(member, np.asarray(values))
            target.replace(self.path)
        finally:
            target.unlink(missing_ok=True)
            self.raw.unlink(missing_ok=True)

    def discard(self) -> None:
        try:
            self._file.close()
        except OSError:  # of a full disk, which was told before
            pass
        finally:
            self.raw.unlink(missing_ok=True)


WRITERS = {".npz": NpzWriter}
