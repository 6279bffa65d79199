"""Sessions: any model that ONNX Runtime accepts, with its quantized layers on this project's kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from qconv.device import Device, open_device
from qconv.host_array import check_unmasked
from qconv.instances.load.expected import Expectations
from qconv.instances.load.serving import found
from qconv.network import (
    Arranger,
    Choices,
    Contender,
    Explanation,
    Layer,
    Memory,
    Network,
    Parts,
    Profile,
    Runner,
    Value,
)
from qconv.network.run.recorded import Form, forms_of
from qconv.network.run.runner import Elsewhere, Subgraph
from qconv.onnx import options
from qconv.onnx.blocked import in_blocks
from qconv.onnx.built import Opened, is_folder, open_folder, with_batch
from qconv.onnx.fallback import Fallback
from qconv.onnx.lowering import lower
from qconv.onnx.model import is_cpu_only, loaded, read, rewritten, source_of
from qconv.onnx.tensor import Unsupported
from qconv.op import WIDEST
from qconv.tuner.workload import NetworkProblems

if TYPE_CHECKING:
    from qconv.tune_db.database import Database


class Session:
    """A drop-in for `onnxruntime.InferenceSession` with the same bits. The model may also be a folder written by
    `qconv-tune build`.

    `device` is one of qconv's (`"cpu"`, `"cuda:0"`; the first GPU by default). `strict` rejects a model with layers
    that would run elsewhere, and names all of them. `config` are ONNX Runtime's own session settings; with
    `{"session.qdqisint8allowed": "1"}`, QDQ models with int8 activations become integer as a whole, as ONNX Runtime
    does on ARM, while on x86 it computes some of their convolutions in floats. `providers` run the layers that no
    kernel computes.

    A sum of two tensors, a function of the output or a max pool can be folded into the convolution before it, and two
    or three convolutions can be one kernel. No bit changes. By default, the faster way is chosen by measured times, or
    else by predicted ones. `sums_in_convolutions`, `tables_in_convolutions`, `pools_in_convolutions` and
    `fused_convolutions` force it wherever such a kernel exists (True), or forbid it (False).
    """

    def __init__(
        self,
        model: onnx.ModelProto | bytes | str | Path,
        device: str | None = None,
        strict: bool = False,
        config: Mapping[str, str] | None = None,
        providers: Sequence[str] | None = None,
        sums_in_convolutions: bool | None = None,
        fused_convolutions: bool | None = None,
        tables_in_convolutions: bool | None = None,
        pools_in_convolutions: bool | None = None,
    ) -> None:
        options.check_strict(strict)
        self._device = open_device(device.lower() if isinstance(device, str) else device)
        choices = options.choices(
            sums_in_convolutions, fused_convolutions, tables_in_convolutions, pools_in_convolutions
        )
        providers = options.providers(providers, self._device.spec)
        if is_folder(model):
            if config is not None or choices != Choices():
                raise ValueError(f"{model} has its config and its choices: give them to qconv-tune build")
            opened = open_folder(Path(model), self._device)
        else:
            config = options.settings(config)
            read_model = read(rewritten(source_of(model), config), config)
            arranger = Arranger(Expectations(self._device, in_sequence=True), choices)
            opened = Opened(read_model, config, arranger)
        self._answering = opened.answering
        self._model = in_blocks(opened.model, opened.config) if is_cpu_only(providers) else opened.model
        fallback = Fallback(self._model, opened.config, providers)
        lowered = lower(self._model.network, fallback.function, choices)
        network, self._why_not = lowered.network, dict(lowered.why_not)
        for name in fallback.turned & self._why_not.keys():
            self._why_not[name] += "; its channels are last there, as in ONNX Runtime, which makes other bits"
        if strict and self._why_not:
            raise Unsupported(_refusal(network, self._why_not))
        elsewhere: Elsewhere = Nowhere() if strict else fallback
        with self._answering():
            self._runner = Runner(network, lowered.served, self._device, elsewhere, opened.arranging)
        self._seen: dict[str, Form] = {}  # per input, its form in the last run
        self._choices = None if is_folder(model) else choices
        self._parts = Parts(network, lowered.served, self._device, elsewhere, {})
        graph = self._model.proto.graph
        self._inputs = network.inputs
        self._defaults = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name in network.inputs
        }

    @property
    def device(self) -> Device:
        return self._device

    @property
    def input_names(self) -> tuple[str, ...]:
        """Return the inputs that must be fed."""
        return tuple(name for name in self._inputs if name not in self._defaults)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self._model.network.outputs

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run and return the named outputs as NumPy arrays; all of them for None or an empty list. Inputs may be arrays
        on the device. Images whose channels are last in memory, such as a `transpose` or PyTorch's `channels_last`, are
        used without a copy, which saves a launch. Images that the network quantizes itself are faster as NCHW."""
        with self._answering():
            return [value.on_host for value in self._values(output_names, feeds)]

    def run_on_device(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run like `run`, but return arrays on the device."""
        with self._answering():
            return [value.on_device for value in self._values(output_names, feeds)]

    @property
    def problems(self) -> NetworkProblems:
        """Return the problems of the kernels, for `qconv.tune`: one per layer and shape that was known or has run,
        followed by those whose times decide between one kernel and several."""
        return NetworkProblems(self._runner.problems, self)

    def contender(self, rows: Database, in_sequence: bool) -> Contender:
        """Return this network, for inputs like those of the last run, with the kernels that a lookup in these rows
        chooses, ready to race. Raise ValueError without a run or known shapes, or where there is nothing to choose."""
        if self._choices is None:
            raise ValueError("its kernels were chosen when its folder was built")
        forms = {name: self._form(name) for name in self._inputs}
        arranger = Arranger(Expectations(self._device, rows, in_sequence), self._choices)
        return Contender(
            replace(self._parts, forms=forms),
            arranger,
            lambda problem: found(problem, self._device, rows, in_sequence),
        )

    def _form(self, name: str) -> Form:
        if name in self._seen:
            return self._seen[name]
        tensor = self._model.network.tensor(name)
        if tensor.extents is None or tensor.dtype in (None, "object"):
            raise ValueError(f"the shape of its input {name!r} is unknown before the first run")
        return tensor.extents, str(tensor.dtype), False

    @property
    def memory(self) -> Memory:
        """Return the bytes of intermediate tensors and of the arenas that hold them, for all recordings. Runs are
        recorded from the second with the same shapes."""
        return self._runner.memory

    def explain(self) -> Explanation:
        """Return a report on each layer: where it runs, why, and how many bytes cross. Printing shows a table."""
        return self._runner.explain(self._why_not)

    def profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Return the time of every served layer and of every subgraph elsewhere, in one run that waits for each."""
        with self._answering():
            return self._runner.profile(self._checked(feeds))

    def _values(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Value]:
        names = options.outputs(output_names) or list(self.output_names)
        for name in names:
            if name not in self.output_names:
                raise ValueError(f"the output {name!r} is not known; the model gives {', '.join(self.output_names)}")
        values = self._runner.run(self._checked(feeds), names)
        return [values[name] for name in names]

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Value]:
        if not isinstance(feeds, Mapping):
            raise ValueError(f"feeds are arrays by the names of inputs; {type(feeds).__name__} was given")
        options.check_inputs(feeds, self.input_names, self._inputs)
        return {name: self._fed(name, array) for name, array in {**self._defaults, **feeds}.items()}

    def _fed(self, name: str, array: Any) -> Value:
        tensor = self._model.network.tensor(name)
        if tensor.dtype is None:  # such as a sequence, which only ONNX Runtime interprets
            return Value(self._device, host=array)
        check_unmasked(f"the input {name!r}", array)
        elsewhere = not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__")
        held, address = self._device.adopt(name, array) if elsewhere else (np.asarray(array), 0)
        if str(held.dtype) != tensor.dtype and tensor.dtype != "object":
            raise ValueError(f"the input {name!r} is {held.dtype}; the model takes {tensor.dtype}")
        if not tensor.may_be(held.shape):
            shown = ", ".join("?" if size is None else str(size) for size in tensor.shape or ())
            raise ValueError(f"the input {name!r} has shape {tuple(held.shape)}; the model takes ({shown})")
        value = Value(self._device, there=held) if elsewhere else Value(self._device, host=held)
        (self._seen[name],) = forms_of({name: value})
        # The first layer's kernel may read vectors.
        return value.copied() if address % WIDEST else value


class Nowhere:
    """The fallback of a strict session: it rejects layers whose kernels do not serve the shapes of a run."""

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        named = ", ".join(f"{layer.op} ({layer.name})" for layer in layers)
        raise Unsupported(f"strict=True, but for inputs of these shapes {named} would run in ONNX Runtime")


def _refusal(network: Network, why_not: Mapping[str, str]) -> str:
    ops = {layer.name: layer.op for layer in network.layers}
    lines = [f"{ops[name]} ({name}): {why}" for name, why in why_not.items()]
    return "\n".join([f"strict=True, but {len(lines)} layers would run in ONNX Runtime:", *lines])


def session_of(path: Path, batch: int | None, device: str | None) -> Session:
    """Return a session of a model for one batch, as read by `qconv-tune tune`. Raise ValueError where no layer runs on
    kernels, or where the batch is open and none is given."""
    session = Session(path if batch is None else with_batch(loaded(source_of(path)), batch), device)
    if not session.problems:
        raise ValueError("a session runs none of its layers on a kernel; quantize it, or give its open batch")
    return session
