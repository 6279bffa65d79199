"""The planted bugs of tests/mutate.py, by area."""

from mutants import (
    convert,
    database,
    devices,
    fused,
    gpu,
    mma,
    nouns,
    planner,
    prelude,
    roles,
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
    "special": special.MUTANTS,
    "fused": fused.MUTANTS,
    "convert": convert.MUTANTS,
    "prelude": prelude.MUTANTS,
    "planner": planner.MUTANTS,
    "tuning": tuning.MUTANTS,
    "database": database.MUTANTS,
    "serving": serving.MUTANTS,
    "nouns": nouns.MUTANTS,
    "devices": devices.MUTANTS,
    "gpu": gpu.MUTANTS,
}
