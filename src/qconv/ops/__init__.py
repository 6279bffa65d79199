"""The ops: how each parses keys, draws random data and computes exact outputs. `registry` lists them all."""
