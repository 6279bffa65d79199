"""The families of quantize, dequantize, requantize and choose."""
