"""The families of quantize, dequantize, requantize, choose and dynamic."""
