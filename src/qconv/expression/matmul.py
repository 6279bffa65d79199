"""The op `matmul` (another branch brings it)."""

from qconv.expression.map import Map as MatMul
