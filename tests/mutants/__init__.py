"""The planted bugs of tests/mutate.py, by area."""

from mutants import (
    buffers,
    clusters,
    convert,
    database,
    devices,
    fused,
    gpu,
    house,
    mma,
    nouns,
    planner,
    prelude,
    roles,
    samples,
    serving,
    simt,
    special,
    tuning,
)
from mutants.mutant import Mutant

AREAS: dict[str, tuple[Mutant, ...]] = {
    "simt": simt.MUTANTS,
    "mma": mma.MUTANTS,
    "roles": roles.MUTANTS,
    "buffers": buffers.MUTANTS,
    "clusters": clusters.MUTANTS,
    "special": special.MUTANTS,
    "fused": fused.MUTANTS,
    "convert": convert.MUTANTS,
    "prelude": prelude.MUTANTS,
    "planner": planner.MUTANTS,
    "tuning": tuning.MUTANTS,
    "database": database.MUTANTS,
    "serving": serving.MUTANTS,
    "nouns": nouns.MUTANTS,
    "samples": samples.MUTANTS,
    "devices": devices.MUTANTS,
    "house": house.MUTANTS,
    "gpu": gpu.MUTANTS,
}
