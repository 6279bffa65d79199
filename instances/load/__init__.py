"""Loading of plans: compiled, loaded on a device and ready to launch."""
