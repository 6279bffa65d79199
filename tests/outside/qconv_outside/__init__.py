"""An op with its kernel family, and a search strategy: what a package may add to qconv."""
