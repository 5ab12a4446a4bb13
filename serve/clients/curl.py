"""grpcurl, which knows the protocol by reflection alone: every RPC of the service."""
import base64
import json
import subprocess

import numpy as np

IMAGE = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) / 64
INPUT = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]}
TYPED = {"model_name": "digits", "inputs": [INPUT | {"contents": {"fp32_contents": IMAGE.reshape(-1).tolist()}}]}
RAW = {"model_name": "digits", "inputs": [INPUT], "raw_input_contents": [base64.b64encode(IMAGE.tobytes()).decode()]}
# By RPC: the request, and a text of the answer; a tuple of texts is a refusal's.
CALLS = {
    "ServerLive": ({}, '"live": true'), "ServerReady": ({}, '"ready": true'), "ModelReady": ({"name": "digits"}, '"ready": true'),
    "ServerMetadata": ({}, '"weir"'), "ModelMetadata": ({"name": "digits"}, '"image"'), "ModelConfig": ({"name": "digits"}, '"TYPE_FP32"'),
    "ModelInfer": (TYPED, '"rawOutputContents"'), "ModelStreamInfer": (RAW, '"rawOutputContents"'),
    "ModelStatistics": ({"name": "digits"}, '"inferenceStats"'), "RepositoryIndex": ({}, '"READY"'), "RepositoryModelLoad": ({"model_name": "digits"}, "{"),
    "RepositoryModelUnload": ({"model_name": "axes"}, "{"), "SystemSharedMemoryStatus": ({}, "{"),
    "SystemSharedMemoryRegister": ({"name": "n", "key": "/nobody", "byte_size": 8}, ("nobody", "no such file")), "SystemSharedMemoryUnregister": ({}, "{"),
    "CudaSharedMemoryStatus": ({}, "{"), "CudaSharedMemoryRegister": ({"name": "n", "byte_size": 8}, ("CUDA",)), "CudaSharedMemoryUnregister": ({}, "{"),
    "TraceSetting": ({}, '"trace_level"'), "LogSettings": ({}, '"log_info"'),
}


def calls(command, server):
    """What each RPC does, by its name."""
    def curl(*arguments, data=None):
        done = subprocess.run([command, "-plaintext", *(["-d", json.dumps(data)] if data is not None else []), server.grpc, *arguments], capture_output=True,
                              text=True, timeout=30)
        return done.returncode, done.stdout, done.stderr
    code, text, fault = curl("list")
    assert code == 0 and {"inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= set(text.split()), text + fault
    code, text, fault = curl("list", "inference.GRPCInferenceService")
    have = {line.rpartition(".")[2] for line in text.split()}
    assert have == set(CALLS), (have ^ set(CALLS), fault)
    code, text, fault = curl("describe", "inference.ModelInferRequest")
    assert code == 0 and "raw_input_contents" in text, text + fault
    assert '"SERVING"' in curl("grpc.health.v1.Health/Check")[1]
    cells = {}
    for name, (request, want) in CALLS.items():
        code, text, fault = curl("inference.GRPCInferenceService/" + name, data=request)
        if isinstance(want, str):
            assert code == 0 and want in text, (name, text, fault)
            cells[name] = None
        else:
            assert code != 0 and all(word in fault for word in want), (name, text, fault)
            cells[name] = fault.partition("Message: ")[2].partition("\n")[0] if name.startswith("Cuda") else None
    curl("inference.GRPCInferenceService/RepositoryModelLoad", data={"model_name": "axes"})
    raw, typed = (json.loads(curl("inference.GRPCInferenceService/ModelInfer", data=r)[1])["rawOutputContents"] for r in (RAW, TYPED))
    assert raw == typed and len(base64.b64decode(raw[0])) == 40
    return cells
