"""Kernels that move tiles through a ring by tensor maps, the same for GPUs and the CPU device, and a runner for them.

TMA writes each tile to a slot; consumers write the slot's bytes out unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from altered_plan import altered
from numpy.typing import NDArray

from qconv import Conv2d, generator
from qconv.device import Device, tensor_maps
from qconv.device.cpu_runtime import Arguments, Pointer
from qconv.generator import Plan
from qconv.generator.coefficients import polynomials
from qconv.generator.definitions import used
from qconv.generator.plan import Field, Launch
from qconv.generator.source import ENTRIES, PRELUDES, SUFFIXES, _environment, source_digest
from qconv.generator.tensor_map import TensorMap
from qconv.targets.target import Target

Kind = Literal["load", "store"]
BLOCKS, PRODUCER, CONSUMERS = 2, 32, 64
SPAN = 1024  # the swizzle's period: slots begin at its multiples

PAGE = """
//% include prelude
constexpr int SLOTS = ${ slots }, BYTES = ${ each }, PITCH = ${ pitch }, BLOCKS = ${ blocks }, CONSUMERS = 64;
//% if kind != "store"
//%   include "pipeline/ring.j2"
//% endif
struct Arguments {
    tile::TensorMap map;
    const int* coordinates;  // 8 of each tile
    unsigned char* bytes;
    int tiles;
};
struct Shared {
    alignas(1024) unsigned char slots[SLOTS][PITCH];
//% if kind != "store"
    Ring<SLOTS> ring;
//% endif
};
//% if kind == "load"
extern "C" __global__ void __launch_bounds__(96) move(const __grid_constant__ Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    const int t = tile::thread();
    if (t == 0) shared.ring.open(CONSUMERS);
    tile::barrier();
    PipelineState<SLOTS> state;
    if (t < 32) {
        for (int i = tile::block_x(); i < args.tiles && t == 0; i += BLOCKS) {
            const int* const at = args.coordinates + 8 * i;
            tile::Mbarrier& full = shared.ring.acquire(state, BYTES);
            tile::${ call }(args.map, shared.slots[state.slot], full, ${ at });
            state.advance();
        }
    } else {
        for (int i = tile::block_x(); i < args.tiles; i += BLOCKS) {
            shared.ring.wait(state);
            const unsigned char* const slot = shared.slots[state.slot];
            for (int byte = t - 32; byte < BYTES; byte += CONSUMERS) args.bytes[i * BYTES + byte] = slot[byte];
            shared.ring.release(state);
            state.advance();
        }
    }
}
//% else
extern "C" __global__ void __launch_bounds__(64) move(const __grid_constant__ Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    const int t = tile::thread();
    for (int i = tile::block_x(), turn = 0; i < args.tiles; i += BLOCKS, ++turn) {
        const int* const at = args.coordinates + 8 * i;
        unsigned char* const slot = shared.slots[turn % SLOTS];
        for (int byte = t; byte < BYTES; byte += 64) slot[byte] = args.bytes[i * BYTES + byte];
        tile::fence_proxy_async();
        tile::barrier();
        if (t == 0) {
            tile::${ call }(args.map, slot, ${ at });
            tile::commit_stores();
            tile::wait_for_store_reads<SLOTS - 1>();
        }
        tile::barrier();
    }
    if (t == 0) tile::wait_for_store_reads<0>();
}
//% endif
//% include entry
"""


@lru_cache(maxsize=8)
def _plain(target: Target) -> Plan:
    """Return a plan to alter; searching for it takes longer than running it."""
    return generator.default(Conv2d(1, 4, 4, 16, 16, 1, 1), target)


@dataclass(frozen=True, eq=False)
class Case:
    """Tiles of an array, copied by a tensor map."""

    tensor_map: TensorMap
    array: NDArray[np.uint8]  # its bytes
    coordinates: Sequence[tuple[int, ...]]  # for im2col, followed by the tap's offsets
    kind: Kind = "load"
    slots: int = 3
    # tiles to store, as laid out in slots
    tiles: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    @property
    def each(self) -> int:
        return self.tensor_map.bytes

    @property
    def pitch(self) -> int:
        return -(-self.each // SPAN) * SPAN

    @property
    def primitive(self) -> str:
        what = "tile" if self.tensor_map.pixel_box is None else "im2col"
        return f"{self.kind}_{what}_{self.tensor_map.rank}d"

    def text(self, target: Target) -> str:
        page = _environment().from_string(PAGE)
        text = page.render(
            prelude=PRELUDES[target.vendor],
            plan=self.plan(target),
            entry=ENTRIES[target.vendor],
            wants={"tensors", "async_proxy"} if self.kind == "store" else {"tensors"},
            polynomials=polynomials(),
            kind=self.kind,
            call=self.primitive,
            at=", ".join(f"at[{i}]" for i in range(len(self.coordinates[0]))),
            slots=self.slots,
            each=self.each,
            pitch=self.pitch,
            blocks=BLOCKS,
        )
        return used(text)

    def plan(self, target: Target) -> Plan:
        """Return a plan that launches the kernel above; everything else comes from another plan."""
        threads = CONSUMERS if self.kind == "store" else PRODUCER + CONSUMERS
        smem = self.slots * self.pitch + (0 if self.kind == "store" else 16 * self.slots)
        fields = (
            Field("map", "tile::TensorMap", "tensor_map", "the array", tensor_map=self.tensor_map),
            Field("coordinates", "const int*", "coordinates", "8 of each tile"),
            Field("bytes", "unsigned char*", "bytes", "the tiles"),
            Field("tiles", "int", "value", "how many"),
        )
        launch = Launch("move", (BLOCKS, 1, 1), threads, -(-smem // SPAN) * SPAN)
        return altered(_plain(target), launches=(launch,), fields=fields)

    @property
    def filled(self) -> NDArray[np.int32]:
        rows = np.zeros((len(self.coordinates), 8), np.int32)
        rows[:, : len(self.coordinates[0])] = self.coordinates
        return rows

    @property
    def room(self) -> NDArray[np.uint8]:
        """Return an array for the loaded tiles."""
        return np.full(len(self.coordinates) * self.each, 0xA5, np.uint8)

    def on(self, device: Device, kernel: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the array and the tiles after launching a kernel that `device` has loaded."""
        plan = self.plan(device.target)
        given = self.tiles if self.kind == "store" else self.room
        array, coordinates, tiles = (device.upload(one) for one in (self.array, self.filled, given))
        addresses = [device.adopt("array", one)[1] for one in (array, coordinates, tiles)]
        values = [device.encode(self.tensor_map, addresses[0]), *(struct.pack("Q", each) for each in addresses[1:])]
        packed = bytearray(plan.argument_bytes)
        for at, value in zip(plan.offsets, [*values, struct.pack("i", len(self.coordinates))], strict=True):
            packed[at : at + len(value)] = value
        kernel.bind(plan.main, bytes(packed))(None)
        device.synchronize()
        return device.download(array), device.download(tiles)

    def sanitized(self, plan: Plan) -> tuple[Arguments, list[bytes]]:
        """Return the arguments and the buffers of a run under a sanitizer: the array, the coordinates, the tiles."""
        given = self.tiles if self.kind == "store" else self.room
        buffers = [one.tobytes() for one in (self.array, self.filled, given)]
        described = tensor_maps.described(self.tensor_map, 0)[8:]
        at_map, *at, at_count = plan.offsets
        pointers = tuple(Pointer(offset, i) for i, offset in enumerate((at_map, *at)))
        values = ((at_map + 8, described), (at_count, struct.pack("i", len(self.coordinates))))
        return Arguments(plan.argument_bytes, pointers, values), buffers


def elements(tensor_map: TensorMap, index: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the byte offsets of elements in the array, and whether they exist; coordinates are broadcast."""
    strides = (tensor_map.element_bytes, *tensor_map.strides)
    shape = np.broadcast_shapes(*(one.shape for one in index))
    offset, inside = np.zeros(shape, np.int64), np.ones(shape, np.bool_)
    for one, stride, extent in zip(index, strides, tensor_map.dims, strict=True):
        offset = offset + one * stride
        inside = inside & (one >= 0) & (one < extent)
    return offset, inside


def index_of(tensor_map: TensorMap, coordinates: Sequence[int]) -> list[NDArray[Any]]:
    """Return the coordinates of the elements of a copy, in the order of the tile."""
    rank = tensor_map.rank
    if tensor_map.pixel_box is None:
        spread = []
        for d, (first, count, step) in enumerate(
            zip(coordinates, tensor_map.shape, tensor_map.element_strides, strict=True)
        ):
            axis = [1] * rank
            axis[rank - 1 - d] = count
            spread.append((first + step * np.arange(count)).reshape(axis))
        return spread
    box, at, taps = tensor_map.pixel_box, coordinates[:rank], coordinates[rank:]
    # All pixels of the box in order, for more images than there are.
    bounds = zip(box.lower, tensor_map.dims[1:-1], box.upper, tensor_map.element_strides[1:-1], strict=True)
    axes = [np.arange(lower, extent + upper, step) for lower, extent, upper, step in bounds]
    images = np.arange(at[-1] + box.pixels + 1)
    grid = np.meshgrid(images, *reversed(axes), indexing="ij")
    walked = [one.reshape(-1) for one in reversed(grid)]
    begin = int(np.flatnonzero(np.all([one == here for one, here in zip(walked, at[1:], strict=True)], axis=0))[0])
    pixels = [one[begin : begin + box.pixels, None] for one in walked]
    seen = [one + tap for one, tap in zip(pixels, (*taps, 0), strict=True)]
    return [at[0] + np.arange(box.channels)[None, :], *seen]


def places(tensor_map: TensorMap, first: int = 0) -> NDArray[np.int64]:
    """Return the offsets of a tile's bytes, for a tile that begins `first` bytes after a multiple of 1024."""
    at = first + np.arange(tensor_map.bytes)
    return at ^ ((at >> 7) % max(1, tensor_map.swizzle // 16) << 4)


def loaded(case: Case) -> NDArray[np.uint8]:
    """Return the kernels' expected output: the tiles as laid out in their slots."""
    tensor_map, found = case.tensor_map, []
    for coordinates in case.coordinates:
        offset, inside = elements(tensor_map, index_of(tensor_map, coordinates))
        whole = offset[..., None] + np.arange(tensor_map.element_bytes)
        content = np.where(inside[..., None], case.array[np.clip(whole, 0, len(case.array) - 1)], 0).reshape(-1)
        found.append(content.astype(np.uint8))
    return np.concatenate([_laid(tensor_map, one) for one in found])


def _laid(tensor_map: TensorMap, content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay a tile out as its slot has it."""
    slot = np.zeros_like(content)
    slot[places(tensor_map, 0)] = content
    return slot


def stored(case: Case) -> NDArray[np.uint8]:
    """Return the array after the stores of the tiles, which do not overlap."""
    tensor_map, array = case.tensor_map, case.array.copy()
    for coordinates, tile in zip(case.coordinates, case.tiles.reshape(-1, case.each), strict=True):
        offset, inside = elements(tensor_map, index_of(tensor_map, coordinates))
        whole = offset[..., None] + np.arange(tensor_map.element_bytes)
        content = tile[places(tensor_map)].reshape(whole.shape)
        array[whole[inside]] = content[inside]
    return array


def source_of(case: Case, target: Target) -> generator.Source:
    text = case.text(target)
    return generator.Source(text, source_digest(text, case.plan(target).launches), SUFFIXES[target.vendor])


def difference(case: Case, array: NDArray[np.uint8], tiles: NDArray[np.uint8]) -> str | None:
    """Return the difference between a launch's results and NumPy's, or None."""
    got, want = (array, stored(case)) if case.kind == "store" else (tiles, loaded(case))
    wrong = np.flatnonzero(got != want)
    if not len(wrong):
        return None
    at = int(wrong[0])
    return (
        f"{len(wrong)} of {len(want)} bytes are wrong, the first {at}: {got[at : at + 16]}, not {want[at : at + 16]}\n"
        f"{case.primitive} {case.tensor_map} {case.coordinates}"
    )
