"""A minimal server by hand: FastAPI, uvicorn and onnxruntime, for the protocol's binary requests. fastapi_server.py FOLDER PORT"""
import json
import os
import pathlib
import sys

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request, Response

TYPES = {"FP32": np.float32, "INT64": np.int64}
app = FastAPI()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ["SERVING_THREADS"])
sessions = {f.stem: onnxruntime.InferenceSession(str(f), options, providers=["CPUExecutionProvider"]) for f in pathlib.Path(sys.argv[1]).glob("*.onnx")}


@app.post("/v2/models/{model}/infer")
async def infer(model: str, request: Request):
    body, size = await request.body(), int(request.headers["inference-header-content-length"])
    feeds, at = {}, size
    for i in json.loads(body[:size])["inputs"]:
        bytes_ = i["parameters"]["binary_data_size"]
        feeds[i["name"]] = np.frombuffer(body, TYPES[i["datatype"]], bytes_ // TYPES[i["datatype"]]().nbytes, at).reshape(i["shape"])
        at += bytes_
    session = sessions[model]
    results = session.run(None, feeds)
    text = json.dumps({"model_name": model, "outputs": [{"name": o.name, "datatype": "FP32", "shape": r.shape, "parameters": {"binary_data_size": r.nbytes}}
                                                        for o, r in zip(session.get_outputs(), results)]}).encode()
    return Response(text + b"".join(r.tobytes() for r in results), media_type="application/octet-stream",
                    headers={"Inference-Header-Content-Length": str(len(text))})


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
