"""Running a network: its regions, the kernels that serve them, its memory, its report."""
