"""The ops: how each is keyed, drawn and computed exactly. `registry` lists them all."""
