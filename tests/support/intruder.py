"""Another user of the machine, who knows the addresses of a Dask cluster but has none of its certificates.

`python intruder.py HOST:PORT...` asks each listener to run code, both in plain text and with a certificate of its own.
It prints, as JSON, the id of the user that ran the code, or null if it was not run.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from importlib import import_module
from typing import Any

# The package is untyped.
dask: Any = import_module("distributed")

NOBODY = 65534
# Listeners refuse at once: only a busy machine delays an answer.
PATIENCE_S = 60.0


async def user_of(address: str, how: dict[str, Any], op: str) -> int | None:
    try:
        comm = await dask.comm.connect(address, timeout=PATIENCE_S, **how)
        await comm.write({"op": op, "function": dask.protocol.pickle.dumps(os.getuid), "wait": True, "reply": True})
        answer = await asyncio.wait_for(comm.read(), PATIENCE_S)
    except OSError:  # covers time-outs
        return None
    found = answer.get("result") if isinstance(answer, dict) else answer
    return found if isinstance(found, int) else None


def ways() -> tuple[tuple[str, dict[str, Any]], ...]:
    plain, own = (one.get_connection_args("client") for one in (dask.Security(), dask.Security.temporary()))
    own["ssl_context"].verify_mode = ssl.CERT_NONE  # accept any server
    return ("tcp", plain), ("tls", own)


async def attack(place: str) -> int | None:
    for scheme, how in WAYS:
        for op in ("run", "run_function"):  # for a worker and a nanny; for a scheduler
            if (user := await user_of(f"{scheme}://{place}", how, op)) is not None:
                return user
    return None


async def meet_itself() -> None:
    """Import everything that an attack uses: the other user may be unable to read Python's folder."""

    async def refuse(comm: Any) -> None:
        await comm.read()
        await comm.write(None)

    listener = await dask.comm.listen("tcp://127.0.0.1:0", refuse)
    await attack(listener.contact_address.partition("://")[2])
    listener.stop()


async def attack_all(places: list[str]) -> dict[str, int | None]:
    return dict(zip(places, await asyncio.gather(*map(attack, places)), strict=True))


if __name__ == "__main__":
    WAYS = ways()
    asyncio.run(meet_itself())
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print(json.dumps(asyncio.run(attack_all(sys.argv[1:]))))
