"""The cost of zero points: layers that are symmetric and with every zero point, in the same run.

    python bench/zero_points.py --out bench/results/nvidia-h200

With --trials each way has its own best config; without, both have the best known config of the layer. Times are
interleaved; both kernels are verified.
"""

from dataclasses import replace

from compare import run

from qconv import Quantization

SYMMETRIC = Quantization(per_channel=True, bias="int32")
EVERY = replace(SYMMETRIC, x_zero_point=True, w_zero_point=True, y_zero_point=True)

if __name__ == "__main__":
    run("zero_points", {"symmetric": SYMMETRIC, "every": EVERY}, __doc__ or "")
