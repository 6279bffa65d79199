"""The peers of our comparisons, one module each: `prepare(case)` returns a Peer to time, or raises with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from peers import cudnn_fp16, cudnn_int8, simt
from peers.case import Case, Peer, Unavailable

__all__ = ["OTHERS", "PEERS", "Case", "Peer", "Unavailable", "prepare"]

# Other systems: the fastest of these is the best peer.
OTHERS: dict[str, Callable[[Case], Peer]] = {
    "cudnn_int8": cudnn_int8.prepare,
    "cudnn_fp16": cudnn_fp16.prepare,
    "cudnn_bf16": cudnn_fp16.prepare_bfloat16,
}
PEERS = OTHERS | {"simt": simt.prepare}


def prepare(names: Iterable[str], case: Case) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers that can run this case, and why the others cannot: a missing peer is not an error."""
    ready: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            ready[name] = PEERS[name](case)
        except Unavailable as reason:
            missing[name] = str(reason)
        except Exception as error:  # third-party code: any error is the reason
            missing[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ready, missing
