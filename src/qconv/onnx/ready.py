"""A model with its kernels, ready to run: for inputs of any shapes, or of known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qconv.device import Device
from qconv.network import Explanation, Layer, Network, Parts, Reason, Runner
from qconv.network.run.arrange import Arranging
from qconv.network.run.runner import Elsewhere, Subgraph
from qconv.onnx.fallback import Fallback
from qconv.onnx.lowering import Lowered
from qconv.onnx.tensor import Unsupported

CHANNELS_LAST = "its channels are last there, as in ONNX Runtime, which makes other bits"


class ReadyModel:
    """A lowered model with the runner of its layers. If `strict`, it rejects layers that would run
    elsewhere."""

    def __init__(
        self,
        lowered: Lowered,
        fallback: Fallback,
        device: Device,
        arranging: Arranging,
        strict: bool,
    ) -> None:
        self.network, self._why_not = lowered.network, dict(lowered.why_not)
        for name in fallback.turned & self._why_not.keys():
            why = self._why_not[name]
            self._why_not[name] = replace(why, text=f"{why.text}; {CHANNELS_LAST}")
        if strict and self._why_not:
            raise Unsupported(_refusal(self.network, self._why_not))
        elsewhere: Elsewhere = Nowhere() if strict else fallback
        self.runner = Runner(self.network, lowered.served, device, elsewhere, arranging)
        self.parts = Parts(self.network, lowered.served, device, elsewhere, {})

    def explain(self) -> Explanation:
        return self.runner.explain(self._why_not)

    @property
    def advice(self) -> str:
        """Return the advice of the report, without the needs of kernels, which a run would wait for."""
        return self.runner.explain(self._why_not, with_needs=False).advice


class Nowhere:
    """The fallback of a strict session: it rejects layers whose kernels do not serve the shapes of a run."""

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        named = ", ".join(f"{layer.op} ({layer.name})" for layer in layers)
        raise Unsupported(f"strict=True, but for inputs of these shapes {named} would run in ONNX Runtime")


def _refusal(network: Network, why_not: Mapping[str, Reason]) -> str:
    ops = {layer.name: layer.op for layer in network.layers}
    lines = [f"{ops[name]} ({name}): {why}" for name, why in why_not.items()]
    return "\n".join([f"strict=True, but {len(lines)} layers would run in ONNX Runtime:", *lines])
