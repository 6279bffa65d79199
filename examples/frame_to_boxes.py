"""From a camera's frame to boxes in one session: uint8 pixels of any size are resized, scaled and quantized, a small
network like YOLO runs on integers, its boxes are decoded, and those that overlap a better one are suppressed. Then the
same in C++, by frame_to_boxes.cpp, and by boxes_server.cpp over HTTP.

python examples/frame_to_boxes.py [cpu|cuda:0]
"""

import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import qconv.onnx

SIDE, CELLS, CLASSES, STRIDE = 64, 16, 3, 4  # of the network's image, of its grid, and pixels of a cell
rng = np.random.default_rng(7)
rows, columns = np.mgrid[:CELLS, :CELLS].astype(np.float32) + 0.5
constants = {
    "sizes": np.array([1, 3, SIDE, SIDE], np.int64),
    "level": np.float32(1 / 255),
    "scale": np.float32(1 / 255),
    "none": np.uint8(0),
    "y_scale": np.float32(0.03),
    "zero": np.uint8(128),
    "w_scale": np.float32(0.02),
    "w_zero": np.int8(0),
    "w1": rng.integers(-63, 64, (16, 3, 3, 3)).astype(np.int8),
    "w2": rng.integers(-63, 64, (16, 16, 3, 3)).astype(np.int8),
    "w3": rng.integers(-63, 64, (4 + CLASSES, 16, 1, 1)).astype(np.int8),
    "per_cell": np.array([1, 4 + CLASSES, CELLS * CELLS], np.int64),
    "centre": np.stack([columns.ravel(), rows.ravel()])[None],
    "stride": np.float32(STRIDE),
    **{f"at{place}": np.array([place], np.int64) for place in (0, 1, 2, 4, 4 + CLASSES)},
    "most": np.int64(20),
    "overlap": np.float32(0.4),
    "score": np.float32(0.55),
}


def convolution(x: str, given: tuple[str, str], w: str, y: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("QLinearConv", [x, *given, w, "w_scale", "w_zero", "y_scale", "zero"], [y], **attributes)


def part(x: str, first: int, end: int, y: str) -> onnx.NodeProto:
    """Take channels: the axis and the step are both 1."""
    return helper.make_node("Slice", [x, f"at{first}", f"at{end}", "at1", "at1"], [y])


made = ("y_scale", "zero")
nodes = [
    helper.make_node("Transpose", ["frame"], ["planes"], perm=[0, 3, 1, 2]),
    helper.make_node("Cast", ["planes"], ["pixels"], to=TensorProto.FLOAT),
    helper.make_node("Resize", ["pixels", "", "", "sizes"], ["resized"], mode="linear"),
    helper.make_node("Mul", ["resized", "level"], ["image"]),
    helper.make_node("QuantizeLinear", ["image", "scale", "none"], ["x"]),
    convolution("x", ("scale", "none"), "w1", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
    convolution("a", made, "w2", "b", strides=[2, 2], pads=[1, 1, 1, 1]),
    convolution("b", made, "w3", "head"),
    helper.make_node("DequantizeLinear", ["head", *made], ["real"]),
    helper.make_node("Reshape", ["real", "per_cell"], ["cells"]),
    helper.make_node("Exp", ["cells"], ["raised"]),
    part("raised", 0, 2, "before"),
    part("raised", 2, 4, "behind"),
    helper.make_node("Sub", ["centre", "before"], ["first"]),
    helper.make_node("Add", ["centre", "behind"], ["last"]),
    helper.make_node("Concat", ["first", "last"], ["corners"], axis=1),
    helper.make_node("Mul", ["corners", "stride"], ["in_pixels"]),
    helper.make_node("Transpose", ["in_pixels"], ["boxes"], perm=[0, 2, 1]),
    helper.make_node("Sigmoid", ["cells"], ["shares"]),
    part("shares", 4, 4 + CLASSES, "scores"),
    helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "score"], ["kept"]),
]
model = helper.make_model(
    helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("frame", TensorProto.UINT8, [1, "height", "width", 3])],
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, CELLS * CELLS, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES, CELLS * CELLS]),
            helper.make_tensor_value_info("kept", TensorProto.INT64, ["count", 3]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=9,
)
onnx.checker.check_model(model)

session = qconv.onnx.Session(model.SerializeToString(), device=sys.argv[1] if len(sys.argv) > 1 else None)
peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
same = []
for height, width in ((90, 160), (120, 80)):
    frame = rng.integers(0, 256, (1, height, width, 3)).astype(np.uint8)
    boxes, scores, kept = session.run(None, {"frame": frame})
    print(f"{height} x {width}: {len(kept)} boxes")
    for image, number, cell in kept[:3]:
        print(f"  class {number}, score {scores[image, number, cell]:.2f}, corners {boxes[image, cell].round(1)}")
    same.append(np.array_equal(kept, peer.run(["kept"], {"frame": frame})[0]))
print(session.explain())

# One folder has everything that a C++ program on another machine needs. It is exported, and built as it would be there.
with tempfile.TemporaryDirectory() as there:
    network, build = Path(there, "network"), Path(there, "build")
    target = session.device.target.name
    qconv.onnx.export(model, network, target, extents={"height": [height], "width": [width]}, vectors=False)
    subprocess.run(["cmake", "-S", network, "-B", build], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build], check=True, stdout=subprocess.DEVNULL)
    library = [str(build / "libqconv_network.a"), "-ldl", "-pthread"]
    for name in ("frame_to_boxes", "boxes_server"):
        source, program = Path(__file__).with_name(f"{name}.cpp"), Path(there, name)
        subprocess.run(["g++", "-std=c++17", f"-I{network}/include", source, *library, "-o", program], check=True)
    image = b"P6 %d %d 255\n" % (width, height) + frame.tobytes()
    Path(there, "frame.ppm").write_bytes(image)
    command = [Path(there, "frame_to_boxes"), network, Path(there, "frame.ppm")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    with subprocess.Popen([Path(there, "boxes_server"), network, "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        served = urllib.request.urlopen(address, image).read().decode()
        try:
            urllib.request.urlopen(address, image[:100])
        except urllib.error.HTTPError as refused:
            print("half an image, posted to the server:", refused.read().decode().strip())
        server.terminate()
found = printed.stdout.splitlines()
print(f"in C++: {len(found)} boxes", *found[:3], sep="\n  ")
for line, (image, number, cell) in zip(found, kept, strict=True):
    corners = " ".join(f"{corner:.1f}" for corner in boxes[image, cell])
    same.append(line == f"class {number}, score {scores[image, number, cell]:.2f}, corners {corners}")
same.append(served == printed.stdout)
print("bit-exact:", all(same))
