"""A network as layers and tensors, and the protocol of a layer that runs on kernels."""
