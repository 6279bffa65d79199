"""The arithmetic that kernels and oracles share: each C++ line beside its NumPy line."""
