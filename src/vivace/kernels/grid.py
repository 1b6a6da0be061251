"""Numbers of a grid, looked up by eight lanes at once.

A sparse grid has blocks of voxels, found through a dense index. Its entries are floats: the number of a block, or,
where there is none, minus a distance that is free all around.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .lanes import FLOATS, WIDTH, all_lanes, as_lanes, f32x8, maximum, minimum, select, sqrt, value_function
from .vec3 import norm

ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
SIDE = 8  # voxels of a block along each axis
CORNERS = SIDE + 1
SIDE_OF_BLOCK, VOXELS_A_BLOCK = np.float32(1 / SIDE), np.float32(SIDE)
NEXT_X, NEXT_Y, NEXT_Z = np.float32(1), np.float32(CORNERS), np.float32(CORNERS**2)
A_BLOCK = np.float32(CORNERS**3)
INDEX = ir.IntType(64)
NUMBERS = 8  # of a grid: origin (3), 1 / voxel, blocks along each axis (3), band


def floor(a):
    return np.floor(a)


@intrinsic
def _floor(typing_context, a):
    def generate(context, builder, signature, args):
        function = ir.FunctionType(FLOATS, [FLOATS])
        return builder.call(builder.module.declare_intrinsic(f"llvm.floor.v{WIDTH}f32", (), function), args)

    return f32x8(a), generate


@overload(floor)
def _floor_of(a):
    return (lambda a: _floor(a)) if a == f32x8 else (lambda a: np.float32(math.floor(a)))


def look_up(values, row, width, place):
    """values[row * width + place], where all three are whole numbers in floats."""
    row, place = np.asarray(row).astype(np.int64), np.asarray(place).astype(np.int64)
    return values[row * np.int64(width) + place]


@intrinsic
def _look_up(typing_context, values, row, width, place):
    def generate(context, builder, signature, args):
        whole = ir.VectorType(INDEX, WIDTH)
        row, width, place = (
            builder.fptosi(as_lanes(context, builder, v, ty), whole) for v, ty in zip(args[1:], signature.args[1:])
        )
        places = builder.add(builder.mul(row, width), place)
        found = ir.Constant(FLOATS, ir.Undefined)
        for lane in range(WIDTH):
            at = ir.Constant(ir.IntType(32), lane)
            number = builder.load(builder.gep(args[0], [builder.extract_element(places, at)]))
            found = builder.insert_element(found, number, at)
        return found

    return f32x8(values, row, width, place), generate


@overload(look_up)
def _look_up_of(values, row, width, place):
    if f32x8 in (row, place):
        return lambda values, row, width, place: _look_up(values, row, width, place)
    if isinstance(values, types.CPointer):
        return lambda values, row, width, place: values[int(row) * int(width) + int(place)]


@value_function
def clamped(a, most):
    """Between 0 and `most`; what is not a number is `most`, and never a place outside the grid."""
    return maximum(minimum(a, most), ZERO)


@value_function
def between(a, b, share):
    return a + share * (b - a)


@value_function
def interpolated(values, block, corner, x, y, z):
    """Trilinear value in a voxel and its gradient by voxels; `corner` is its first one in the block."""
    a = look_up(values, block, A_BLOCK, corner)
    b = look_up(values, block, A_BLOCK, corner + NEXT_X)
    c = look_up(values, block, A_BLOCK, corner + NEXT_Y)
    d = look_up(values, block, A_BLOCK, corner + (NEXT_X + NEXT_Y))
    e = look_up(values, block, A_BLOCK, corner + NEXT_Z)
    f = look_up(values, block, A_BLOCK, corner + (NEXT_X + NEXT_Z))
    g = look_up(values, block, A_BLOCK, corner + (NEXT_Y + NEXT_Z))
    h = look_up(values, block, A_BLOCK, corner + (NEXT_X + NEXT_Y + NEXT_Z))
    low, high = between(between(a, b, x), between(c, d, x), y), between(between(e, f, x), between(g, h, x), y)
    along_x = between(between(b - a, d - c, y), between(f - e, h - g, y), z)
    along_y = between(between(c - a, d - b, x), between(g - e, h - f, x), z)
    return between(low, high, z), (along_x, along_y, high - low)


@value_function
def grid_distance_normal(point, numbers, index, values):
    """Distance to what a sparse grid was made of, and the outward normal; both only so good as its voxels are small.

    Where there is no block, and outside the grid, the distance is one that is free at least, and the normal is up.
    From outside, the way to anything in the grid leads over the nearest point of its box, at a right angle or more.
    """
    wide, high, deep, band = numbers[4], numbers[5], numbers[6], numbers[7]
    u, v, w = (
        (point[0] - numbers[0]) * numbers[3],
        (point[1] - numbers[1]) * numbers[3],
        (point[2] - numbers[2]) * numbers[3],
    )
    x, y, z = (
        clamped(u, VOXELS_A_BLOCK * wide),
        clamped(v, VOXELS_A_BLOCK * high),
        clamped(w, VOXELS_A_BLOCK * deep),
    )
    beyond = norm((u - x, v - y, w - z)) / numbers[3]
    i, j, k = (
        minimum(floor(x * SIDE_OF_BLOCK), wide - ONE),
        minimum(floor(y * SIDE_OF_BLOCK), high - ONE),
        minimum(floor(z * SIDE_OF_BLOCK), deep - ONE),
    )
    entry = look_up(index, k * high + j, wide, i)
    is_near = (entry >= ZERO) & (beyond <= ZERO)
    here = maximum(-entry, band)
    free, up = sqrt(here * here + beyond * beyond), ONE + ZERO * x
    if all_lanes(select(is_near, ONE, ZERO) < HALF):
        return free, (ZERO * x, up, ZERO * x)
    # Now in voxels of the block.
    x, y, z = x - VOXELS_A_BLOCK * i, y - VOXELS_A_BLOCK * j, z - VOXELS_A_BLOCK * k
    last = VOXELS_A_BLOCK - ONE
    i, j, k = minimum(floor(x), last), minimum(floor(y), last), minimum(floor(z), last)
    corner = (k * NEXT_Y + j) * NEXT_Y + i
    distance, (nx, ny, nz) = interpolated(values, maximum(entry, ZERO), corner, x - i, y - j, z - k)
    length = norm((nx, ny, nz))
    has_way = (length > ZERO) & is_near
    inverse = ONE / select(has_way, length, ONE)
    return select(is_near, distance, free), (
        select(has_way, nx * inverse, ZERO),
        select(has_way, ny * inverse, ONE),
        select(has_way, nz * inverse, ZERO),
    )
