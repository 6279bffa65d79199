"""A network as nodes and tensors, and the protocol of a layer that runs on kernels."""
