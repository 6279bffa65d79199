"""What per-channel scales cost: layers with one scale and with one a channel, by the same config in the same run.

    python bench/per_channel.py --layers LAYERS.csv --db tune.sqlite --out bench/results/nvidia-h200

The configs are the best known of the layers with one scale. Times are interleaved; both kernels are verified.
"""

from compare import run

from qconv import Quantization

if __name__ == "__main__":
    run("per_channel", {"per_tensor": Quantization(), "per_channel": Quantization(per_channel=True)}, __doc__ or "")
