"""Planted bugs in tensor maps, in the copies that they describe, and in the ring that these fill."""

from mutants.mutant import Mutant

OF_MAP = ("test_tensor_map.py",)
OF_DRIVER = ("test_tensor_maps.py",)
OF_EXECUTABLE = ("test_executable.py::test_tensor_maps_are_encoded_where_arrays_lie",)
ON_GPU = ("test_tensor_maps_gpu.py",)


def tiles(kind: str, *seeds: int) -> tuple[str, ...]:
    place = "test_cpu_tensor.py::test_tiles_lie_where_numpy_puts_them"
    return tuple(f"{place}[{kind}-{seed}]" for seed in seeds)


def ring(kind: str, sanitizer: str = "address", seed: int = 2) -> tuple[str, ...]:
    return (f"test_ring.py::test_nothing_is_found[{kind}-{sanitizer}-{seed}]",)


MUTANTS = (
    Mutant(
        "tensor map: a box without the trailing pads",
        "im2col",
        "(right - span_w, bottom - span_h, *along.upper)",
        "(-span_w, -span_h, *along.upper)",
        "Filters begin in the padding behind the image as well.",
        OF_MAP,
    ),
    Mutant(
        "tensor map: strides change places",
        "im2col",
        "steps = (1, problem.stride[1], problem.stride[0], *along.step, 1)",
        "steps = (1, problem.stride[0], problem.stride[1], *along.step, 1)",
        "Columns come before rows.",
        OF_MAP,
    ),
    Mutant(
        "tensor map: as many bytes as the box has",
        "TensorMap.shape",
        "return tuple(-(-extent // step) for extent, step in zip(self.box, self.element_strides, strict=True))",
        "return self.box",
        "Of a box only every so manieth element is copied.",
        OF_MAP,
    ),
    Mutant(
        "tensor map: half a chunk at the end of a row",
        "TensorMap._check_array",
        "if self.dims[0] * self.element_bytes % CHUNK:",
        "if self.dims[0] * self.element_bytes % 4:",
        "A store writes behind the row.",
        OF_MAP,
    ),
    Mutant(
        "tensor map: any target",
        "Plan.tensor_maps",
        "if found and not self.target.tensor_maps:",
        "if found and not self.target.name:",
        "No GPU before Hopper has TMA.",
        OF_MAP,
    ),
    Mutant(
        "plan: a tensor map behind a pointer",
        "Field.alignment",
        "return TENSOR_MAP_ALIGNMENT if self.tensor_map is not None else self.size_bytes",
        "return 8 if self.tensor_map is not None else self.size_bytes",
        "A map begins at a multiple of 64 bytes.",
        OF_MAP,
    ),
    Mutant(
        "driver: another swizzle",
        "tensor_maps",
        "SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}",
        "SWIZZLES = {0: 0, 32: 2, 64: 1, 128: 3}",
        "The driver's swizzles are numbered by their widths.",
        OF_DRIVER,
    ),
    Mutant(
        "driver: corners change places",
        "encoded",
        "_array(ctypes.c_int, pixels.lower), _array(ctypes.c_int, pixels.upper)",
        "_array(ctypes.c_int, pixels.upper), _array(ctypes.c_int, pixels.lower)",
        "The lower corner comes first.",
        OF_DRIVER,
    ),
    Mutant(
        "driver: a refusal is taken for a map",
        "encoded",
        "if status:",
        "if status < 0:",
        "A launch with it stops the GPU.",
        OF_DRIVER,
    ),
    Mutant(
        "executable: a map of the first array for ever",
        "Packed._encode",
        "key = tensor_map, address",
        "key = tensor_map, 0",
        "Another address is another map.",
        OF_EXECUTABLE,
    ),
    Mutant(
        "executable: encoded at every call",
        "Packed._encode",
        "if key not in self._encoded:",
        "if True:",
        "The driver takes its time.",
        OF_EXECUTABLE,
    ),
    Mutant(
        "export: maps without their corners",
        "_described",
        "return asdict(tensor_map) | {",
        'return asdict(tensor_map) | {"pixel_box": None} | {',
        "A program cannot encode what the manifest does not say.",
        ("library/test_export.py::test_it_says_how_tensor_maps_are_encoded",),
    ),
    Mutant(
        "cpu tensor: no swizzle",
        "swizzled",
        "const size_t chunks = span == 0 ? 1 : span / kChunk;",
        "const size_t chunks = span == 0 ? 1 : 1;",
        "Chunks change places by their rows.",
        tiles("load", 3, 5),
    ),
    Mutant(
        "cpu tensor: a swizzle by a row's number",
        "swizzled",
        "((address >> 7) & (chunks - 1))",
        "((address >> 6) & (chunks - 1))",
        "Whatever the width, a chunk's place depends on which 128 bytes it lies in.",
        tiles("load", 3, 5),
    ),
    Mutant(
        "cpu tensor: pixels without strides",
        "for_pixels",
        "pixel[d] += map.element_strides[d];",
        "pixel[d] += 1;",
        "The next output's filter is a stride further on.",
        tiles("load", 3, 5),
    ),
    Mutant(
        "cpu tensor: the next row begins at the first pixel",
        "for_pixels",
        "pixel[d] = map.lower[d - 1];",
        "pixel[d] = 0;",
        "It begins in the padding.",
        tiles("load", 1, 3, 5),
    ),
    Mutant(
        "cpu tensor: taps that are not moved",
        "for_pixels",
        "at[d] += offsets[d - 1];",
        "at[d] += 0 * offsets[d - 1];",
        "Every tap of a filter reads other pixels.",
        tiles("load", 1, 3),
    ),
    Mutant(
        "cpu tensor: tiles without element strides",
        "for_tile",
        "at[d] = coordinates[d] + index[d] * map.element_strides[d];",
        "at[d] = coordinates[d] + index[d];",
        "Elements in between are left out.",
        tiles("load", 0, 4),
    ),
    Mutant(
        "cpu stores: made when a group is committed",
        "store",
        "    if (engines.late()) return;\n",
        "",
        "A store may read its tile until it is waited for.",
        ("test_ring.py::test_what_is_left_out_is_found[a tile is written again while it is read]",),
    ),
    Mutant(
        "cpu stores: a wait for one group less",
        "wait",
        "store.group + groups < own.groups",
        "store.group + groups + 1 < own.groups",
        "The wait leaves this number of groups outstanding.",
        ring("store"),
    ),
    Mutant(
        "cpu engines: a phase with one arrival",
        "complete",
        "if (barrier.arrived < barrier.expected || barrier.bytes != 0) return;",
        "if (barrier.arrived < 1 || barrier.bytes != 0) return;",
        "All consumers release a slot.",
        ring("load"),
    ),
    Mutant(
        "cpu tensor: a tap's row and column change places",
        "templates/prelude/cpu_tensor.j2",
        "static_cast<unsigned short>(tap_w), static_cast<unsigned short>(tap_h)};",
        "static_cast<unsigned short>(tap_h), static_cast<unsigned short>(tap_w)};",
        "The innermost offset comes first.",
        ring("load"),
    ),
    Mutant(
        "ring: a slot is filled while it is read",
        "acquire",
        "if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);\n        full",
        "full",
        "The producer waits until it is empty.",
        ring("load"),
    ),
    Mutant(
        "ring: uses are not counted",
        "advance",
        "        ++phase;\n",
        "",
        "The second use of a slot is another phase of its mbarriers.",
        ring("load"),
    ),
    Mutant(
        "cuda tensor: a tap's row and column change places",
        "cuda_tensor",
        '"h"(static_cast<short>(tap_w)), "h"(static_cast<short>(tap_h))\n',
        '"h"(static_cast<short>(tap_h)), "h"(static_cast<short>(tap_w))\n',
        "The innermost offset comes first.",
        ON_GPU,
        gpu=True,
    ),
)
