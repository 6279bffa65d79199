"""A gallery of generated kernels, one of each family: the drawing of its config, its arithmetic, and its source on a
page of its own. docs/conf.py writes them when the site is built."""

from __future__ import annotations

import textwrap

from qconv import generator
from qconv.generator import FAMILIES, Plan
from qconv.generator.selection import cheapest_of
from qconv.ops.registry import parse
from qconv.targets.target import target

TARGET = "sm_90a"
ON = {"tcgen05": "sm_100a"}  # which Hopper has not
TYPES = ":x_type=int8:w_type=int8:out_type=int8"
EXPAND = f"conv2d:n=32:h=56:w=56:c=24:k=144:r=1:s=1{TYPES}:activation=relu"
DEPTHWISE = f"conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144{TYPES}:activation=relu"
PROJECT = f"conv2d:n=32:h=56:w=56:c=144:k=24:r=1:s=1{TYPES}"
# A problem that shows each family.
SHOWN = {
    "simt": f"conv2d:n=1:h=14:w=14:c=5:k=7:r=3:s=3{TYPES}",
    "mma": f"conv2d:n=8:h=28:w=28:c=64:k=64:r=3:s=3:pad=1,1,1,1{TYPES}",
    "wgmma": f"conv2d:n=32:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1{TYPES}",
    "halo": f"conv2d:n=32:h=56:w=56:c=64:k=64:r=3:s=3:pad=1,1,1,1{TYPES}",
    "halo_split": f"conv2d:n=1:h=7:w=7:c=512:k=512:r=3:s=3:pad=1,1,1,1{TYPES}",
    "tcgen05": f"conv2d:n=32:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1{TYPES}",
    "pointwise": f"conv2d:n=8:h=28:w=28:c=64:k=64:r=1:s=1{TYPES}",
    "depthwise": f"conv2d:n=8:h=28:w=28:c=64:k=64:r=3:s=3:pad=1,1,1,1:groups=64{TYPES}",
    "direct": f"conv2d:n=8:h=28:w=28:c=64:k=64:r=3:s=3:pad=1,1,1,1:groups=16{TYPES}",
    "stem": f"conv2d:n=1:h=64:w=64:c=3:k=32:r=3:s=3:pad=1,1,1,1{TYPES}",
    "stem_wgmma": f"conv2d:n=32:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3{TYPES}",
    "stem_pool": (
        f"conv2d_pool:n=32:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3{TYPES}"
        ":window=3,3:window_stride=2,2:window_pad=1,1,1,1"
    ),
    "gemv": f"conv2d:n=1:h=1:w=1:c=256:k=64:r=1:s=1{TYPES}",
    "fused": f"{DEPTHWISE}+{PROJECT}",
    "block": f"{EXPAND}+{DEPTHWISE}+{PROJECT}",
    "elementwise": "quantize:outer=1:channels=1:inner=4194304:x_type=float32:out_type=int8",
    "choosing": "choose:outer=1:channels=1024:inner=4096:x_type=float32:out_type=int8",
    "binary": "add:outer=1:repeat=1:inner=401408:a_type=int8:b_type=int8:out_type=int8",
    "pooling": "max_pool:n=8:h=28:w=28:c=64:r=2:s=2:x_type=int8",
    "table": "table:elements=16777216:x_type=int8:out_type=int8",
    "concat": "concat:rows=25088:widths=128,96,32:tables=0,1,1:x_type=uint8",
    "global_pooling": "global_average_pool:n=32:pixels=49:c=2048:x_type=uint8:out_type=uint8",
    "argmax": "argmax:outer=100352:length=20:inner=1:x_type=uint8",
    "shuffle": "channel_shuffle:rows=100352:groups=2:width=64:x_type=int8",
    "nms": "nms:images=1:classes=80:boxes=8400:most=300",
    "map": "map:shape=1210368:in=float16*1210368,float16*1210368:out=float16:do=t0=x0[i0];t1=x1[i0];t2=add(t0,t1)",
    "reduce": (
        "reduce:rows=8192:columns=4096:in=float16*33554432,float32*4096!,float16*8192:out=float16:do=t0=x0[r0*4096+c0];"
        "t1=maximum_of(t0);t2=subtract(t0,t1);t3=exp(t2);t4=sum_of(t3);t5=divide(t3,t4)"
    ),
    "matmul": (
        "matmul:batch=12:m=197:n=197:k=64:in=float32*151296,float32*151296:out=float32:"
        "do=t0=x0[b0*12608+m0*64+k0];t1=x1[b0*12608+n0*64+k0];t2=multiply(t0,t1);t3=sum_of(t2)"
    ),
    "matmul_mma": (
        "matmul:m=197:n=192:k=300:in=uint8*59100,int8*57600,uint8*1:out=int32:"
        "do=t0=x0[m0*300+k0];t1=x2[0];t2=subtract(t0,t1);t3=x1[n0*300+k0];t4=multiply(t2,t3);t5=sum_of(t4)"
    ),
    "attention": (
        "matmul:batch=12:m=197:n=197:k=64:in=uint8*151296,uint8*151296:out=uint8:"
        "do=t0=to_float32(subtract(x0[b0*12608+m0*64+k0],128));t1=to_float32(subtract(x1[b0*12608+n0*64+k0],128));"
        "t2=sum_of(multiply(t0,t1));t3=to_int32(minimum(maximum(add(round(multiply(t2,0.001)),128.0),0.0),255.0))"
        "+reduce:rows=2364:columns=197:in=uint8*465708:out=uint8:do=t0=x0[r0*197+c0];"
        "t1=exp(multiply(to_float32(subtract(t0,maximum_of(t0))),0.05));"
        "t2=nearest(multiply(divide(t1,sum_of(t1)),255.0))"
        "+matmul:batch=12:m=197:n=64:k=197:in=uint8*465708,uint8*151296:out=int32:"
        "do=t0=to_float32(x0[b0*38809+m0*197+k0]);t1=to_float32(subtract(x1[b0*12608+k0*64+n0],128));"
        "t2=to_int32(sum_of(multiply(t0,t1)))"
    ),
}
# Its two kernels are of other families.
WITHOUT_SOURCE = ("unfused",)


def pages() -> dict[str, str]:
    """Return the gallery, and a page with the source of each kernel."""
    made = {name: plan_of(name) for name in SHOWN}
    sources = {name: generator.render(plan).text for name, plan in made.items()}
    entries = [entry(name, sources[name]) for name in FAMILIES if name in SHOWN]
    return {"gallery.md": "\n".join(entries)} | {
        f"kernels/{name}_source.md": page(name, sources[name]) for name in SHOWN
    }


def plan_of(name: str) -> Plan:
    """Return the family's plan of the problem that shows it, with the least predicted time."""
    problem, where = parse(SHOWN[name]), target(ON.get(name, TARGET))
    for likely in (True, False):
        if plans := cheapest_of(FAMILIES[name], problem, where, likely, 1).plans:
            return plans[0].plan
    raise ValueError(f"the family {name} has no plan for {problem} on {where.name}: show another problem")


def head(source: str) -> str:
    """Return the comment that a source begins with: its problem, arithmetic, config and launches."""
    lines = source[: source.index("\n// Generated by")].splitlines()
    return "\n".join(line.removeprefix("//").removeprefix(" ") for line in lines).strip()


def entry(name: str, source: str) -> str:
    said = textwrap.indent(head(source), "    ")
    return (
        f"## {name}\n\n![The fields of {name}](drawings/{name}.svg)\n\n{said}\n\n"
        f"[The source of this kernel](reference/kernels/{name}_source.md), {len(source.splitlines())} lines\n"
    )


def page(name: str, source: str) -> str:
    return (
        f"---\norphan: true\nno-search: true\n---\n\n# A kernel of the family {name}\n\n"
        f"[The kernels](../../kernels.md) says how it works, [the gallery](../../gallery.md#{name}) has its "
        f"drawing, and [the configs](../configs.md#{name}) every field.\n\n```cuda\n{source.rstrip()}\n```\n"
    )
