"""Layers that no kernel of its own computes, as expressions: read lazily, fused, and run as maps, reductions and
products."""
