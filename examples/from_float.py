"""A trained network from a package: quantized, compared with its float model, tuned, run and shipped.

python examples/from_float.py [cpu|cuda:0]

The network says whether a line of text is upside down. It needs: pip install 'qconv-tune[networks,onnx]'.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
import rapidocr_onnxruntime
from PIL import Image, ImageDraw

import qconv
import qconv.onnx
from qconv.device import open_device

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
HEIGHT, WIDTH = 48, 192
TRAINED = Path(rapidocr_onnxruntime.__file__).parent / "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
WORDS = ("kernel", "integer", "Rotterdam", "scale 0.05", "7 of 12", "convolution", "int8", "zero point")


def draw(folder: Path) -> None:
    """Draw each word as it is, and upside down."""
    for number, word in enumerate(WORDS):
        line = Image.new("RGB", (WIDTH, HEIGHT), "white")
        ImageDraw.Draw(line).text((6 + number, 8), word, "black", font_size=28)
        line.save(folder / f"{number}_upright.png")
        line.rotate(180).save(folder / f"{number}_down.png")


with TemporaryDirectory() as place:
    work = Path(place)
    (work / "images").mkdir()
    draw(work / "images")
    model = onnx.load(TRAINED)
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], (HEIGHT, WIDTH), strict=True):
        dim.dim_value = extent
    onnx.save(model, work / "float.onnx")

    samples = qconv.onnx.Samples.of(model, work / "images", qconv.onnx.Pixels(mean=(0.5,), std=(0.5,)))
    print(qconv.onnx.quantize(work / "float.onnx", work / "int8.onnx", samples))
    compared = qconv.onnx.compare(work / "float.onnx", work / "int8.onnx", samples)
    (output,) = compared.outputs
    print(f"beside the float model: {output.error}, the same answer for {output.equal} of {output.places} lines")
    for layer in compared.worst[:3]:
        print(f"  {layer.error} at {layer.name}, of which rounding alone {layer.rounding}")

    # By default, the softmax at its end runs as an expression, whose floats are close to ONNX Runtime's and not equal.
    session = qconv.onnx.Session(work / "int8.onnx", device, bits="onnxruntime")
    options = onnxruntime.SessionOptions()  # on a CPU without VNNI, some sums saturate unless they are to be exact
    options.add_session_config_entry("session.x64quantprecision", "1")
    reference = onnxruntime.InferenceSession(work / "int8.onnx", options)
    is_exact = all(np.array_equal(session.run(None, feeds)[0], reference.run(None, feeds)[0]) for feeds in samples)
    qconv.tune(session.problems[:1], qconv.Budget(trials=3), device=device, db=str(work / "tune.sqlite"))
    target = open_device(device).target.name
    shipped = qconv.onnx.export(work / "int8.onnx", work / "network", target, vectors=False)
    print(f"{len(shipped.files)} files for {target}, which C++ opens")
print("bit-exact:", is_exact)
