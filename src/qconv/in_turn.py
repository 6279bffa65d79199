"""Problems of several layers, which two kernels compute in turn, where no kernel computes all: each has the `first`
layer and the `rest` as problems of their own, and says which parameters of a call are theirs."""

from __future__ import annotations

from qconv.fused import Chain
from qconv.pooled import PooledConv2d

InTurn = Chain | PooledConv2d
