"""Arguments, constants, epilogue and math in words, shared by the kernel pages of all convolution families."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property, lru_cache

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.epilogue import narrows, packs, packs_from_zero, steps
from qconv.arithmetic.quantization import Quantization
from qconv.arithmetic.step import Argument, Step
from qconv.dtypes import ElementType
from qconv.generator.plan import ROUNDINGS, Constant, Context, Field, Launch, Plan, ceil_div
from qconv.problem.chain import WORDS, Chain
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import DotProduct
from qconv.targets.target import Target

FOLD_THREADS = 128
REPACK_THREADS = 128


@dataclass(frozen=True, kw_only=True)
class ConvolutionContext(Context):
    quantization: Quantization
    layout: str  # template file that addresses this layout
    fold: str  # template file of the kernel that folds the input zero point into the sums
    x_is: str  # images, or frames of volumes: the suffix of template files
    pixels: str  # folder of the template files that store pixels: ordered, or shuffled where they are channels
    padding: str  # an element of padding is stored as: zero_point or zero
    sum_register: str  # PTX register class of a sum: r or f
    ptx: str  # constraint of a sum that PTX reads and writes: +r or +f
    residual_type: str  # C++ type in which the epilogue receives a residual: its element, or a narrow float's bits
    steps: tuple[Step, ...]
    packs: bool
    # Folder of the epilogue's template files: packed, where four outputs are packed at once, narrowed, where words of
    # narrow floats are, or plain.
    stored: str
    narrow: str  # C++ type that rounds to narrow floats
    narrowed: tuple[int, int]  # range to which a finished output is clamped
    packed_type: str  # clamps a packed output: unsigned bytes, where outputs from zero on have a signed type, or Output
    epilogue_arguments: list[Argument]


@dataclass(frozen=True)
class ConvolutionPlan(Plan):
    """The plan of one convolution: a kernel of its own, or a layer of a fused kernel."""

    problem: Conv2d

    @cached_property
    def aliases(self) -> dict[str, str]:
        t = self.problem.quantization.types
        residual = {} if t.residual is None else {"Residual": t.residual.name}
        return {"X": t.x.name, "W": t.w.name, "Sum": t.sum.name, "Output": t.y.name, **residual}

    @property
    def may_alias(self) -> tuple[str, ...]:
        """The residual, because the thread that writes an output reads the residual's element at that position
        first."""
        return () if self.problem.quantization.residual == "none" else ("residual",)

    @property
    def dot(self) -> str:
        found = dot_of(self.problem, self.target)
        return "" if found is None else found.template

    @property
    def context(self) -> ConvolutionContext:
        return context(self.problem)


@dataclass(frozen=True)
class ChainPlan(Plan):
    """The plan of a chain, in one kernel or in several. The element types are those of its convolutions."""

    problem: Chain

    @property
    def may_alias(self) -> tuple[str, ...]:
        """The residual, which only the last convolution of a chain has."""
        return () if self.problem.last.quantization.residual == "none" else ("residual",)

    @property
    def aliases(self) -> dict[str, str]:
        return {}

    @property
    def context(self) -> Context:
        return context_of_chain(self.problem)


def context(problem: Conv2d) -> ConvolutionContext:
    chosen, from_zero = steps(problem.quantization), packs_from_zero(problem.quantization)
    has_zero_point = problem.quantization.x_zero_point
    least, largest = problem.quantization.types.y.limits or (0, 0)
    return ConvolutionContext(
        says=_what_it_computes(problem),
        quantization=problem.quantization,
        layout=f"layout/{problem.layout}.j2",
        fold="convolution/fold.j2" if has_zero_point else "nothing.j2",
        pixels="shuffled" if problem.is_shuffled else "ordered",
        x_is="images" if problem.frames is None else "frames",
        padding="zero_point" if has_zero_point and problem.quantization.mode.padding == "zero_point" else "zero",
        sum_register="r" if problem.quantization.types.sum.is_integer else "f",
        ptx="+r" if problem.quantization.types.sum.is_integer else "+f",
        residual_type="float" if problem.quantization.residual == "float32" else "int",
        steps=chosen,
        packs=packs(problem.quantization),
        stored=_stored(problem),
        narrow=f"Packed{problem.quantization.types.y.word}",
        narrowed=(0, largest) if from_zero else (least, largest),
        packed_type="unsigned char" if from_zero and least < 0 else "Output",
        epilogue_arguments=[argument for step in chosen for argument in step.arguments],
    )


def _stored(problem: Conv2d) -> str:
    if packs(problem.quantization):
        return "packed"
    return "narrowed" if narrows(problem.quantization) else "plain"


def context_of_chain(problem: Chain) -> Context:
    """Return the part of a chain that its outer page reads: the math in words."""
    called = "x"
    for layer, weights in zip(problem.LAYERS, problem.packed, strict=True):
        called = f"{layer}({called}, {weights})"
    types = " and ".join(dict.fromkeys(one.quantization.x_type for one in list(problem.layers.values())[1:]))
    between = f"{types} between the {WORDS[len(problem.LAYERS)]}, in shared memory"
    text = f"y = {called}; {between}; the math of each is with it"
    lines = textwrap.wrap(text, 106, initial_indent="  ", subsequent_indent="      ")
    return Context(says=lines)


def argument_fields(problem: Conv2d, own: tuple[Field, ...] = ()) -> tuple[Field, ...]:
    """Return the members of the argument struct. Pointers come first, so that it has no padding; the family's own are
    the last of these."""
    pointers, scalars = _pointers_and_scalars(problem)
    return (*pointers, *own, *scalars)


@lru_cache(maxsize=256)
def _pointers_and_scalars(problem: Conv2d) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    quantization, channels_last = problem.quantization, problem.layout == "nhwc"
    pointers = [
        Field("x", "const X*", "x", f"activations, {'NHWC' if channels_last else 'NCHW'}"),
        Field("w", "const W*", "w", f"weights, {'KRSC' if channels_last else 'KCRS'}"),
        Field("y", "Output*", "y", f"output, {'NHWK' if channels_last else 'NKHW'}"),
    ]
    if quantization.residual != "none":
        says = f"added before the activation, {'NHWK' if channels_last else 'NKHW'}"
        pointers.append(Field("residual", "const Residual*", "residual", says))
    scalars: list[Field] = []
    for argument in (a for step in steps(quantization) for a in step.arguments):
        if argument.name == "offset" and quantization.x_zero_point:
            pointers.append(Field("offset", "int*", "workspace", f"per channel: {argument.says}", None, problem.k))
            if quantization.bias_at == "accumulator":
                pointers.append(
                    Field("int32_bias", "const int*", "value", "per channel: read by fold", argument, problem.k)
                )
        elif argument.words:
            pointers.append(Field(argument.name, argument.ctype, "value", argument.says, argument, argument.words))
        elif argument.per_channel:
            says = f"per channel: {argument.says}"
            pointers.append(Field(argument.name, f"const {argument.ctype}*", "value", says, argument, problem.k))
        else:
            scalars.append(Field.of_value(argument))
    if quantization.x_zero_point:
        scalars.append(Field.of_value(X_ZERO))
    return tuple(pointers), tuple(scalars)


X_ZERO = Argument("x_zero", "int", False, "the input zero point", lambda q, parameters: parameters.x_zero_point)


@lru_cache(maxsize=256)
def channel_arguments(problem: Conv2d) -> tuple[Argument, ...]:
    """Return the epilogue's arguments that have one value per output channel."""
    return tuple(a for step in steps(problem.quantization) for a in step.arguments if a.per_channel)


def fold_launches(problem: Conv2d) -> tuple[Launch, ...]:
    """Return the launch that folds x_zero_point and the weights into an offset per output channel, if there is a zero
    point."""
    if not problem.quantization.x_zero_point:
        return ()
    return (Launch("conv2d_fold", (problem.k, 1, 1), FOLD_THREADS, fold_bytes(problem), "prepare"),)


def fold_bytes(problem: Conv2d) -> int:
    """Return the shared memory of the fold kernel: one sum per thread."""
    return problem.quantization.types.sum.bytes * FOLD_THREADS


def fold_constants(problem: Conv2d) -> tuple[Constant, ...]:
    return (Constant("FOLD_THREADS", FOLD_THREADS),) * problem.quantization.x_zero_point


def repack_launch(words: int) -> Launch:
    """Return the launch that reorders the weights for the main kernel, with one thread per word."""
    return Launch("conv2d_repack_weights", (ceil_div(words, REPACK_THREADS), 1, 1), REPACK_THREADS, 0, "prepare")


def pads_with_zero_point(problem: Conv2d) -> bool:
    """True where padded elements have a value other than zero."""
    q = problem.quantization
    pads = any(problem.pad) or (problem.frames is not None and problem.frames.pads)
    return pads and q.x_zero_point and q.mode.padding == "zero_point"


@lru_cache(maxsize=256)
def dot_of(problem: Conv2d, target: Target) -> DotProduct | None:
    """Return the target's dot product of two words of these types, or None."""
    t = problem.quantization.types
    return next((dot for dot in target.dots if dot.serves(t.x, t.w)), None)


@lru_cache(maxsize=256)
def why_not_bytes(problem: Conv2d) -> str | None:
    """Return why a family that packs four elements into a word and sums in any order cannot serve these types, or
    None."""
    t = problem.quantization.types
    if t.x.bits == t.w.bits == 8 and t.sum.is_integer and t.sum.bits == 32:
        return None
    return (
        f"{t.x.name} by {t.w.name} with sums in {t.sum.name}: this family multiplies integers of 8 bits and adds up "
        "those of 32; a family that takes its types from an instruction, as simt and mma do, serves others"
    )


def why_not_promoted(problem: Conv2d) -> str | None:
    """Return why a family that leaves all sums in its instruction's accumulator cannot serve the problem, or None."""
    if not problem.quantization.promoted_sums:
        return None
    return "promoted_sums: all sums stay in the accumulator; wgmma, mma and simt add parts of them in fp32"


@lru_cache(maxsize=256)
def why_not_by_blocks(problem: Conv2d) -> str | None:
    """Return why several blocks cannot split a tile's reduction among them, or None."""
    sums = problem.quantization.types.sum
    if sums.is_integer and sums.bits == 32:
        return None
    return f"blocks add up 32-bit integers, whose order is all the same, and no {sums.name}; one block serves a tile"


def load_bytes(aligned_to: int, element: ElementType) -> int:
    """Return the bytes of the widest copy (16, 8 or 4) that divides a row of `aligned_to` elements, or else of one
    element."""
    return next((width for width in (16, 8, 4) if aligned_to * element.bytes % width == 0), element.bytes)


def input_span(problem: Conv2d, rows: int, columns: int) -> tuple[int, int]:
    """Return the input rows and columns that a tile of `rows` x `columns` outputs reads."""
    return (
        (rows - 1) * problem.stride[0] + (problem.r - 1) * problem.dilation[0] + 1,
        (columns - 1) * problem.stride[1] + (problem.s - 1) * problem.dilation[1] + 1,
    )


@lru_cache(maxsize=256)
def problem_constants(problem: Conv2d, filter_rows: bool = False) -> tuple[Constant, ...]:
    return (
        Constant("IN_H", problem.h),
        Constant("IN_W", problem.w),
        Constant("C", problem.c),
        Constant("C_GROUP", problem.c_group, "input channels per group"),
        Constant("OUT_H", problem.oh),
        Constant("OUT_W", problem.ow),
        Constant("K", problem.k),
        Constant("K_GROUP", problem.k_group, "output channels per group"),
        *((Constant("R", problem.r, "filter height"),) if problem.layout == "nchw" or filter_rows else ()),
        Constant("S", problem.s, "filter width"),
        Constant("STRIDE_H", problem.stride[0]),
        Constant("STRIDE_W", problem.stride[1]),
        Constant("DILATION_H", problem.tap_steps[0]),
        Constant("DILATION_W", problem.tap_steps[1]),
        Constant("PAD_TOP", problem.pad[0]),
        Constant("PAD_LEFT", problem.pad[1]),
        Constant("PADDED", any(problem.pad), "some windows reach past the image"),
        Constant("PIXELS", problem.pixels, "output pixels of all images"),
        Constant("REDUCTION", problem.reduction, "products per output"),
        Constant("X_SIGNED", problem.quantization.types.x.is_signed),
        Constant("W_SIGNED", problem.quantization.types.w.is_signed),
        *_frame_constants(problem),
        *_shuffle_constants(problem),
    )


def _frame_constants(problem: Conv2d) -> tuple[Constant, ...]:
    frames = problem.frames
    if frames is None:
        return ()
    return (
        Constant("IMAGES", frames.images, "of a volume"),
        Constant("FRAMES", frames.depth, "of a volume", may_be_unused=True),
        Constant("FRAME_TAPS", frames.taps, "frames whose channels are those of an image", may_be_unused=True),
        Constant("FRAME_C", problem.frame_c, "input channels of a frame"),
        Constant("FRAME_STRIDE", frames.stride, "frames from an image to the next"),
        Constant("FRAME_DILATION", frames.dilation, "frames from a tap to the next"),
        Constant("FRAMES_BEFORE", frames.before, "frames of padding in front"),
    )


def _shuffle_constants(problem: Conv2d) -> tuple[Constant, ...]:
    if not problem.is_shuffled:
        return ()
    return (
        Constant("SHUFFLE_H", problem.pixel_shuffle[0], "rows of the block of outputs that a pixel's channels are"),
        Constant("SHUFFLE_W", problem.pixel_shuffle[1], "and columns"),
        Constant("CROP_TOP", problem.crop[0]),
        Constant("CROP_LEFT", problem.crop[1]),
        Constant("Y_H", problem.y_size[0], "rows of the output"),
        Constant("Y_W", problem.y_size[1]),
        Constant("Y_C", problem.y_group * problem.groups, "channels of the output"),
        Constant("Y_GROUP", problem.y_group, "channels of the output per group"),
    )


def _what_it_computes(problem: Conv2d) -> list[str]:
    """Write the math for the reader of the generated source."""
    if not problem.is_shuffled:
        return _steps_in_words(problem)
    (down, across), (top, left, _, _) = problem.pixel_shuffle, problem.crop
    at = f"{down} * row + a - {top}, {across} * column + b - {left}"
    channel = f"({across} * a + b) * {problem.y_group} + k"
    of_group = " of a group" * (problem.groups > 1)
    return [*_steps_in_words(problem), f"  Channel {channel}{of_group} at (row, column) is the output k at ({at})."]


def _steps_in_words(problem: Conv2d) -> list[str]:
    q, mode = problem.quantization, problem.quantization.mode
    x = "(x - x_zero)" if q.x_zero_point else "x"
    w = "(w - w_zero[k])" if q.w_zero_point and q.per_channel else "(w - w_zero)" if q.w_zero_point else "w"
    order = "" if q.types.sum.is_integer else ", in the kernel's own order"
    cut = f", of both the upper {q.types.x.kept_bits} bits" * (q.types.x.kept_bits < 32)
    lines = [f"  acc = sum over r, s, c of {x} * {w}{cut}, in {q.types.sum.name}{order}"]
    value = _scaled(q) if q.scaled else "(acc + bias[k])" if q.bias_at else "acc"
    if q.constant != "none":
        lines += [f"  o   = clamp({ROUNDINGS[mode.rounding]}({value}) + own_zero) as {q.out_type}"]
        value = _with_constant(q)
    if q.residual != "none" or q.constant != "none":
        lines += [f"  v   = {value}"]
    if q.residual != "none":
        lines += [f"  r   = {_residual(q)}"]
        value = "r"
    if q.sums_bytes:
        return [*lines, *_last_of_sums(q)]
    if q.activation != "none":
        given = "".join(f", {name}" for name in BY_NAME[q.activation].parameters)
        value = f"{q.activation}({value}{given})"
    value += {"multiply_divide": " / y_scale", "multiply_reciprocal": " * inverse"}.get(q.to_output_units, "")
    if not q.requantizes:
        saturated = ", saturated" * q.has_y_scale
        return [*lines, f"  y   = {value}{saturated}, as {q.out_type}"]
    zero = " + y_zero" if q.y_zero_point else ""
    inside, outside = (zero, "") if mode.zero_point_add == "before_round" else ("", zero)
    requantized = f"clamp({ROUNDINGS[mode.rounding]}({value}{inside}){outside}) as {q.out_type}"
    if q.table:
        index = "b - y_zero" if outside else "b"
        return [*lines, f"  b   = {requantized}", f"  y   = table[the byte of {index}]"]
    return [*lines, f"  y   = {requantized}"]


def _residual(q: Quantization) -> str:
    if q.mode.requantizes_before_residual:
        zero = " + inner_zero" * (q.inner_zero_point and q.constant == "none")  # a sum has it
        return f"clamp({ROUNDINGS[q.mode.rounding]}(v){zero}) as {q.out_type}"
    shifted = "(residual - residual_zero)" if q.residual_zero_point else "residual"
    if q.mode.adds_dequantized:
        return f"{q.out_type}(v) * inner_scale + residual * residual_scale"
    if q.mode.residual_add == "fma":
        return f"fma({shifted.strip('()')}, residual_scale, v)"
    return f"v + {shifted} * residual_scale"


def _with_constant(q: Quantization) -> str:
    if q.constant == "multiplied":
        return "(o - own_zero) * factor[k] * product_ratio + product_zero"
    if q.constant == "added_first":
        return "fma(o, own_ratio, begun[k])"
    return "fma(constant[k], constant_ratio, fma(o, own_ratio, constant_offset))"


def _sum_with_residual(q: Quantization) -> str:
    own, residual = ("r", "inner_ratio"), ("residual", "residual_ratio")
    first, last = (own, residual) if q.mode.begins_with_own else (residual, own)
    return f"fma({', '.join(last)}, fma({', '.join(first)}, sum_offset))"


def _last_of_sums(q: Quantization) -> list[str]:
    """Return the lines that make the output of the last sum of bytes."""
    value = _sum_with_residual(q) if q.mode.requantizes_before_residual else "v"
    value = f"relu({value})" if q.activation == "relu" and not q.y_zero_point else value
    value = f"max({value}, y_zero)" if q.activation == "relu" and q.y_zero_point else value
    byte = f"clamp({ROUNDINGS[q.mode.rounding]}({value})) as {q.out_type}"
    return [f"  b   = {byte}", "  y   = table[the byte of b]"] if q.table else [f"  y   = {byte}"]


def _scaled(q: Quantization) -> str:
    channel = "[k]" if q.per_channel else ""
    if q.bias_at == "value" and q.mode.bias_scaling == "reciprocal_fma":
        return f"fma(bias[k], inverse_scale{channel}, acc) * multiplier{channel}"
    if q.mode.order == "multiply":
        return f"{'(acc + bias[k])' if q.bias_at else 'acc'} * multiplier{channel}"
    if q.bias_at is None:
        return f"(acc * scale{channel})"
    return f"fma(acc, scale{channel}, bias[k])" if q.mode.fma == "on" else f"(acc * scale{channel} + bias[k])"
