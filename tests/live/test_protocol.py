"""Messages between server and viewer: what goes in comes out, and what is malformed is refused by name."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vivace.live.protocol import (
    COMMANDS,
    FROM_SERVER,
    FROM_VIEWER,
    MOST_COMMAND_BYTES,
    PREFIX,
    VERSION,
    Frame,
    Hello,
    Kind,
    ProtocolError,
    _pack,
    _unpack,
    decode_frame,
    decode_from_server,
    decode_from_viewer,
    decode_hello,
    encode_ack,
    encode_answer,
    encode_command,
    encode_error,
    encode_frame,
    encode_hello,
)

TRIANGLES = np.array([[0, 1, 2], [2, 1, 3]], np.int32)
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.5]], np.float32)
HELLO = Hello(
    "tablecloth", {"particles": 4, "dt": 1 / 60}, TRIANGLES, [(CORNERS, TRIANGLES), (CORNERS[:3], TRIANGLES[:1])]
)
PAINT = np.array([0, 9, 255, 1], np.uint8)
UP = np.tile(np.array([0, 0, 1], np.float32), (4, 1))
GOOD_COMMANDS = [
    {"do": "pause"},
    {"do": "play"},
    {"do": "step"},
    {"do": "step", "frames": 100_000},
    {"do": "reset"},
    {"do": "set", "name": "damping", "value": 0.5},
    {"do": "set", "name": "gravity", "value": [0, -9.81, 0]},
    {"do": "set", "name": "solver", "value": "vivace"},
    {"do": "set", "name": "budget", "value": None},
    {"do": "grab", "origin": [0, 1, 2.5], "direction": [0, 0, -1]},
    {"do": "grab", "origin": [0, 1, 2.5], "direction": [0, 0, -1], "id": 4},
    {"do": "grab", "vertex": 0},
    {"do": "grab", "vertex": 7, "id": 4},
    {"do": "move", "id": 4, "to": [0, 1e9, 0]},
    {"do": "release", "id": 4},
    {"do": "record", "seconds": 0.5, "path": "täglich/cloth.mp4"},
]
BAD_COMMANDS = [
    ({}, "do must be one of"),
    ({"do": None}, "do must be one of"),
    ({"do": ["pause"]}, "do must be one of"),
    ({"do": "explode"}, "do must be one of"),
    ({"do": "pause", "now": True}, "pause: unknown field 'now'"),
    ({"do": "step", "frames": 0}, "step: frames must be"),
    ({"do": "step", "frames": 100_001}, "step: frames must be"),
    ({"do": "step", "frames": 1.0}, "step: frames must be"),
    ({"do": "step", "frames": True}, "step: frames must be"),
    ({"do": "step", "frames": None}, "step: frames must be"),
    ({"do": "set", "value": 1}, "set: name is missing"),
    ({"do": "set", "name": "damping"}, "set: value is missing"),
    ({"do": "set", "name": 3, "value": 1}, "set: name must be"),
    ({"do": "set", "name": "damping", "value": True}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": {}}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": [1, 2]}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": [1, 2, None]}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": [1, 2, [3]]}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": 1.1e9}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": 10**400}, "set: value must be"),
    ({"do": "set", "name": "damping", "value": "\ud800"}, "set: value must be"),
    ({"do": "grab"}, "grab: origin is missing"),
    ({"do": "grab", "origin": [0, 0, 0]}, "grab: direction is missing"),
    ({"do": "grab", "origin": [0, 0, 0], "direction": [0, 0, "1"]}, "grab: direction must be"),
    ({"do": "grab", "origin": [0, 0, 0], "direction": [0, 0, 1], "vertex": 3}, "grab: unknown field 'vertex'"),
    ({"do": "grab", "vertex": -1}, "grab: vertex must be"),
    ({"do": "grab", "vertex": 10**30}, "grab: vertex must be"),
    ({"do": "grab", "vertex": 1, "id": 0.5}, "grab: id must be"),
    ({"do": "move", "to": [0, 0, 0]}, "move: id is missing"),
    ({"do": "move", "id": 1, "to": [0, 0, 0, 0]}, "move: to must be"),
    ({"do": "move", "id": 1, "to": "abc"}, "move: to must be"),
    ({"do": "release", "id": "1"}, "release: id must be"),
    ({"do": "record", "seconds": 0, "path": "a"}, "record: seconds must be"),
    ({"do": "record", "seconds": 1, "path": None}, "record: path must be"),
    ({"do": "record", "seconds": 1, "path": "a\0b"}, "record: path must be"),
]
GOOD_MESSAGES = {
    "hello": encode_hello(HELLO),
    "quantized": encode_frame(3, CORNERS, UP, PAINT, {"fps": 60.5}),
    "exact": encode_frame(3, CORNERS, None, PAINT, {}, quantized=False),
    "answer": encode_answer({"id": 3}),
    "error": encode_error("no such solver"),
    "ack": encode_ack(3, {"normals": True}),
    "command": encode_command(GOOD_COMMANDS[9]),
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=5)


def decode(message):
    """As the one whom a message is for would read it."""
    known = isinstance(message, bytes) and len(message) > 1
    return decode_from_viewer(message) if known and message[1] in FROM_VIEWER else decode_from_server(message)


def with_header(kind, text, body=b""):
    """A message around any bytes for a header."""
    start = PREFIX.pack(VERSION, kind, len(text)) + text
    return start + bytes(-len(start) % 8) + body


def assert_same_surface(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_hello_comes_back_as_it_was():
    hello = decode_hello(encode_hello(HELLO))
    assert (hello.name, hello.about) == (HELLO.name, HELLO.about)
    assert_same_surface([hello.triangles], [TRIANGLES])
    for collider, sent in zip(hello.colliders, HELLO.colliders, strict=True):
        assert_same_surface(collider, sent)


@given(st.text(), json_objects)
def test_hello_may_tell_anything_about_itself(name, about):
    about["particles"] = 0
    hello = decode_hello(encode_hello(Hello(name, about, np.zeros((0, 3), np.int32), [])))
    assert (hello.name, hello.about) == (name, about) and hello.triangles.shape == (0, 3)


@given(
    arrays(np.float32, st.tuples(st.integers(0, 12), st.just(3)), elements=st.floats(-100, 100, width=32)), st.data()
)
def test_frame_comes_back_as_near_as_it_was_sent(positions, data):
    count = len(positions)
    normals = data.draw(st.none() | arrays(np.int8, (count, 3), elements=st.integers(-127, 127)))
    paint = data.draw(st.none() | arrays(np.uint8, count))
    report, quantized = data.draw(json_objects), data.draw(st.booleans())
    frame = decode_frame(encode_frame(7, positions, normals, paint, report, quantized))
    assert frame.number == 7 and frame.report == report
    assert frame.positions.dtype == np.float32 and frame.positions.shape == positions.shape
    if quantized and count:
        half_a_step = (positions.max(axis=0) - positions.min(axis=0)) / 65535 / 2
        assert (abs(frame.positions - positions) <= half_a_step + np.spacing(np.float32(100))).all()
    else:
        np.testing.assert_array_equal(frame.positions, positions)
    assert (frame.normals is None) == (normals is None) and (frame.paint is None) == (paint is None)
    if normals is not None:
        assert frame.normals.dtype == np.float32
        np.testing.assert_allclose(frame.normals, normals / 127, rtol=1e-6)
    if paint is not None:
        np.testing.assert_array_equal(frame.paint, paint)


def test_normals_may_be_unit_vectors():
    slanted = np.array([[0.6, 0.0, -0.8]], np.float32)
    frame = decode_frame(encode_frame(0, CORNERS[:1], slanted, None, {}))
    np.testing.assert_allclose(frame.normals, slanted, atol=0.5 / 127)


def test_positions_in_any_order_in_memory_and_read_only_are_sent():
    positions = np.asfortranarray(CORNERS.astype(float))
    positions.setflags(write=False)
    for quantized in (True, False):
        frame = decode_frame(encode_frame(0, positions, None, None, {}, quantized))
        np.testing.assert_allclose(frame.positions, CORNERS, atol=1e-5)


def test_arrays_start_at_multiples_of_8_and_are_not_copied():
    message = GOOD_MESSAGES["hello"]
    memory = np.frombuffer(message, np.uint8)
    for array in _unpack(message)[2].values():
        assert (array.ctypes.data - memory.ctypes.data) % 8 == 0 and np.shares_memory(array, memory)
        assert not array.flags.writeable
    assert len(message) % 8 == 0


def test_quantized_frame_is_about_half_as_long():
    positions = np.random.default_rng(0).normal(size=(1000, 3))
    short, long = (len(encode_frame(0, positions, None, None, {}, quantized)) for quantized in (True, False))
    assert short - 6000 < 300 and long - 12000 < 300


@given(json_objects, st.text())
def test_answers_and_errors_come_back_as_they_were(answer, error):
    assert decode_from_server(encode_answer(answer)) == {"answer": answer}
    assert decode_from_server(encode_error(error)) == {"error": error}


def test_server_messages_are_told_apart():
    assert isinstance(decode_from_server(GOOD_MESSAGES["hello"]), Hello)
    assert isinstance(decode_from_server(GOOD_MESSAGES["exact"]), Frame)


@pytest.mark.parametrize("command", GOOD_COMMANDS, ids=json.dumps)
def test_command_comes_back_as_it_was(command):
    assert decode_from_viewer(encode_command(command)) == (Kind.COMMAND, command)


def test_every_command_has_a_good_example_and_each_with_fields_a_bad_one():
    assert {command["do"] for command in GOOD_COMMANDS} == set(COMMANDS)
    with_fields = {name for name, forms in COMMANDS.items() if any(forms)}
    assert with_fields <= {command.get("do") for command, _ in BAD_COMMANDS if isinstance(command.get("do"), str)}


@pytest.mark.parametrize("command, problem", BAD_COMMANDS, ids=repr)
def test_bad_command_is_refused_by_name(command, problem):
    with pytest.raises(ProtocolError, match=problem):
        decode_from_viewer(encode_command(command))


@pytest.mark.parametrize("command", GOOD_COMMANDS, ids=json.dumps)
@given(json_values)
def test_command_with_any_other_value_in_a_field_is_understood_or_refused(command, value):
    for field in command:
        try:
            _, read = decode_from_viewer(encode_command({**command, field: value}))
        except ProtocolError:
            continue
        assert read[field] == value


@pytest.mark.parametrize("wants", [{}, {"normals": True, "paint": "speed", "quantized": False}, {"paint": None}])
def test_ack_comes_back_as_it_was(wants):
    assert decode_from_viewer(encode_ack(12, wants)) == (Kind.ACK, {"number": 12, "wants": wants})


@pytest.mark.parametrize(
    "number, wants, problem",
    [
        (-1, {}, "ACK: number must be"),
        (1.0, {}, "ACK: number must be"),
        (True, {}, "ACK: number must be"),
        (1, None, "ACK: wants must be an object"),
        (1, {"normals": 1}, "wants: normals must be"),
        (1, {"paint": 1}, "wants: paint must be"),
        (1, {"quantized": None}, "wants: quantized must be"),
        (1, {"colors": True}, "wants: unknown field 'colors'"),
    ],
)
def test_bad_ack_is_refused_by_name(number, wants, problem):
    with pytest.raises(ProtocolError, match=problem):
        decode_from_viewer(encode_ack(number, wants))


@pytest.mark.parametrize("decoder", [decode_from_viewer, decode_from_server, decode_hello, decode_frame])
@pytest.mark.parametrize("message", ["text", None, 3, bytearray(b"\1\1\0\0\0\0"), [1, 2]], ids=repr)
def test_what_is_not_bytes_is_refused(decoder, message):
    with pytest.raises(ProtocolError, match="not bytes"):
        decoder(message)


@pytest.mark.parametrize("name", GOOD_MESSAGES)
def test_every_truncation_is_refused(name):
    message = GOOD_MESSAGES[name]
    decode(message)
    for length in range(len(message)):
        with pytest.raises(ProtocolError):
            decode(message[:length])


@pytest.mark.parametrize("name", GOOD_MESSAGES)
@pytest.mark.parametrize("more", [b"\0", bytes(8), b"x" * 100], ids=len)
def test_bytes_behind_the_end_are_refused(name, more):
    with pytest.raises(ProtocolError, match="its header tells of"):
        decode(GOOD_MESSAGES[name] + more)


@pytest.mark.parametrize("name", GOOD_MESSAGES)
def test_another_version_is_refused_and_both_are_named(name):
    with pytest.raises(ProtocolError, match="version 2; this is version 1"):
        decode(b"\2" + GOOD_MESSAGES[name][1:])


@pytest.mark.parametrize("kind", [0, 7, 255])
def test_unknown_kind_is_refused(kind):
    with pytest.raises(ProtocolError, match=f"unknown kind {kind}"):
        decode(bytes([VERSION, kind]) + GOOD_MESSAGES["answer"][2:])


def test_each_side_understands_only_what_the_other_says():
    assert sorted(FROM_SERVER + FROM_VIEWER) == sorted(Kind)
    with pytest.raises(ProtocolError, match="message is FRAME; expected ACK or COMMAND"):
        decode_from_viewer(GOOD_MESSAGES["exact"])
    with pytest.raises(ProtocolError, match="message is ACK; expected HELLO or FRAME or ANSWER or ERROR"):
        decode_from_server(GOOD_MESSAGES["ack"])
    with pytest.raises(ProtocolError, match="message is FRAME; expected HELLO"):
        decode_hello(GOOD_MESSAGES["exact"])


def test_viewer_that_says_too_much_is_refused():
    record = {"do": "record", "seconds": 1, "path": ""}
    room = MOST_COMMAND_BYTES - len(encode_command(record))
    decode_from_viewer(encode_command({**record, "path": "a" * room}))
    with pytest.raises(ProtocolError, match="a viewer may send 65536"):
        decode_from_viewer(encode_command({**record, "path": "a" * (room + 8)}))


def test_random_bytes_are_refused():
    for seed in range(2000):
        generator = np.random.default_rng(seed)
        noise = generator.bytes(generator.integers(0, 200))
        # Behind a good start more of the decoder is reached.
        for message in (
            noise,
            bytes([VERSION, 1 + seed % len(Kind)]) + noise,
            with_header(1 + seed % len(Kind), noise),
        ):
            with pytest.raises(ProtocolError):
                decode(message)


@pytest.mark.parametrize("name", GOOD_MESSAGES)
def test_message_with_changed_bytes_is_understood_or_refused(name):
    for seed in range(2000):
        generator = np.random.default_rng(seed)
        message = bytearray(GOOD_MESSAGES[name])
        for place in generator.integers(0, len(message), generator.integers(1, 4)):
            message[place] = generator.integers(0, 256)
        try:
            decode(bytes(message))
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    "text, problem",
    [
        (b"", "cannot be read as JSON"),
        (b"\xff", "cannot be read as JSON"),
        (b"{", "cannot be read as JSON"),
        (b"[" * 60_000, "cannot be read as JSON"),
        (b"9" * 5000, "cannot be read as JSON"),
        ('{"answer":{},"arrays":[]}'.encode("utf-16"), "cannot be read as JSON"),
        (b'{"answer":{"x":NaN},"arrays":[]}', "NaN is no finite number"),
        (b'{"answer":{"x":-Infinity},"arrays":[]}', "-Infinity is no finite number"),
        (b'{"answer":{"x":1e999},"arrays":[]}', "1e999 is no finite number"),
        (b"[]", "list and no object"),
        (b"null", "NoneType and no object"),
        (b'{"answer":{}}', "no list of arrays"),
        (b'{"answer":{},"arrays":{}}', "no list of arrays"),
        (b'{"arrays":[]}', "ANSWER: answer is missing"),
        (b'{"answer":[],"arrays":[]}', "ANSWER: answer must be an object"),
        (b'{"answer":{},"more":1,"arrays":[]}', "ANSWER: unknown field 'more'"),
        (b'{"answer":{},"arrays":[["x","uint8",[0]]]}', "ANSWER: unknown array 'x'"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_header_is_refused(text, problem):
    with pytest.raises(ProtocolError, match=problem):
        decode_from_server(with_header(Kind.ANSWER, text))


@pytest.mark.parametrize(
    "entry, problem",
    [
        ("x", "array 0 must be listed as"),
        (["x", "uint8"], "array 0 must be listed as"),
        ([3, "uint8", [1]], "array 0 must be listed as"),
        ([["x"], "uint8", [1]], "array 0 must be listed as"),
        (["x", "float64", [1]], "array 'x' must be of one of the types"),
        (["x", ["uint8"], [1]], "array 'x' must be of one of the types"),
        (["x", "object", [1]], "array 'x' must be of one of the types"),
        (["x", "uint8", 8], "array 'x' must have a shape"),
        (["x", "uint8", []], "array 'x' must have a shape"),
        (["x", "uint8", [2, 2, 2]], "array 'x' must have a shape"),
        (["x", "uint8", [-8]], "array 'x' must have a shape"),
        (["x", "uint8", [8.0]], "array 'x' must have a shape"),
        (["x", "uint8", [True]], "array 'x' must have a shape"),
        (["x", "uint8", [0, 10**40]], "array 'x' must have a shape"),
        (["x", "int32", [10**9, 10**9]], "its header tells of"),
        (["x", "int32", [2**30, 2**2]], "array 'x' must have a shape"),
        (["x", "uint8", [9]], "its header tells of"),
        (["x", "uint8", [0]], "its header tells of"),
    ],
    ids=repr,
)
def test_bad_list_of_arrays_is_refused(entry, problem):
    text = json.dumps({"answer": {}, "arrays": [entry]}).encode()
    with pytest.raises(ProtocolError, match=problem):
        _unpack(with_header(Kind.ANSWER, text, bytes(8)))


def test_array_without_rows_may_have_any_width():
    text = json.dumps({"arrays": [["x", "float32", [0, 10**9]]]}).encode()
    assert _unpack(with_header(Kind.ANSWER, text))[2]["x"].shape == (0, 10**9)


def test_two_arrays_of_one_name_are_refused():
    text = json.dumps({"arrays": [["x", "uint8", [0]]] * 2}).encode()
    with pytest.raises(ProtocolError, match="array 1 must be listed as"):
        _unpack(with_header(Kind.ANSWER, text))


@pytest.mark.parametrize("array", ["positions", "normals", "paint"])
@pytest.mark.parametrize("change", ["type", "rows", "columns"])
def test_frame_with_a_wrong_array_is_refused_by_name(array, change):
    _, header, arrays = _unpack(GOOD_MESSAGES["quantized"])
    sent = arrays[array]
    arrays[array] = {"type": sent.astype(np.int32), "rows": sent[:3], "columns": sent.reshape(-1, 2)}[change]
    # It is the positions that tell how many particles there are.
    blamed = "normals" if (array, change) == ("positions", "rows") else array
    with pytest.raises(ProtocolError, match=f"array {blamed} "):
        decode_frame(_pack(Kind.FRAME, header, arrays))


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"number": -1}, "FRAME: number must be"),
        ({"report": None}, "FRAME: report must be an object"),
        ({"low": [0, 0]}, "FRAME: low must be three numbers"),
        ({"high": [0, 0, 1e39]}, "FRAME: high must be three numbers"),
        ({"high": [0, 0, 10**400]}, "FRAME: high must be three numbers"),
        ({"color": 1}, "FRAME: unknown field 'color'"),
    ],
    ids=repr,
)
def test_frame_with_a_wrong_field_is_refused_by_name(change, problem):
    _, header, arrays = _unpack(GOOD_MESSAGES["quantized"])
    with pytest.raises(ProtocolError, match=problem):
        decode_frame(_pack(Kind.FRAME, {**header, **change}, arrays))


def test_frame_that_lacks_something_is_refused_by_name():
    _, header, arrays = _unpack(GOOD_MESSAGES["quantized"])
    with pytest.raises(ProtocolError, match="array positions is missing"):
        decode_frame(_pack(Kind.FRAME, header, {}))
    with pytest.raises(ProtocolError, match="unknown array 'more'"):
        decode_frame(_pack(Kind.FRAME, header, {**arrays, "more": PAINT}))
    del header["low"]
    with pytest.raises(ProtocolError, match="quantized positions have no box"):
        decode_frame(_pack(Kind.FRAME, header, arrays))


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"name": 3}, "HELLO: name must be"),
        ({"about": []}, "HELLO: about must be an object"),
        ({"about": {}}, "HELLO: particles must be"),
        ({"about": {"particles": 4.0}}, "HELLO: particles must be"),
        ({"about": {"particles": 3}}, "array triangles names vertices that are not among 3"),
        ({"colliders": 3}, "array vertices 2 is missing"),
        ({"colliders": 10**9}, "array vertices 2 is missing"),
        ({"colliders": 1}, "unknown array 'vertices 1'"),
        ({"colliders": []}, "HELLO: colliders must be"),
    ],
    ids=repr,
)
def test_hello_with_a_wrong_field_is_refused_by_name(change, problem):
    _, header, arrays = _unpack(GOOD_MESSAGES["hello"])
    with pytest.raises(ProtocolError, match=problem):
        decode_hello(_pack(Kind.HELLO, {**header, **change}, arrays))


@pytest.mark.parametrize("name", ["triangles", "triangles 0", "triangles 1"])
@pytest.mark.parametrize("vertex", [-1, 4, 2**31 - 1, -(2**31)])
def test_hello_with_a_triangle_of_vertices_that_are_not_there_is_refused(name, vertex):
    _, header, arrays = _unpack(GOOD_MESSAGES["hello"])
    arrays[name] = arrays[name].copy()
    arrays[name][0, 1] = vertex
    with pytest.raises(ProtocolError, match=f"array {name} names vertices"):
        decode_hello(_pack(Kind.HELLO, header, arrays))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_has_no_words_for_is_not_sent(value):
    with pytest.raises(ProtocolError, match="ANSWER cannot be written as JSON"):
        encode_answer({"value": value})
