"""Checkpoints: the state of a simulation in one file, from which it goes on to the same bits.

A file has a header in JSON, a table of checksums, and a record for each particle. Records come in pieces, each with its
checksum. Which process writes which piece does not matter, so a checkpoint does not know on how many ranks it was made.
It is written under a temporary name and renamed at the end, and the one before it is kept beside it.
"""

import hashlib
import json
import os
import struct
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from .errors import InputError
from .files import partial_name
from .holds import Hold
from .model import Model

if TYPE_CHECKING:
    from .simulation import Simulation

MAGIC, FORMAT = b"vivace checkpoint\n", 1
NUMBERS = struct.Struct("<II")  # bytes of the header, and its checksum


def save(path: str | os.PathLike, simulation: "Simulation", about: dict[str, Any] | None = None) -> None:
    """Write a checkpoint; the file that was there stays, as `previous_name(path)`, or as it is if this fails.

    about: what else a program wants to know when it goes on; plain numbers and texts.
    """
    path = Path(path)
    partial, state, control = partial_name(path), simulation.state, simulation.control
    header = {
        "format": FORMAT,
        "vivace": version("vivace"),
        "frame": simulation.frame,
        "dt": simulation.dt,
        "particles": simulation.model.particle_count,
        "record": state.record.descr,
        "pieces": state.pieces.tolist(),
        "model": model_digest(simulation.model),
        "gravity": list(control.gravity),
        "wind": list(control.wind),
        "holds": [
            [hold.particles, hold.shares, hold.target.tolist(), hold.firmness, hold.place.tolist()]
            for hold in control.holds
        ],
        "travelling": simulation._travelling.tolist(),
        "about": about or {},
    }
    text = json.dumps(header).encode()
    table = len(MAGIC) + NUMBERS.size + len(text)
    first = table + 4 * (len(state.pieces) - 1)
    try:
        with open(partial, "wb") as file:
            file.write(MAGIC + NUMBERS.pack(len(text), crc32(text)) + text)
            file.truncate(first + simulation.model.particle_count * state.record.itemsize)
        state.write_records(partial, table, first)
        _keep(path)
        os.replace(partial, path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {problem.strerror or problem}") from problem
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def previous_name(path: Path) -> Path:
    """Where the checkpoint before the newest is kept."""
    return path.with_name(f"{path.name}.previous")


def _keep(path: Path) -> None:
    """Let the file at `path` have its other name too; at every moment it has one of them."""
    if not path.exists():
        return
    other = partial_name(previous_name(path))
    try:
        other.unlink(missing_ok=True)
        os.link(path, other)
        os.replace(other, previous_name(path))
    except OSError:  # no hard links here
        other.unlink(missing_ok=True)
        os.replace(path, previous_name(path))


def read_header(path: str | os.PathLike) -> dict[str, Any]:
    """What a checkpoint says of itself; an error that says why, if it is none or not whole."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC) + NUMBERS.size)
            if not start.startswith(MAGIC):
                raise InputError(f"{path} is no checkpoint of vivace")
            if len(start) < len(MAGIC) + NUMBERS.size:
                raise InputError(f"{path} is not whole: it ends within its header")
            length, checksum = NUMBERS.unpack(start[len(MAGIC) :])
            text = file.read(length)
            size = os.fstat(file.fileno()).st_size
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from problem
    if len(text) < length:
        raise InputError(f"{path} is not whole: it ends within its header")
    if crc32(text) != checksum:
        raise InputError(f"{path} is damaged: its header is not as it was written")
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise InputError(
            f"{path} has format {header['format']}, made by vivace {header['vivace']}; this one has {FORMAT}"
        )
    header["table"] = len(start) + length
    header["first"] = header["table"] + 4 * (len(header["pieces"]) - 1)
    columns = [(name, kind, *(tuple(shape) for shape in shapes)) for name, kind, *shapes in header["record"]]
    header["record"] = np.dtype(columns)
    wanted = header["first"] + header["particles"] * header["record"].itemsize
    if size != wanted:
        raise InputError(f"{path} is not whole: it has {size} bytes of {wanted}")
    return header


def load(path: str | os.PathLike, simulation: "Simulation") -> dict[str, Any]:
    """Let a simulation of the same scene go on from a checkpoint; gives what `save` was told about it."""
    path, header = Path(path), read_header(path)
    model = simulation.model
    if header["particles"] != model.particle_count or header["model"] != model_digest(model):
        raise InputError(
            f"{path} is a checkpoint of another scene: of {header['particles']} particles; this one has "
            f"{model.particle_count}" + (", which are made otherwise" * (header["particles"] == model.particle_count))
        )
    if header["dt"] != simulation.dt:
        raise InputError(f"{path} has frames of {header['dt']:g} s, this simulation of {simulation.dt:g} s")
    records = np.empty(header["particles"], header["record"])
    for first, last, piece in _pieces(path, header):
        records[first:last] = np.frombuffer(piece, records.dtype)
    if (np.sort(records["particle"]) != np.arange(len(records))).any():
        raise InputError(f"{path} is damaged: it has not every particle once")
    simulation.state.put_records(records)
    simulation._views.clear()
    simulation.frame = header["frame"]
    simulation.control.gravity, simulation.control.wind = tuple(header["gravity"]), tuple(header["wind"])
    simulation.control.holds = [
        Hold(tuple(particles), tuple(shares), np.array(target), firmness, np.array(place))
        for particles, shares, target, firmness, place in header["holds"]
    ]
    simulation._travelling = np.array(header["travelling"], np.int64)
    return header["about"]


def recover(path: str | os.PathLike) -> None:
    """Make sure that there is a whole checkpoint at `path`: if need be the one before it, with a warning that says why.

    It takes the place of the damaged one, which would else be kept as the one before when the next is written.
    """
    path = Path(path)
    try:
        _check_whole(path)
    except InputError as problem:
        before = previous_name(path)
        try:
            _check_whole(before)
        except InputError:
            raise problem from None
        warnings.warn(f"{problem}; going on from {before.name}, which is whole", stacklevel=2)
        os.replace(before, path)


def _check_whole(path: Path) -> None:
    for _ in _pieces(path, read_header(path)):
        pass


def _pieces(path: Path, header: dict[str, Any]) -> Iterator[tuple[int, int, bytes]]:
    """First and end of the records of each piece, and its bytes, checked."""
    bounds = header["pieces"]
    with open(path, "rb") as file:
        file.seek(header["table"])
        checksums = np.frombuffer(file.read(4 * (len(bounds) - 1)), "<u4")
        for checksum, first, last in zip(checksums, bounds, bounds[1:]):
            piece = file.read((last - first) * header["record"].itemsize)
            if crc32(piece) != checksum:
                raise InputError(f"{path} is damaged: records {first} to {last - 1} are not as they were written")
            yield first, last, piece


def model_digest(model: Model) -> str:
    """A number for what a scene is made of; equal scenes have equal ones."""
    digest = hashlib.blake2b(digest_size=16)
    arrays = [model.positions, model.inverse_masses]
    for group in model.groups:
        digest.update(group.name.encode())
        arrays += [group.vertices, group.rest, group.stiffness_ratio]
        arrays += [column for column in (group.compliance, group.damping) if column is not None]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
