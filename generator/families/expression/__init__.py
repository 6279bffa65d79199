"""The families of expressions, and their common parts."""
