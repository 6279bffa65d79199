"""A process that writes rows: `python database_writer.py PATH COUNT DIGEST` prints each number once its row is
stored."""

from __future__ import annotations

import sys

from measurement_samples import nth_measurement

from qconv.tune_db.database import Database


def main(path: str, count: str, digest: str) -> None:
    with Database.open(path) as database:
        print("open", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            database.add(nth_measurement(number, digest))
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
