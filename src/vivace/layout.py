"""How vertex-centric sweeps lie in memory: eight particles of one color at a time, their lists side by side.

Lists are padded to the longest within their block and transposed, so that lane i reads list i (sliced ELL): 7x faster
than one particle after the other. Particles stay in their rows, so a new coloring only needs new lists. A color is
filled up to whole blocks by repeating its last particle: that lane computes and stores the same numbers once more.
"""

from dataclasses import dataclass

import numpy as np
from numba import prange

from .kernels.compile import compiled, compiled_parallel
from .kernels.lanes import WIDTH
from .system import System


@dataclass(eq=False)
class Layout:
    """`bounds` of a block: first slot, end of its springs, end of its slots, first and end of its pulls, -, -, -."""

    first_block: np.ndarray  # (colors + 1,) int64
    particles: np.ndarray  # (blocks, 8) int32
    bounds: np.ndarray  # (blocks, 8) int32
    neighbors: np.ndarray  # (slots, 8) int32
    weights: np.ndarray  # (slots, 8) float32
    stiffness: np.ndarray  # (slots, 8) float32
    rest: np.ndarray  # (slots, 8) float32
    pulls: np.ndarray  # (pull slots, 8) int32
    diagonal: np.ndarray  # (blocks, 8) float32


def lay_out(system: System, colors: np.ndarray, color_count: int, reuse: Layout | None = None) -> Layout:
    """The lists of a system in the order of a coloring; into the memory of an older layout, if it is large enough."""
    first_block, particles = blocks_of(colors, color_count)
    bounds, slots, pulls = _bounds(particles, system.offsets, system.springs, system.pull_offsets)
    blocks = len(particles)
    sizes = {
        "neighbors": (slots, np.int32),
        "weights": (slots, np.float32),
        "stiffness": (slots, np.float32),
        "rest": (slots, np.float32),
        "pulls": (pulls, np.int32),
        "diagonal": (blocks, np.float32),
    }
    columns = {name: _memory(getattr(reuse, name, None), *size) for name, size in sizes.items()}
    _fill(
        particles,
        bounds,
        system.offsets,
        system.neighbors,
        system.weights,
        system.stiffness,
        system.rest,
        system.springs,
        system.pull_offsets,
        system.pull_rows,
        system.diagonal,
        *columns.values(),
    )
    return Layout(first_block, particles, bounds, **columns)


def _memory(before: np.ndarray | None, rows: int, dtype: type) -> np.ndarray:
    """Old memory if it is large enough: new pages cost more than filling them. Some room is left for the next time."""
    if before is not None and len(before) >= rows:
        return before
    return np.zeros((rows + rows // 8 + 1, WIDTH), dtype)


@compiled
def blocks_of(colors: np.ndarray, color_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Particles by color, in their own order within it, filled up to whole blocks."""
    sizes = np.zeros(color_count, np.int64)
    for color in colors:
        sizes[color] += 1
    first_block = np.zeros(color_count + 1, np.int64)
    for color in range(color_count):
        first_block[color + 1] = first_block[color] + (sizes[color] + WIDTH - 1) // WIDTH
    particles = np.zeros((first_block[color_count], WIDTH), np.int32)
    flat, place = particles.ravel(), first_block[:-1] * WIDTH
    for particle in range(len(colors)):
        color = colors[particle]
        flat[place[color]] = particle
        place[color] += 1
    for color in range(color_count):
        for i in range(place[color], first_block[color + 1] * WIDTH):
            flat[i] = flat[place[color] - 1]
    return first_block, particles


@compiled
def _bounds(
    particles: np.ndarray, offsets: np.ndarray, springs: np.ndarray, pull_offsets: np.ndarray
) -> tuple[np.ndarray, int, int]:
    """Bounds of each block's slots, and how many slots and pulls there are."""
    bounds = np.zeros((len(particles), 8), np.int32)
    slot, pull = 0, 0
    for block in range(len(particles)):
        most_springs, most_others, most_pulls = 0, 0, 0
        for lane in range(WIDTH):
            i = particles[block, lane]
            most_springs = max(most_springs, springs[i])
            most_others = max(most_others, offsets[i + 1] - offsets[i] - springs[i])
            most_pulls = max(most_pulls, pull_offsets[i + 1] - pull_offsets[i])
        bounds[block, 0], bounds[block, 1] = slot, slot + most_springs
        slot += most_springs + most_others
        bounds[block, 2], bounds[block, 3] = slot, pull
        pull += most_pulls
        bounds[block, 4] = pull
    return bounds, slot, pull


@compiled_parallel
def _fill(
    particles: np.ndarray,
    bounds: np.ndarray,
    offsets: np.ndarray,
    own_neighbors: np.ndarray,
    own_weights: np.ndarray,
    own_stiffness: np.ndarray,
    own_rest: np.ndarray,
    springs: np.ndarray,
    pull_offsets: np.ndarray,
    pull_rows: np.ndarray,
    own_diagonal: np.ndarray,
    neighbors: np.ndarray,
    weights: np.ndarray,
    stiffness: np.ndarray,
    rest: np.ndarray,
    pulls: np.ndarray,
    diagonal: np.ndarray,
) -> None:
    for block in prange(len(particles)):
        first, middle, last = bounds[block, 0], bounds[block, 1], bounds[block, 2]
        for lane in range(WIDTH):
            i = particles[block, lane]
            diagonal[block, lane] = own_diagonal[i]
            entry, end_of_springs, end = offsets[i], offsets[i] + springs[i], offsets[i + 1]
            for slot in range(first, last):
                until = end_of_springs if slot < middle else end
                if entry < until:
                    neighbors[slot, lane], weights[slot, lane] = own_neighbors[entry], own_weights[entry]
                    stiffness[slot, lane], rest[slot, lane] = own_stiffness[entry], own_rest[entry]
                    entry += 1
                else:
                    neighbors[slot, lane], weights[slot, lane] = i, 0
                    stiffness[slot, lane], rest[slot, lane] = 0, 0
            pull = pull_offsets[i]
            for slot in range(bounds[block, 3], bounds[block, 4]):
                pulls[slot, lane] = pull_rows[pull] if pull < pull_offsets[i + 1] else 0
                pull += 1


@dataclass(eq=False)
class Incidence:
    """A group's constraints as the particles of some blocks meet them; a slot without one has corner -1, strength 0."""

    bounds: np.ndarray  # (blocks + 1,) int32, slots of each block
    members: np.ndarray  # (slots, 8, arity) int32
    corners: np.ndarray  # (slots, 8) float32
    rest: np.ndarray  # (slots, rest values, 8) float32
    strengths: np.ndarray  # (slots, 8) float32


class Incident:
    """A group's constraints (m, arity) by their particles, to be laid out for one coloring after the other."""

    def __init__(self, vertices: np.ndarray, rest: np.ndarray, strengths: np.ndarray, particle_count: int):
        self.vertices, self.strengths = vertices, strengths.astype(np.float32)
        self.rest = np.ascontiguousarray(rest.reshape(len(vertices), -1), np.float32)
        self.entries = np.argsort(vertices.ravel(), kind="stable")  # arity * constraint + corner
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(vertices.ravel(), minlength=particle_count))])

    def lay_out(self, particles: np.ndarray) -> Incidence:
        """The constraints on each particle of the blocks (b, 8)."""
        lengths = np.diff(self.offsets)[particles].max(axis=1)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        slots = int(bounds[-1])
        made = Incidence(
            bounds,
            np.empty((slots, WIDTH, self.vertices.shape[1]), np.int32),
            np.empty((slots, WIDTH), np.float32),
            np.empty((slots, self.rest.shape[1], WIDTH), np.float32),
            np.empty((slots, WIDTH), np.float32),
        )
        lists = self.offsets, self.entries, self.vertices, self.rest, self.strengths
        _fill_incidence(particles, *lists, bounds, made.members, made.corners, made.rest, made.strengths)
        return made


@compiled_parallel
def _fill_incidence(
    particles: np.ndarray,
    offsets: np.ndarray,
    entries: np.ndarray,
    vertices: np.ndarray,
    own_rest: np.ndarray,
    own_strengths: np.ndarray,
    bounds: np.ndarray,
    members: np.ndarray,
    corners: np.ndarray,
    rest: np.ndarray,
    strengths: np.ndarray,
) -> None:
    arity = vertices.shape[1]
    for block in prange(len(particles)):
        for lane in range(WIDTH):
            entry, end = offsets[particles[block, lane]], offsets[particles[block, lane] + 1]
            for slot in range(bounds[block], bounds[block + 1]):
                which, corner = 0, -1
                if entry < end:
                    which, corner = entries[entry] // arity, entries[entry] % arity
                corners[slot, lane] = corner
                strengths[slot, lane] = own_strengths[which] if corner >= 0 else 0
                for k in range(arity):
                    members[slot, lane, k] = vertices[which, k]
                for k in range(own_rest.shape[1]):
                    rest[slot, k, lane] = own_rest[which, k]
                entry += 1
