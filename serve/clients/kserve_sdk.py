"""KServe's SDK against a server: kserve_sdk.py REST GRPC prints, as JSON, null for each call that works, by client."""
import asyncio
import json
import sys

import numpy as np
from kserve import InferInput, InferRequest, InferenceGRPCClient, InferenceRESTClient, RESTConfig

KINDS = {"BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16,
         "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64}


async def refused(words, call):
    try:
        await call
    except Exception as e:
        said = str(e) + str(getattr(e, "details", lambda: "")())
        assert all(w in said for w in words), said
        return
    raise AssertionError("not refused")


async def drive(client, *to):
    cells = {}
    grpc = not to
    named = {"model_name": "digits"}

    async def ask(model, *inputs, **more):
        request = InferRequest(model_name=model, infer_inputs=list(inputs), **more)
        return await (client.infer(request) if grpc else client.infer(*to, request, model_name=model))

    def tensor(name, kind, value, binary):
        i = InferInput(name=name, shape=list(value.shape), datatype=kind)
        i.set_data_from_numpy(value, binary_data=binary)
        return i
    assert await client.is_server_live(*to)
    cells["is_server_live"] = None
    assert await client.is_server_ready(*to)
    cells["is_server_ready"] = None
    assert await client.is_model_ready(*to, **named)
    assert not await client.is_model_ready(*to, model_name="broken")
    cells["is_model_ready"] = None
    image = np.random.default_rng(1).random((2, 1, 8, 8), np.float32)
    scores = []
    for binary in (True, False):
        r = await ask("digits", tensor("image", "FP32", image, binary), request_id="seven")
        assert r.id == "seven" and r.model_name == "digits", r
        scores.append(r.outputs[0].as_numpy())
    assert scores[0].shape == (2, 10) and (scores[0] == scores[1]).all()
    cells["infer"] = None
    for kind, dt in KINDS.items():
        x = np.array([[0, 1, 0], [1, 1, 0]], dt)
        for binary in (True, False):
            if kind == "FP16" and not binary:
                continue  # the SDK has it as binary data only
            r = await ask("same_" + kind.lower(), tensor("x", kind, x, binary))
            y = r.outputs[0].as_numpy()
            assert y.dtype == dt and (y == x).all(), (kind, binary, y)
    texts = np.array([["a", "grün", ""]], dtype=object)
    for binary in (True, False):
        r = await ask("same_bytes", tensor("x", "BYTES", texts, binary))
        y = [t.decode() if isinstance(t, bytes) else t for t in r.outputs[0].as_numpy().reshape(-1)]
        assert y == ["a", "grün", ""], (binary, y)
    cells["infer, 13 types, binary and not"] = None
    x = np.ones((1, 3), np.float32)
    r = await ask("two", tensor("a", "FP32", x, True), tensor("b", "FP32", 2 * x, True))
    assert {o.name: o.as_numpy().tolist() for o in r.outputs} == {"sum": (3 * x).tolist(), "difference": (-x).tolist()}
    cells["infer, two inputs and outputs"] = None
    await refused(["nobody"], ask("nobody", tensor("x", "FP32", x, True)))
    cells["errors that name the fault"] = None
    await client.close()
    return cells


async def main():
    rest = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    grpc = InferenceGRPCClient(sys.argv[2])
    print(json.dumps({"InferenceRESTClient": await drive(rest, "http://" + sys.argv[1]), "InferenceGRPCClient": await drive(grpc)}))


asyncio.run(main())
