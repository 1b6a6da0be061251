"""What server and viewer say to each other: binary messages, written and read by functions that do nothing else.

    byte 0      VERSION
    byte 1      the kind
    bytes 2-5   the length of the header, uint32
    then        the header: a JSON object, UTF-8
    then        arrays, one after the other

The header's "arrays" lists them: [name, type, shape]. Header and arrays are each padded to a multiple of 8 bytes,
counted from the start of the message, so that a viewer can use them where they lie. All numbers are little-endian.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .encode import STEPS, UNIT, quantize

VERSION = 1
MOST_COMMAND_BYTES = 1 << 16  # what a viewer says is short
LARGEST_NUMBER = 1e9
LARGEST_FLOAT = float(np.finfo(np.float32).max)
PREFIX = struct.Struct("<BBI")
TYPES = {name: np.dtype(name).newbyteorder("<") for name in ("uint8", "int8", "uint16", "int32", "float32")}


class Kind(IntEnum):
    """The second byte of a message."""

    HELLO = 1  # from the server: what does not change
    FRAME = 2
    ANSWER = 3
    ERROR = 4
    ACK = 5  # from the viewer: a frame was drawn, and what the next should have
    COMMAND = 6


FROM_SERVER = (Kind.HELLO, Kind.FRAME, Kind.ANSWER, Kind.ERROR)
FROM_VIEWER = (Kind.ACK, Kind.COMMAND)


class ProtocolError(ValueError):
    """A message that is not understood; the text tells what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Hello:
    """What a viewer has to know once."""

    name: str
    about: dict[str, Any]  # anything; "particles" is their number
    triangles: np.ndarray  # (t, 3) int32, of particles
    colliders: list[tuple[np.ndarray, np.ndarray]]  # vertices (k, 3) float32, triangles (j, 3) int32


@dataclass(frozen=True, eq=False)
class Frame:
    """What a viewer draws."""

    number: int
    positions: np.ndarray  # (n, 3) float32 [m]
    normals: np.ndarray | None  # (n, 3) float32
    paint: np.ndarray | None  # (n,) uint8, a place in a list of colors
    report: dict[str, Any]


class Check(NamedTuple):
    """What a field has to be, in words and as a test."""

    wanted: str
    passes: Callable[[Any], bool]
    optional: bool = False


Form = Mapping[str, Check]


def _is_number(value: Any, most: float = LARGEST_NUMBER) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= most


def _is_whole(value: Any, least: float = -LARGEST_NUMBER, most: float = LARGEST_NUMBER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_vector(value: Any, most: float = LARGEST_NUMBER) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(_is_number(number, most) for number in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()  # which zeros and halves of characters are not


def _is_setting(value: Any) -> bool:
    return value is None or _is_number(value) or _is_text(value) or _is_vector(value)


WHOLE = Check("a whole number", _is_whole)
COUNT = Check("a whole number, at least 0", lambda value: _is_whole(value, 0))
FRAMES = Check("a whole number from 1 to 100000", lambda value: _is_whole(value, 1, 100_000))
SECONDS = Check("a number above 0", lambda value: _is_number(value) and value > 0)
VECTOR = Check("three numbers", _is_vector)
CORNER = Check("three numbers", lambda value: _is_vector(value, LARGEST_FLOAT))
TEXT = Check("a line of text", _is_text)
ANY_TEXT = Check("a text", lambda value: isinstance(value, str))
TEXT_OR_NULL = Check("a line of text or null", lambda value: value is None or _is_text(value))
SETTING = Check("a number, three numbers, a line of text or null", _is_setting)
FLAG = Check("true or false", lambda value: isinstance(value, bool))
OBJECT = Check("an object", lambda value: isinstance(value, dict))


def _optional(check: Check) -> Check:
    return check._replace(optional=True)


FORMS: Mapping[Kind, Form] = {
    Kind.HELLO: {"name": ANY_TEXT, "about": OBJECT, "colliders": COUNT},
    Kind.FRAME: {"number": COUNT, "low": _optional(CORNER), "high": _optional(CORNER), "report": OBJECT},
    Kind.ANSWER: {"answer": OBJECT},
    Kind.ERROR: {"error": ANY_TEXT},
    Kind.ACK: {"number": COUNT, "wants": OBJECT},
}
WANTS: Form = {"normals": _optional(FLAG), "paint": _optional(TEXT_OR_NULL), "quantized": _optional(FLAG)}
# What stands beside "do"; a grab has two forms.
COMMANDS: Mapping[str, Sequence[Form]] = {
    "pause": [{}],
    "play": [{}],
    "step": [{"frames": _optional(FRAMES)}],
    "reset": [{}],
    "set": [{"name": TEXT, "value": SETTING}],
    "grab": [
        {"origin": VECTOR, "direction": VECTOR, "id": _optional(WHOLE)},
        {"vertex": COUNT, "id": _optional(WHOLE)},
    ],
    "move": [{"id": WHOLE, "to": VECTOR}],
    "release": [{"id": WHOLE}],
    "record": [{"seconds": SECONDS, "path": TEXT}],
}


def encode_hello(hello: Hello) -> bytes:
    """What the server says first."""
    arrays = {"triangles": np.asarray(hello.triangles, np.int32)}
    for i, (vertices, triangles) in enumerate(hello.colliders):
        arrays[f"vertices {i}"] = np.asarray(vertices, np.float32)
        arrays[f"triangles {i}"] = np.asarray(triangles, np.int32)
    header = {"name": hello.name, "about": hello.about, "colliders": len(hello.colliders)}
    return _pack(Kind.HELLO, header, arrays)


def decode_hello(message: bytes) -> Hello:
    """What `encode_hello` was given, with arrays that lie in the message."""
    _, header, arrays = _unpack_one_of(message, Kind.HELLO)
    return _read_hello(header, arrays)


def _read_hello(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Hello:
    particles = header["about"].get("particles")
    if not COUNT.passes(particles):
        raise ProtocolError(f"HELLO: particles must be {COUNT.wanted}")
    triangles = _take_triangles(arrays, "triangles", particles)
    colliders = []
    for i in range(header["colliders"]):
        vertices = _take(arrays, f"vertices {i}", ("float32",), (3,))
        colliders.append((vertices, _take_triangles(arrays, f"triangles {i}", len(vertices))))
    _refuse_more("HELLO", arrays)
    return Hello(header["name"], header["about"], triangles, colliders)


def encode_frame(
    number: int,
    positions: np.ndarray,
    normals: np.ndarray | None,
    paint: np.ndarray | None,
    report: dict[str, Any],
    quantized: bool = True,
) -> bytes:
    """A frame with positions (n, 3) as 16 bits within their box, or as float32.

    `normals` (n, 3) are unit vectors, or int8 as `vertex_normals` makes them; `paint` is (n,) uint8.
    """
    header: dict[str, Any] = {"number": number, "report": report}
    places = np.ascontiguousarray(positions, np.float32)
    if quantized:
        low, high, places = quantize(places)
        header |= {"low": low.tolist(), "high": high.tolist()}
    arrays = {"positions": places}
    if normals is not None:
        arrays["normals"] = normals if normals.dtype == np.int8 else np.rint(normals * UNIT).astype(np.int8)
    if paint is not None:
        arrays["paint"] = np.asarray(paint, np.uint8)
    return _pack(Kind.FRAME, header, arrays)


def decode_frame(message: bytes) -> Frame:
    """What `encode_frame` was given, as near as the message has it."""
    _, header, arrays = _unpack_one_of(message, Kind.FRAME)
    return _read_frame(header, arrays)


def _read_frame(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Frame:
    positions = _take(arrays, "positions", ("uint16", "float32"), (3,))
    normals = _take(arrays, "normals", ("int8",), (3,), len(positions)) if "normals" in arrays else None
    paint = _take(arrays, "paint", ("uint8",), (), len(positions)) if "paint" in arrays else None
    _refuse_more("FRAME", arrays)
    if positions.dtype == np.uint16:
        if "low" not in header or "high" not in header:
            raise ProtocolError("FRAME: quantized positions have no box")
        positions = dequantize(header["low"], header["high"], positions)
    if normals is not None:
        normals = normals / np.float32(UNIT)
    return Frame(header["number"], positions, normals, paint, header["report"])


def dequantize(low: Sequence[float], high: Sequence[float], places: np.ndarray) -> np.ndarray:
    """Positions (n, 3) float32 from their places in a box: half a step from what they were, at most."""
    start, end = np.asarray(low, float), np.asarray(high, float)
    return (start + places * ((end - start) / STEPS)).astype(np.float32)


def encode_answer(answer: dict[str, Any]) -> bytes:
    """What came of a command."""
    return _pack(Kind.ANSWER, {"answer": answer}, {})


def encode_error(text: str) -> bytes:
    """Why a command was not done."""
    return _pack(Kind.ERROR, {"error": text}, {})


def encode_ack(number: int, wants: dict[str, Any]) -> bytes:
    """A viewer has drawn a frame and says what the next should have: normals, paint, quantized."""
    return _pack(Kind.ACK, {"number": number, "wants": wants}, {})


def encode_command(command: dict[str, Any]) -> bytes:
    """A viewer wants something done: {"do": "pause"}."""
    return _pack(Kind.COMMAND, command, {})


def decode_from_viewer(message: bytes) -> tuple[Kind, dict[str, Any]]:
    """An ACK or a COMMAND, with exactly the fields that it should have."""
    if isinstance(message, bytes) and len(message) > MOST_COMMAND_BYTES:
        raise ProtocolError(f"message has {len(message)} bytes; a viewer may send {MOST_COMMAND_BYTES}")
    kind, header, arrays = _unpack_one_of(message, *FROM_VIEWER)
    _refuse_more(kind.name, arrays)
    if kind == Kind.ACK:
        _check_fields("wants", header["wants"], WANTS)
    else:
        check_command(header)
    return kind, header


def decode_from_server(message: bytes) -> Hello | Frame | dict[str, Any]:
    """A Hello, a Frame, {"answer": object} or {"error": text}."""
    kind, header, arrays = _unpack_one_of(message, *FROM_SERVER)
    if kind == Kind.HELLO:
        return _read_hello(header, arrays)
    if kind == Kind.FRAME:
        return _read_frame(header, arrays)
    _refuse_more(kind.name, arrays)
    return header


def check_command(command: dict[str, Any]) -> None:
    name = command.get("do")
    if not isinstance(name, str) or name not in COMMANDS:
        raise ProtocolError(f"COMMAND: do must be one of {', '.join(COMMANDS)}")
    fields = {field: value for field, value in command.items() if field != "do"}
    nearest = max(COMMANDS[name], key=lambda form: len(form.keys() & fields.keys()))
    _check_fields(name, fields, nearest)


def _check_fields(where: str, fields: dict[str, Any], form: Form) -> None:
    for name in fields:
        if name not in form:
            raise ProtocolError(f"{where}: unknown field {name!r:.60}")
    for name, check in form.items():
        if name not in fields:
            if not check.optional:
                raise ProtocolError(f"{where}: {name} is missing")
        elif not check.passes(fields[name]):
            raise ProtocolError(f"{where}: {name} must be {check.wanted}")


def _take(
    arrays: dict[str, np.ndarray], name: str, types: Sequence[str], row: tuple[int, ...], rows: int | None = None
) -> np.ndarray:
    """Remove an array from those that are left, checked: its types, the shape of a row, how many there are."""
    if name not in arrays:
        raise ProtocolError(f"array {name} is missing")
    array = arrays.pop(name)
    if array.dtype not in [TYPES[known] for known in types]:
        raise ProtocolError(f"array {name} is {array.dtype.name}, not {' or '.join(types)}")
    if array.shape[1:] != row:
        raise ProtocolError(f"array {name} has rows of shape {array.shape[1:]}, not {row}")
    if rows is not None and len(array) != rows:
        raise ProtocolError(f"array {name} has {len(array)} rows for {rows} particles")
    return array


def _take_triangles(arrays: dict[str, np.ndarray], name: str, vertex_count: int) -> np.ndarray:
    triangles = _take(arrays, name, ("int32",), (3,))
    if triangles.size and not 0 <= triangles.min() <= triangles.max() < vertex_count:
        raise ProtocolError(f"array {name} names vertices that are not among {vertex_count}")
    return triangles


def _refuse_more(where: str, arrays: dict[str, np.ndarray]) -> None:
    if arrays:
        raise ProtocolError(f"{where}: unknown array {next(iter(arrays))!r:.60}")


def _padding(size: int) -> int:
    return -size % 8


def _pack(kind: Kind, header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A message; arrays have one of the known types."""
    listed = [[name, array.dtype.name, array.shape] for name, array in arrays.items()]
    try:
        text = json.dumps({**header, "arrays": listed}, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as problem:
        raise ProtocolError(f"{kind.name} cannot be written as JSON: {problem}") from problem
    start = PREFIX.pack(VERSION, kind, len(text)) + text
    parts: list[bytes | memoryview] = [start, bytes(_padding(len(start)))]
    for array in arrays.values():
        parts += [np.ascontiguousarray(array, TYPES[array.dtype.name]).data, bytes(_padding(array.nbytes))]
    return b"".join(parts)


def _unpack_one_of(message: bytes, *kinds: Kind) -> tuple[Kind, dict[str, Any], dict[str, np.ndarray]]:
    """Kind, header and arrays of a message of one of some kinds, whose header has the fields of its kind."""
    kind, header, arrays = _unpack(message)
    if kind not in kinds:
        raise ProtocolError(f"message is {kind.name}; expected {' or '.join(wanted.name for wanted in kinds)}")
    if kind in FORMS:
        _check_fields(kind.name, header, FORMS[kind])
    return kind, header, arrays


def _unpack(message: bytes) -> tuple[Kind, dict[str, Any], dict[str, np.ndarray]]:
    """Kind, header and arrays of a message, whatever they are; the arrays lie in the message."""
    if not isinstance(message, bytes):
        raise ProtocolError(f"message is {type(message).__name__}, not bytes")
    if len(message) < PREFIX.size:
        raise ProtocolError(f"message has {len(message)} bytes; the shortest has {PREFIX.size}")
    version, kind, header_size = PREFIX.unpack_from(message)
    if version != VERSION:
        raise ProtocolError(f"message is of version {version}; this is version {VERSION}")
    if kind not in list(Kind):
        raise ProtocolError(f"message is of unknown kind {kind}")
    end = PREFIX.size + header_size
    if end > len(message):
        raise ProtocolError(f"header has {header_size} bytes; the message has {len(message)}")
    header = _parse(message[PREFIX.size : end])
    places, end = [], end + _padding(end)
    for name, dtype, shape in _listed(header.pop("arrays", None)):
        count = math.prod(shape)
        places.append((name, dtype, shape, count, end))
        end += count * dtype.itemsize + _padding(count * dtype.itemsize)
    if end != len(message):
        raise ProtocolError(f"message has {len(message)} bytes; its header tells of {end}")
    arrays = {
        name: np.frombuffer(message, dtype, count, start).reshape(shape) for name, dtype, shape, count, start in places
    }
    return Kind(kind), header, arrays


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), parse_constant=_refuse_number, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError(f"header cannot be read as JSON: {problem}") from problem
    if not isinstance(header, dict):
        raise ProtocolError(f"header is JSON, but {type(header).__name__} and no object")
    return header


def _refuse_number(text: str) -> NoReturn:
    raise ProtocolError(f"{text:.60} is no finite number")


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _refuse_number(text)  # 1e999 is infinite


def _listed(entries: Any) -> list[tuple[str, np.dtype, list[int]]]:
    """What the header tells of the arrays."""
    if not isinstance(entries, list):
        raise ProtocolError("header has no list of arrays")
    known: dict[str, tuple[str, np.dtype, list[int]]] = {}
    for i, entry in enumerate(entries):
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str) or entry[0] in known:
            raise ProtocolError(f"array {i} must be listed as [name, type, shape] with a name of its own")
        name, dtype, shape = entry
        if not isinstance(dtype, str) or dtype not in TYPES:
            raise ProtocolError(f"array {name!r:.60} must be of one of the types {', '.join(TYPES)}")
        if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(map(COUNT.passes, shape)):
            raise ProtocolError(f"array {name!r:.60} must have a shape of one or two whole numbers, at least 0")
        known[name] = name, TYPES[dtype], shape
    return list(known.values())
