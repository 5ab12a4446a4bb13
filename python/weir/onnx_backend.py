"""The interface of onnx.backend.base: weir.onnx_backend.prepare(model).run(inputs).

    import onnx.backend.test, weir.onnx_backend
    tests = onnx.backend.test.BackendTest(weir.onnx_backend, __name__)
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._program import Program, Results, compile, load
from ._tensor import Tensor

def _array(value: Any) -> Any:
    """A result in the runner's form: an array, a list of them, or None."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_array(v) for v in value]
    return value.numpy() if isinstance(value, Tensor) else value


class WeirRep(BackendRep):
    """A compiled model."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for inputs, in order or by name."""
        if isinstance(inputs, dict):
            got = self.program(**inputs)
        elif isinstance(inputs, (list, tuple)):
            got = self.program(*inputs)
        else:
            got = self.program(inputs)
        results = list(got) if isinstance(got, Results) else [got]
        names = [p.name for p in self.program.outputs]
        outputs: tuple[Any, ...] = namedtupledict("Outputs", names)(*[_array(r) for r in results])
        return outputs


class WeirBackend(Backend):
    """Weir as a backend of ONNX's."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> WeirRep:
        """Compiles a model."""
        if not cls.supports_device(device):
            raise ValueError(f"there is no device {device!r}; there is CPU")
        super().prepare(model, device, **kwargs)
        with load(model.SerializeToString()) as loaded:
            return WeirRep(compile(loaded))

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> Any:
        """Runs one node by itself."""
        super().run_node(node, inputs, device, outputs_info=outputs_info, **kwargs)
        declared = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(numpy.asarray(x).dtype), numpy.shape(x))
            for name, x in zip(node.input, inputs)
        ]
        given = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = onnx.helper.make_graph([node], "node", declared, given)
        model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, **kwargs))
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is supported: only the CPU is."""
        return device.split(":")[0] == "CPU"


prepare = WeirBackend.prepare
run_model = WeirBackend.run_model
run_node = WeirBackend.run_node
supports_device = WeirBackend.supports_device
is_compatible = WeirBackend.is_compatible
