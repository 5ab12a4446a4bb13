"""One engine on one model, in this process alone: prints one JSON line.

Usage: engine.py ENGINE FOLDER THREADS SECONDS    FOLDER is one that models.py made
       engine.py compile-iree FOLDER              makes what IREE runs
ENGINE is ort, openvino, openvino_bf16, ort_int8, openvino_int8 (these read int8.onnx), ncnn, iree, torch, inductor. The line has min, median and first run in ms, load in ms, the largest error relative to the
largest output, and the process's peak resident MiB. Whoever calls pins the process; each engine is told the number of threads, and has its own best settings otherwise.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import numpy as np


def onnxruntime(folder, threads, inputs, file="model.onnx"):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(folder / file), options, providers=["CPUExecutionProvider"])
    feed = dict(zip([i.name for i in session.get_inputs()], inputs))
    return lambda: session.run(None, feed)


def openvino(folder, threads, inputs, precision="f32", file="model.onnx", quantised=0):
    """quantised: so many elements of a row of activations share a scale in products with narrow weights; 0: they stay as they are."""
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(core.read_model(folder / file), "CPU", {  # f32 is not the default on machines with AMX
        "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": quantised})  # by default it is on if weights have four bits
    request = compiled.create_infer_request()
    tensors = [ov.Tensor(x) for x in inputs]

    def run():
        for i, t in enumerate(tensors):
            request.set_input_tensor(i, t)
        request.infer()
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run


def openvino_bf16(folder, threads, inputs):
    return openvino(folder, threads, inputs, "bf16")


def onnxruntime_int8(folder, threads, inputs):
    return onnxruntime(folder, threads, inputs, "int8.onnx")


def openvino_int8(folder, threads, inputs):
    return openvino(folder, threads, inputs, file="int8.onnx", quantised=32)


def ncnn(folder, threads, inputs):
    import ncnn as n

    net = n.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_storage = net.opt.use_fp16_packed = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    if net.load_param(str(folder / "m.ncnn.param")) or net.load_model(str(folder / "m.ncnn.bin")):
        raise RuntimeError("the model was not converted")
    inputs = [x.astype(np.int32) if x.dtype == np.int64 else x for x in inputs]  # the type that its layers read
    mats = [n.Mat(x[0] if x.shape[0] == 1 else x).clone() for x in inputs]
    outputs = len(list(folder.glob("y*.npy")))

    def run():
        e = net.create_extractor()
        for i, m in enumerate(mats):
            e.input(f"in{i}", m)
        return [np.array(e.extract(f"out{i}")[1])[None] for i in range(outputs)]

    return run


def iree(folder, threads, inputs):
    import iree.runtime as rt
    import iree.runtime.flags

    compiled = folder / "m.vmfb"
    if not compiled.exists():
        raise RuntimeError("the model was not compiled")
    if threads > 1:
        iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = rt.Config("local-task" if threads > 1 else "local-sync")
    context = rt.SystemContext(config=config)
    module = rt.VmModule.mmap(context.instance, str(compiled))
    context.add_vm_module(module)
    name = next(f for f in module.function_names if not f.startswith("__") and not f.endswith("$async"))
    function = context.modules[module.name][name]
    arrays = [rt.asdevicearray(config.device, x) for x in inputs]

    def run():
        out = function(*arrays)
        return [np.asarray(y) for y in (out if isinstance(out, (tuple, list)) else [out])]

    return run


def compile_iree(folder):
    tools, partial = pathlib.Path(sys.executable).parent, folder / "m.partial"
    subprocess.run([tools / "iree-import-onnx", folder / "model.onnx", "-o", folder / "m.mlir"], check=True)
    subprocess.run([tools / "iree-compile", folder / "m.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
                    "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "--iree-opt-data-tiling", "-o", partial], check=True)
    (folder / "m.mlir").unlink()
    partial.rename(folder / "m.vmfb")


def pytorch(folder, threads, inputs, compiled=False):
    import torch

    import models

    torch.set_num_threads(threads)
    model, _ = models.build(folder.name)
    if compiled:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        model = torch.compile(model)
    arguments = [torch.from_numpy(x) for x in inputs]

    def run():
        with torch.no_grad():
            out = model(*arguments)
        return [y.numpy() for y in (out if isinstance(out, (tuple, list)) else [out])]

    return run


def inductor(folder, threads, inputs):
    return pytorch(folder, threads, inputs, compiled=True)


ENGINES = {"ort": onnxruntime, "openvino": openvino, "openvino_bf16": openvino_bf16, "ort_int8": onnxruntime_int8, "openvino_int8": openvino_int8,
           "ncnn": ncnn, "iree": iree, "torch": pytorch, "inductor": inductor}


def arrays(folder, letter):
    files = sorted(folder.glob(letter + "*.npy"), key=lambda f: int(f.stem[1:]))
    return [np.load(f) for f in files]


def error(got, want):
    """The largest difference relative to the largest value, over all outputs."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        g = np.asarray(g, dtype=np.float64).reshape(w.shape)
        worst = np.maximum(worst, np.max(np.abs(g - w)) / (np.max(np.abs(w)) + 1e-9))  # NaN is kept
    return float(worst)


def main():
    if sys.argv[1] == "compile-iree":
        return compile_iree(pathlib.Path(sys.argv[2]))
    name, folder, threads, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    inputs, want = arrays(folder, "x"), arrays(folder, "y")
    begin = time.perf_counter()
    run = ENGINES[name](folder, threads, inputs)
    load = time.perf_counter() - begin
    begin = time.perf_counter()
    out = run()
    first = time.perf_counter() - begin
    wrong = error(out, want)
    run()
    times, begin = [], time.perf_counter()
    while (time.perf_counter() - begin < seconds or len(times) < 5) and len(times) < 20000:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    times.sort()
    print(json.dumps({"min": times[0] * 1e3, "median": times[len(times) // 2] * 1e3, "runs": len(times), "load": load * 1e3, "first": first * 1e3, "error": wrong,
                      "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
