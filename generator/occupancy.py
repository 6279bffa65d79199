"""How many blocks share a multiprocessor, from what each of them takes."""

from __future__ import annotations

from qconv.target import Target


def blocks_per_sm(target: Target, threads: int, smem_bytes: int, registers: int) -> int:
    """`registers`: of a thread. 0 where one block takes more than there is."""
    allocated = -(-registers // target.register_granule) * target.register_granule
    warps = target.simds * (target.registers_per_sm // target.simds // (allocated * target.warp_size))
    return min(
        warps * target.warp_size // threads,
        target.smem_bytes_per_sm // max(1, smem_bytes),
        target.threads_per_sm // threads,
    )
