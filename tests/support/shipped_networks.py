"""Small networks as shipped folders, and the library that opens them, built with the flags that a test asks for."""

from __future__ import annotations

import ctypes
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import TensorProto, helper, numpy_helper

from qconv.network.ship.cpp_library import Tensor, declared
from qconv.onnx.asked_shapes import AskedShapes
from qconv.onnx.model import ReadModel
from qconv.onnx.ship import Shipping
from qconv.op import Array

SOURCES = ("qconv_network.cpp", "qconv_shipped.cpp", "qconv_engine_cpu.cpp")
SUPPORT = Path(__file__).parent


def residual() -> Any:
    """Return a quantized network with a stem, a pool and sums, of any batch."""
    return networks.quantized(networks.resnet_like(), "QDQ", "u8s8", per_channel=True)


def sized() -> Any:
    """Return the same network for images of any size."""
    model = residual()
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], "hw", strict=True):
        dim.dim_param = name
    return model


class Named(networks.Builder):
    """A builder whose nodes have names as long as exporters give them."""

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"/features/features.{len(self.nodes) // 10}/block/block.{len(self.nodes) % 10}/{op}_output_0"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name.removesuffix("_output_0"), **attributes))
        return name


def deep(blocks: int = 32) -> Any:
    """Return a quantized network as deep as EfficientNet-B4, of inverted residuals with gates."""
    b, c = Named(12), 16
    x = b.conv("x", 3, c, stride=2)
    for _ in range(blocks):
        y = b.node("Relu", b.conv(x, c, 2 * c, size=1))
        y = b.node("Relu", b.conv(y, 2 * c, 2 * c, groups=2 * c))
        gate = b.node("Relu", b.conv(b.node("GlobalAveragePool", y), 2 * c, c // 2, size=1))
        y = b.node("Mul", y, b.node("Sigmoid", b.conv(gate, c // 2, 2 * c, size=1)))
        x = b.node("Add", x, b.conv(y, 2 * c, c, size=1))
    return networks.quantized(b.head(x, c), "QDQ", "u8s8", per_channel=True)


def wide() -> Any:
    """Return a quantized network with enough channels for kernels that copy by tensor maps."""
    b = networks.Builder(11)
    x = b.node("Relu", b.conv("x", 3, 64))
    x = b.node("Relu", b.conv(x, 64, 128))
    return networks.quantized(b.head(b.conv(x, 128, 64, size=1), 64), "QDQ", "u8s8", per_channel=True)


def turned() -> Any:
    """Return a network of one convolution, of images whose channels are last and stay so."""
    conv = ["q", "scale", "zero", "w", "scale", "zero", "scale", "zero"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["q"], perm=[0, 3, 1, 2]),
        helper.make_node("QLinearConv", conv, ["planes"], name="conv"),
        helper.make_node("Transpose", ["planes"], ["y"], perm=[0, 2, 3, 1]),
    ]
    held = [
        numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        numpy_helper.from_array(np.array(7, np.uint8), "zero"),
        numpy_helper.from_array(np.arange(32 * 16, dtype=np.uint8).reshape(32, 16, 1, 1), "w"),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 4, 6, 16])]
    made = [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 4, 6, 32])]
    graph = helper.make_graph(nodes, "turned", given, made, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def moving() -> Any:
    """Return a network of which most only moves bytes: two inputs, a constant output, an output that is an input, one
    that another output is a view of, images whose channels go last, and a convolution's planes."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("Transpose", ["q"], ["turned"], perm=[0, 2, 3, 1]),
        helper.make_node("QLinearConv", ["q", "scale", "zero", "w", "scale", "zero", "scale", "zero"], ["planes"]),
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("Reshape", ["sum", "shape"], ["seen"]),
        helper.make_node("Identity", ["fixed"], ["constant"]),
    ]
    held = [
        numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        numpy_helper.from_array(np.array(7, np.uint8), "zero"),
        numpy_helper.from_array(np.arange(6, dtype=np.uint8).reshape(2, 3, 1, 1), "w"),
        numpy_helper.from_array(np.array([-1], np.int64), "shape"),
        numpy_helper.from_array(np.arange(6, dtype=np.float32), "fixed"),
    ]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 4]),
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3]),
    ]
    made = [
        *(helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in ("turned", "planes")),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("sum", "same", "seen", "constant")),
    ]
    graph = helper.make_graph(nodes, "moving", given, made, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def fails() -> Any:
    """Return a network with a layer that no kernel computes."""
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)
    held = [
        numpy_helper.from_array(np.zeros((1, 8, 3), np.float32), "w"),
        numpy_helper.from_array(np.zeros((1, 8, 2), np.float32), "r"),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1, 3])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "lstm", given, made, held)
    return onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def known(model: Any, batches: Sequence[int] | None = None) -> list[ReadModel]:
    """Return the model as it is exported for each batch."""
    return list(Shipping().known_models(model, AskedShapes(batches)))


def compiled(folder: Path, program: Path, into: Path, *flags: str, sources: Sequence[str] = SOURCES) -> Path:
    """Compile the library of a folder with a program, and return the executable."""
    files = [str(folder / "src" / name) for name in sources]
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{folder}/include", f"-I{folder}/src"]
    command += [
        f"-I{folder}/program",
        f"-I{SUPPORT}",
        *flags,
        str(program),
        *files,
        "-ldl",
        "-pthread",
        "-o",
        str(into),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    return into


def seal(folder: Path, name: str) -> None:
    """List the checksum that a file has now."""
    content = (folder / name).read_bytes()
    lines = [
        f'file "{name}" {len(content)} {zlib.crc32(content)}' if line.startswith(f'file "{name}"') else line
        for line in (folder / "network.txt").read_text().splitlines()[:-1]
    ]
    text = "".join(f"{line}\n" for line in lines)
    (folder / "network.txt").write_text(f"{text}crc {zlib.crc32(text.encode())}\n")


class Library:
    """The library, called from Python."""

    def __init__(self, path: Path) -> None:
        self.c = declared(ctypes.CDLL(str(path)))

    @property
    def error(self) -> str:
        return str(self.c.qconv_network_last_error().decode())

    def open(self, folder: Path, device: str | None = "cpu") -> tuple[int, ctypes.c_void_p]:
        network = ctypes.c_void_p()
        named = None if device is None else device.encode()
        return self.c.qconv_network_open(str(folder).encode(), named, ctypes.byref(network)), network

    def ports(self, network: ctypes.c_void_p, kind: str, program: int = 0) -> list[Tensor]:
        found = []
        for index in range(getattr(self.c, f"qconv_network_{kind}_count")(network)):
            tensor = Tensor()
            ask = getattr(self.c, f"qconv_network_{kind}")
            status = ask(network, ctypes.c_size_t(program), ctypes.c_size_t(index), ctypes.byref(tensor))
            assert status == 0, self.error
            found.append(tensor)
        return found

    def run(self, network: ctypes.c_void_p, feeds: Mapping[str, Array], program: int = 0) -> dict[str, Array]:
        """Run once, with arrays of its own."""
        inputs = [aligned(feeds[port.name.decode()]) for port in self.ports(network, "input", program)]
        ports = self.ports(network, "output", program)
        outputs = [aligned(np.full(tuple(p.shape[: p.rank]), 0x55, np.uint8).astype(p.type.decode())) for p in ports]
        workspace = aligned(np.zeros(self.c.qconv_network_workspace_bytes(network, ctypes.c_size_t(program)), np.uint8))
        status = self.c.qconv_network_run(
            network,
            ctypes.c_size_t(program),
            None,
            addresses(inputs),
            addresses(outputs),
            ctypes.c_void_p(workspace.ctypes.data),
        )
        assert status == 0, self.error
        return {port.name.decode(): array for port, array in zip(ports, outputs, strict=True)}


def addresses(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def aligned(array: Array) -> Array:
    """Return a copy at a multiple of 256."""
    whole = np.empty(array.nbytes + 256, np.uint8)
    at = -whole.ctypes.data % 256
    made: Array = whole[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
