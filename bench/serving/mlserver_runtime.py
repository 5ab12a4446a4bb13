"""MLServer's runtime for ONNX: onnxruntime on the file that the model's settings name."""
import os

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor

TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64"}


class OnnxModel(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["SERVING_THREADS"])
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options, providers=["CPUExecutionProvider"])

        def tensors(some):
            return [MetadataTensor(name=t.name, datatype=TYPES[t.type], shape=[e if isinstance(e, int) else -1 for e in t.shape]) for t in some]
        self.inputs, self.outputs = tensors(self.session.get_inputs()), tensors(self.session.get_outputs())
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        results = self.session.run(None, {i.name: NumpyCodec.decode_input(i) for i in payload.inputs})
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[NumpyCodec.encode_output(t.name, r) for t, r in zip(self.outputs, results)])
