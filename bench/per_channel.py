"""The cost of per-channel scales: layers with one scale and with one scale per channel, in the same run.

    python bench/per_channel.py --layers LAYERS.csv --trials 100 --db tune.sqlite --out bench/results/nvidia-h200

Each way has its own best config; without --trials both have the best known config of the layer with one scale. Times
are interleaved; both kernels are verified.
"""

from compare import run

from qconv import Quantization

if __name__ == "__main__":
    run("per_channel", {"per_tensor": Quantization(), "per_channel": Quantization(per_channel=True)}, __doc__ or "")
