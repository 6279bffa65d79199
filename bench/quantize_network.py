"""Make quantized models of torchvision's networks, as a user would: export, then ONNX Runtime's `quantize_static`.

    python bench/quantize_network.py models resnet50 mobilenet_v2

Weights are random with a fixed seed, since no package provides trained ones: BatchNormalization has the statistics of
random images, and biases are not zero, so that none is shared. QDQ format, uint8 activations, int8 weights of 7 bits
per channel, so that processors without VNNI compute the same. Needs torch, torchvision, onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

SEED, CALIBRATION, SIZE = 0, 4, 224
# Arguments of `quantize_static` by the type of the activations, and the first opset that has the type.
SETTINGS: dict[str, dict[str, Any]] = {
    "uint8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "reduce_range": True},
    "int8": {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "reduce_range": True},
    "float8_e4m3fn": {
        "activation_type": QuantType.QFLOAT8E4M3FN,
        "weight_type": QuantType.QFLOAT8E4M3FN,
        "calibrate_method": CalibrationMethod.Distribution,
    },
}
OPSETS = {"uint8": 17, "int8": 17, "float8_e4m3fn": 19}


class Images(CalibrationDataReader):  # type: ignore[misc] # onnxruntime has no types
    def __init__(self, batches: list[Any]) -> None:
        self._left: Iterator[Any] = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        x = next(self._left, None)
        return None if x is None else {"x": x}


def seeded(name: str) -> Any:
    import torch
    import torchvision

    torch.manual_seed(SEED)
    return with_statistics(getattr(torchvision.models, name)(), (3, SIZE, SIZE))


def with_statistics(model: Any, shape: tuple[int, ...]) -> Any:
    """Return the network ready for use: the statistics of random images of this shape, and biases that are not zero."""
    import torch

    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d | torch.nn.BatchNorm3d)]
    for norm in norms:
        norm.momentum = None  # use the statistics of the images below only
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        if norms:
            model.train()(torch.randn(2 * CALIBRATION, *shape))
        for parameter, values in model.named_parameters():
            if parameter.endswith("bias"):
                values.add_(0.02 * torch.randn_like(values))
    return model.eval()


def quantized(name: str, folder: Path) -> Path:
    return export(seeded(name), (3, SIZE, SIZE), folder / f"{name}.onnx")


def export(model: Any, shape: tuple[int, ...], made: Path, activations: str = "uint8") -> Path:
    """Write the quantized network, calibrated on random images of this shape, for any batch."""
    import torch

    images = [torch.randn(1, *shape) for _ in range(CALIBRATION)]
    with torch.no_grad():
        outputs = model(images[0])
    names = ["y"] if isinstance(outputs, torch.Tensor) else [f"y{at}" for at in range(len(outputs))]
    named: dict[str, Any] = {
        "input_names": ["x"],
        "output_names": names,
        "dynamic_axes": {name: {0: "N"} for name in ("x", *names)},
    }
    with tempfile.TemporaryDirectory() as there, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that another exporter is newer
        path = Path(there, "real.onnx")
        torch.onnx.export(model, (images[0],), str(path), opset_version=OPSETS[activations], dynamo=False, **named)
        logging.disable(logging.WARNING)  # it recommends a preparation that only shortens the model
        quantize_static(
            path, made, Images([image.numpy() for image in images]), quant_format=QuantFormat.QDQ, per_channel=True,
            **SETTINGS[activations],
        )  # fmt: skip
        logging.disable(logging.NOTSET)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+", help="as torchvision.models calls them")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(*(quantized(name, given.folder) for name in given.networks), sep="\n")


if __name__ == "__main__":
    main()
