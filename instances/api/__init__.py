"""The functions that users call with arrays: conv2d, quantize, add, ..."""
