"""Rows of four floats (x, y, z, inverse mass) between memory and lanes.

A row is one 16-byte load. Eight of them are transposed in registers into x, y, z, w lanes: faster than
the gather instruction and than structure of arrays, and plain LLVM vector code on every processor.
Pointers instead of arrays: a kernel then has a C signature, and no private Numba array helper is needed.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .lanes import WIDTH, f32x8, f64x8, shuffle

INDEX = ir.IntType(64)
row_type = types.UniTuple(f32x8, 4)
HALVES = range(0, WIDTH, 4)


def _row_pointer(builder, rows, row):
    """Address of a row, given its number as a 32-bit integer."""
    offset = builder.shl(builder.zext(row, INDEX), ir.Constant(INDEX, 2))
    return builder.bitcast(builder.gep(rows, [offset]), ir.VectorType(rows.type.pointee, 4).as_pointer())


def _listed_rows(builder, rows, indices, first, stride):
    """Addresses of the rows indices[first + lane * stride]."""
    for lane in range(WIDTH):
        place = builder.add(first, builder.mul(stride, ir.Constant(INDEX, lane)))
        index = builder.load(builder.gep(indices, [place]))
        # No sweep writes its index list; without this promise LLVM loads it again after every store.
        index.set_metadata("invariant.load", builder.module.add_metadata([]))
        yield _row_pointer(builder, rows, index)


def _transpose(builder, quads):
    """4x4 transpose in each half of four registers; it is its own inverse."""
    a, b, c, d = quads
    # Processors interleave within 16 bytes: four floats, or two doubles.
    near, apart = (1, 2) if a.type == f32x8.vector else (2, 1)
    even = [i for h in HALVES for i in (h, WIDTH + h, h + near, WIDTH + h + near)]
    odd = [i + apart for i in even]
    ab, cd, ab2, cd2 = (shuffle(builder, *pair) for pair in ((a, b, even), (c, d, even), (a, b, odd), (c, d, odd)))
    left = [i for h in HALVES for i in (h, h + 1, WIDTH + h, WIDTH + h + 1)]
    right = [i + 2 for i in left]
    first, second, third, fourth = (ab, cd, left), (ab, cd, right), (ab2, cd2, left), (ab2, cd2, right)
    columns = (first, second, third, fourth) if near == 1 else (first, third, second, fourth)
    return [shuffle(builder, *column) for column in columns]


def _lanes_at(pointer):
    """What eight numbers behind a pointer are."""
    return f64x8 if pointer.dtype == types.float64 else f32x8


def _rows_at(pointer):
    """What eight rows behind a pointer are as lanes."""
    return types.UniTuple(_lanes_at(pointer), 4)


def _load_rows(context, builder, pointers, kind=row_type):
    quads = [builder.load(pointer, align=16) for pointer in pointers]
    pairs = [shuffle(builder, quads[i], quads[i + 4], list(range(WIDTH))) for i in range(4)]
    return context.make_tuple(builder, kind, _transpose(builder, pairs))


def _as_computed(builder, vector):
    """The vector behind a fence: LLVM would merge the transpose with the split into rows, and shuffle a third more."""
    suffix = f32x8.suffix if vector.type == f32x8.vector else f64x8.suffix
    function = ir.FunctionType(vector.type, [vector.type])
    return builder.call(builder.module.declare_intrinsic(f"llvm.arithmetic.fence.{suffix}", (), function), [vector])


def _single_rows(builder, row):
    """A row of lanes as eight rows, in the order of the lanes."""
    pairs = [
        _as_computed(builder, pair) for pair in _transpose(builder, [builder.extract_value(row, i) for i in range(4)])
    ]
    for lane in range(WIDTH):
        pair, half = pairs[lane % 4], lane // 4 * 4
        yield shuffle(builder, pair, pair, list(range(half, half + 4)))


def _store_rows(builder, pointers, row):
    for value, pointer in zip(_single_rows(builder, row), pointers):
        builder.store(value, pointer, align=16)


def _add_rows(builder, pointers, row):
    """One after the other, since the same row may be among them twice."""
    for value, pointer in zip(_single_rows(builder, row), pointers):
        builder.store(builder.fadd(builder.load(pointer, align=16), value), pointer, align=16)


@intrinsic(prefer_literal=True)
def gather(typing_context, rows, indices, block, arity):
    """The corners of eight constraints: a tuple of `arity` rows of lanes. `arity` is a compile-time constant."""
    if not isinstance(arity, types.IntegerLiteral):
        return None
    count = arity.literal_value
    result = types.UniTuple(row_type, count)

    def generate(context, builder, signature, args):
        return context.make_tuple(builder, result, list(_corners(context, builder, *args[:3], count)))

    return result(rows, indices, types.int64, arity), generate


def _corners(context, builder, rows, indices, block, count):
    """A row of lanes for each corner of eight constraints."""
    first = builder.mul(block, ir.Constant(INDEX, WIDTH * count))
    for corner in range(count):
        place = builder.add(first, ir.Constant(INDEX, corner))
        pointers = _listed_rows(builder, rows, indices, place, ir.Constant(INDEX, count))
        yield _load_rows(context, builder, list(pointers))


@intrinsic(prefer_literal=True)
def gather_split(typing_context, rows, indices, shares, block, arity):
    """The same, with each corner's inverse mass multiplied by its number in `shares` (see `in_blocks`)."""
    if not isinstance(arity, types.IntegerLiteral):
        return None
    count = arity.literal_value
    result = types.UniTuple(row_type, count)

    def generate(context, builder, signature, args):
        rows, indices, shares, block, _ = args
        corners = []
        for i, corner in enumerate(_corners(context, builder, rows, indices, block, count)):
            share = builder.load(_lanes_pointer(builder, shares, block, count, i), align=4)
            weight = builder.fmul(builder.extract_value(corner, 3), share)
            corners.append(builder.insert_value(corner, weight, 3))
        return context.make_tuple(builder, result, corners)

    return result(rows, indices, shares, types.int64, arity), generate


@intrinsic
def gather_rows(typing_context, rows, indices, first, stride):
    """The rows indices[first + lane * stride] as one row of lanes."""

    def generate(context, builder, signature, args):
        return _load_rows(context, builder, list(_listed_rows(builder, *args)), _rows_at(rows))

    return _rows_at(rows)(rows, indices, types.int64, types.int64), generate


@intrinsic
def scatter_rows(typing_context, rows, indices, first, stride, row):
    """Write a row of lanes back to the rows indices[first + lane * stride]."""

    def generate(context, builder, signature, args):
        *place, row = args
        _store_rows(builder, list(_listed_rows(builder, *place)), row)
        return context.get_dummy_value()

    return types.none(rows, indices, types.int64, types.int64, row_type), generate


@intrinsic
def scatter_add(typing_context, rows, indices, first, stride, row):
    """Add a row of lanes to the rows indices[first + lane * stride], lane after lane: a row may be there twice."""

    def generate(context, builder, signature, args):
        *place, row = args
        _add_rows(builder, list(_listed_rows(builder, *place)), row)
        return context.get_dummy_value()

    return types.none(rows, indices, types.int64, types.int64, _rows_at(rows)), generate


def _block_of_rows(builder, rows, block):
    """Addresses of the eight rows of a block."""
    first = builder.mul(block, ir.Constant(INDEX, WIDTH))
    for lane in range(WIDTH):
        yield _row_pointer(builder, rows, builder.trunc(builder.add(first, ir.Constant(INDEX, lane)), ir.IntType(32)))


@intrinsic
def load_rows(typing_context, rows, block):
    """Rows 8 * block to 8 * block + 7 as one row of lanes."""

    def generate(context, builder, signature, args):
        return _load_rows(context, builder, list(_block_of_rows(builder, *args)), _rows_at(rows))

    return _rows_at(rows)(rows, types.int64), generate


@intrinsic
def store_rows(typing_context, rows, block, row):
    """Write rows 8 * block to 8 * block + 7."""

    def generate(context, builder, signature, args):
        _store_rows(builder, list(_block_of_rows(builder, *args[:2])), args[2])
        return context.get_dummy_value()

    return types.none(rows, types.int64, _rows_at(rows)), generate


@intrinsic
def add_rows(typing_context, rows, block, row):
    """Add to rows 8 * block to 8 * block + 7."""

    def generate(context, builder, signature, args):
        _add_rows(builder, list(_block_of_rows(builder, *args[:2])), args[2])
        return context.get_dummy_value()

    return types.none(rows, types.int64, _rows_at(rows)), generate


def _lanes_pointer(builder, values, block, blocks_apart=1, offset=0):
    place = builder.add(
        builder.mul(block, ir.Constant(INDEX, WIDTH * blocks_apart)), ir.Constant(INDEX, WIDTH * offset)
    )
    lanes = ir.VectorType(values.type.pointee, WIDTH)
    return builder.bitcast(builder.gep(values, [place]), lanes.as_pointer())


@intrinsic(prefer_literal=True)
def load_block(typing_context, values, block, count):
    """`count` values of each of eight constraints: lanes if it is one, else a tuple of lanes. See `in_blocks`."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    size, lanes = count.literal_value, _lanes_at(values)
    result = lanes if size == 1 else types.UniTuple(lanes, size)

    def generate(context, builder, signature, args):
        loaded = [builder.load(_lanes_pointer(builder, args[0], args[1], size, i), align=4) for i in range(size)]
        return loaded[0] if size == 1 else context.make_tuple(builder, result, loaded)

    return result(values, types.int64, count), generate


def _prefetch(builder, pointer, cache):
    """Have a cache line fetched into the first or the second cache, before it is loaded."""
    byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
    read, keep, data = (ir.Constant(whole, number) for number in (0, 4 - cache, 1))
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), function)
    builder.call(prefetch, [builder.bitcast(pointer, byte), read, keep, data])


@intrinsic(prefer_literal=True)
def prefetch_block(typing_context, values, block, count, cache):
    """Have the `count` values of eight constraints fetched into cache 1 or 2, as `load_block` will load them.

    What waits to come into the first cache takes one of few places, some two dozen lines; the second has more.
    """
    if not (isinstance(count, types.IntegerLiteral) and isinstance(cache, types.IntegerLiteral)):
        return None
    size = count.literal_value

    def generate(context, builder, signature, args):
        for i in range(size):
            _prefetch(builder, _lanes_pointer(builder, args[0], args[1], size, i), cache.literal_value)
        return context.get_dummy_value()

    return types.none(values, types.int64, count, cache), generate


@intrinsic
def prefetch_row(typing_context, rows, row):
    def generate(context, builder, signature, args):
        _prefetch(builder, _row_pointer(builder, *args), 1)
        return context.get_dummy_value()

    return types.none(rows, types.int32), generate


@intrinsic
def store_block(typing_context, values, block, lanes):
    """Write one value of each of eight constraints."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _lanes_pointer(builder, args[0], args[1]), align=4)
        return context.get_dummy_value()

    return types.none(values, types.int64, _lanes_at(values)), generate


def _numbers(typing_context, values, item, count, single):
    if not isinstance(count, types.IntegerLiteral):
        return None
    size = count.literal_value
    result = types.float32 if size == 1 and single else types.UniTuple(types.float32, size)

    def generate(context, builder, signature, args):
        first = builder.mul(args[1], ir.Constant(INDEX, size))
        places = [builder.gep(args[0], [builder.add(first, ir.Constant(INDEX, i))]) for i in range(size)]
        loaded = [builder.load(place) for place in places]
        return loaded[0] if result == types.float32 else context.make_tuple(builder, result, loaded)

    return result(values, types.int64, count), generate


@intrinsic(prefer_literal=True)
def load_numbers(typing_context, values, item, count):
    """The `count` numbers of an item as a tuple of float32; each stands for eight equal lanes."""
    return _numbers(typing_context, values, item, count, single=False)


@intrinsic(prefer_literal=True)
def load_rest(typing_context, values, item, count):
    """The same, but a float32 if it is one: what `load_block` is to eight constraints."""
    return _numbers(typing_context, values, item, count, single=True)


@intrinsic
def load_pair(typing_context, rows, pair):
    """Rows 2 * pair and 2 * pair + 1 side by side, as they lie in memory."""

    def generate(context, builder, signature, args):
        return builder.load(_lanes_pointer(builder, *args), align=16)

    return f32x8(rows, types.int64), generate


@intrinsic
def store_pair(typing_context, rows, pair, lanes):
    """Write two rows side by side."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _lanes_pointer(builder, args[0], args[1]), align=16)
        return context.get_dummy_value()

    return types.none(rows, types.int64, f32x8), generate


@intrinsic
def weight_of_pair(typing_context, pair):
    """The fourth number of each of two rows, in all four places of its row."""

    def generate(context, builder, signature, args):
        return shuffle(builder, args[0], args[0], [3] * 4 + [7] * 4)

    return f32x8(pair), generate


def in_blocks(values):
    """(m, count) -> (m / 8, count, 8): the layout that `load_block` reads without a shuffle."""
    count = values.shape[1] if values.ndim > 1 else 1
    return np.ascontiguousarray(values.reshape(len(values) // WIDTH, WIDTH, count).swapaxes(1, 2))
