"""A kernel family for convolutions, an op with its own, and a search strategy: what a package may add to qconv."""
