"""Rigid motion: into a collider's own space and back, and poses that go on by a constant twist.

A pose is twelve numbers: a rotation, row by row, and a translation. A motion is the same with the identity taken off
the rotation, so that small ones keep their precision: x -> x + (D x + t).
"""

import math
from functools import cache

from .compile import doubles_at, floats_at, kernel, source_digest
from .lanes import value_function

POSE = 12
# What a collider does in a frame, in one float64 array: the twist that leads from the pose at its start to that at its
# end (axis, angle [rad] and translation of a whole frame), both poses, and the share of the frame that is over.
AXIS, ANGLE, TRANSLATION, START, END, DONE, PATH = 0, 3, 4, 7, 19, 31, 32
NEARLY_ALL = 1 - 1e-5  # of a frame: shares are rounded, and its end is to be met exactly


@value_function
def to_local(point, pose):
    """R^T (p - t)"""
    x, y, z = point[0] - pose[9], point[1] - pose[10], point[2] - pose[11]
    return (
        pose[0] * x + pose[3] * y + pose[6] * z,
        pose[1] * x + pose[4] * y + pose[7] * z,
        pose[2] * x + pose[5] * y + pose[8] * z,
    )


@value_function
def turned(direction, pose):
    """R n"""
    x, y, z = direction
    return (
        pose[0] * x + pose[1] * y + pose[2] * z,
        pose[3] * x + pose[4] * y + pose[5] * z,
        pose[6] * x + pose[7] * y + pose[8] * z,
    )


@value_function
def standing(row, motion):
    """What stands still carries nothing."""
    return row


@value_function
def riding(row, motion):
    """Where a row is after a motion that takes it along."""
    x, y, z = turned((row[0], row[1], row[2]), motion)
    return row[0] + (x + motion[9]), row[1] + (y + motion[10]), row[2] + (z + motion[11]), row[3]


@value_function
def twisted(path, share):
    """The motion exp(share * twist): a screw about a fixed axis (Rodrigues)."""
    x, y, z, angle = path[AXIS], path[AXIS + 1], path[AXIS + 2], path[ANGLE]
    u, v, w = path[TRANSLATION], path[TRANSLATION + 1], path[TRANSLATION + 2]
    sine, half = math.sin(share * angle), math.sin(share * angle / 2)
    versine = 2 * half * half
    by_cross = versine / angle if angle > 0 else 0.0
    by_square = share - sine / angle if angle > 0 else 0.0
    cu, cv, cw = y * w - z * v, z * u - x * w, x * v - y * u
    along = x * u + y * v + z * w
    return (
        versine * (x * x - 1),
        versine * x * y - sine * z,
        versine * x * z + sine * y,
        versine * x * y + sine * z,
        versine * (y * y - 1),
        versine * y * z - sine * x,
        versine * x * z - sine * y,
        versine * y * z + sine * x,
        versine * (z * z - 1),
        share * u + by_cross * cu + by_square * (along * x - u),
        share * v + by_cross * cv + by_square * (along * y - v),
        share * w + by_cross * cw + by_square * (along * z - w),
    )


@value_function
def advance_pose(path, share, pose, motion):
    """A share of the frame later: writes the new pose, and the motion that led to it, and notes the time."""
    before = path[DONE]
    now = before + share
    if now > NEARLY_ALL:
        now = 1.0
    path[DONE] = now
    last = twisted(path, now - before)
    since_start = twisted(path, now)
    for i in range(POSE):
        motion[i] = last[i]
    for row in range(3):
        x, y, z = since_start[3 * row], since_start[3 * row + 1], since_start[3 * row + 2]
        for column in range(3):
            start = path[START + 3 * row + column]
            change = x * path[START + column] + y * path[START + 3 + column] + z * path[START + 6 + column]
            pose[3 * row + column] = start + change
        change = x * path[START + 9] + y * path[START + 10] + z * path[START + 11]
        pose[9 + row] = path[START + 9 + row] + change + since_start[9 + row]
    if now == 1.0:
        for i in range(POSE):
            pose[i] = path[END + i]


@cache
def advance_kernel():
    """Addresses: path, share of the frame, pose, motion of the substep. One item: a collider."""
    digest = source_digest(advance_pose)

    @kernel
    def advance_collider(addresses, first, last):
        _ = digest  # part of the cache key
        for _item in range(first, last):
            path, share = doubles_at(addresses[0]), doubles_at(addresses[1])
            advance_pose(path, share[0], floats_at(addresses[2]), floats_at(addresses[3]))

    return advance_collider
