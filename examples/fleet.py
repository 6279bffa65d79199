"""Two workers tune the layers of a network, and a lookup finds their measurements.

    python examples/fleet.py [cpu|cuda]

On GPUs, each worker has its own. With `scheduler="tcp://HOST:8786"` instead of `workers`, they run on any hosts, and
`db` is the URL of a PostgreSQL server.
"""

import sys
import tempfile
from pathlib import Path

import qconv

device = sys.argv[1] if len(sys.argv) > 1 else None
layers = [qconv.Conv2d(1, 6, 6, channels, 8, 3, 3, pad=1) for channels in (8, 16)]

if __name__ == "__main__":  # worker processes import this file
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "tune.sqlite")
        for result in qconv.tune(layers, qconv.Budget(trials=3), device=device, db=db, workers=2):
            print(result.entry, result.trials, result.config)
        found = [qconv.bench(layer, device, db) for layer in layers]  # raises an error if a bit is wrong
        print([one.instance.origin for one in found])
    print("bit-exact:", len(found) == len(layers))
