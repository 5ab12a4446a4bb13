"""tritonclient's four clients, called alike, and what each RPC and feature must do with them.

RPCS and FEATURES are functions of a client by name. One returns nothing if all went as it must, the text of the refusal if the server refuses the call by
name, and NONE if the client has no such call.
"""
import asyncio
import inspect
import queue
import uuid

import ml_dtypes
import numpy as np
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException, shared_memory

import models

NONE = "—"
RPCS, FEATURES = {}, {}
RANDOM = np.random.default_rng(38)


def rpc(function):
    RPCS["".join(word.capitalize() for word in function.__name__.split("_"))] = function


def feature(text):
    def add(function):
        FEATURES[text] = function
    return add


class Client:
    """A client of tritonclient; calls of the aio ones run to their end."""

    def __init__(self, kind, server, loop):
        self.kind, self.loop, self.server = kind, loop, server
        self.module = {"http": tritonclient.http, "http.aio": tritonclient.http.aio, "grpc": tritonclient.grpc, "grpc.aio": tritonclient.grpc.aio}[kind]
        self.is_grpc = kind.startswith("grpc")
        self.raw = self.wait(self.make(server.grpc if self.is_grpc else server.rest))

    async def make(self, address):
        return self.module.InferenceServerClient(address)

    def wait(self, result):
        return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

    def __call__(self, method, *arguments, **named):
        return self.wait(getattr(self.raw, method)(*arguments, **named))

    def get(self, method, *arguments, **named):
        """The answer as Python objects."""
        return self(method, *arguments, **named, **({"as_json": True} if self.is_grpc else {}))

    def input(self, name, kind, value, binary=True):
        value = np.asarray(value)
        i = self.module.InferInput(name, list(value.shape), kind)
        return i.set_data_from_numpy(value, **({} if self.is_grpc else {"binary_data": binary}))

    def output(self, name, binary=True, **named):
        return self.module.InferRequestedOutput(name, **({} if self.is_grpc else {"binary_data": binary}), **named)

    def digits(self, n=3, **named):
        image = RANDOM.random((n, 1, 8, 8), np.float32)
        return image, self("infer", "digits", [self.input("image", "FP32", image)], **named)

    def close(self):
        self("close")


def refused(words, client, *call, **named):
    """The text with which the server refuses a call, which must contain the words."""
    try:
        client(*call, **named)
    except InferenceServerException as e:
        for word in words:
            assert word in e.message(), (word, e.message())
        assert e.status(), e
        return e.message()
    raise AssertionError(f"{call[0]} is not refused")


@rpc
def server_live(c):
    assert c("is_server_live") is True


@rpc
def server_ready(c):
    assert c("is_server_ready") is True


@rpc
def model_ready(c):
    assert c("is_model_ready", "digits") is True
    assert c("is_model_ready", "specific", "3") is True
    for name, version in (("specific", "2"), ("nobody", ""), ("broken", ""), ("digits", "x")):
        assert c("is_model_ready", name, version) is False, (name, version)


@rpc
def server_metadata(c):
    m = c.get("get_server_metadata")
    assert m["name"] == "weir" and m["version"] and {"binary_tensor_data", "model_repository", "statistics"} <= set(m["extensions"]), m


@rpc
def model_metadata(c):
    m = c.get("get_model_metadata", "specific")
    assert [int(v) for v in m["versions"]] == [1, 3] and m["platform"], m
    assert m["inputs"] == [{"name": "x", "datatype": "FP32", "shape": shape(c, -1, 3)}], m
    assert m["outputs"] == [{"name": "y", "datatype": "FP32", "shape": shape(c, -1, 3)}], m
    assert c.get("get_model_metadata", "scalar")["inputs"][0].get("shape", []) == []
    refused(["nobody", "unknown"], c, "get_model_metadata", "nobody")
    refused(["broken", "not ready"], c, "get_model_metadata", "broken")


def shape(c, *extents):
    return [str(e) for e in extents] if c.is_grpc else list(extents)


@rpc
def model_config(c):
    m = c.get("get_model_config", "whole")
    m = m["config"] if c.is_grpc else m
    assert m["name"] == "whole" and int(m["max_batch_size"]) == 8 and "all" in m["version_policy"], m
    assert m["input"][0]["data_type"] == "TYPE_FP32" and m["input"][0]["dims"] == shape(c, 3), m
    m = c.get("get_model_config", "same_bytes")
    m = m["config"] if c.is_grpc else m
    assert m["input"][0]["data_type"] == "TYPE_STRING", m


@rpc
def model_infer(c):
    image, r = c.digits(request_id="seven")
    scores = r.as_numpy("scores")
    assert scores.shape == (3, 10) and np.isfinite(scores).all()
    response = r.get_response(**({"as_json": True} if c.is_grpc else {}))
    assert response["id"] == "seven" and response["model_name"] == "digits" and response["model_version"] == "1", response
    for row in range(3):  # alone as together
        alone = c("infer", "digits", [c.input("image", "FP32", image[row:row + 1])]).as_numpy("scores")
        assert np.allclose(alone[0], scores[row], rtol=1e-5, atol=1e-6)
    if c.kind == "http":
        waiting = [c.raw.async_infer("digits", [c.input("image", "FP32", image)]) for _ in range(4)]
        assert all((w.get_result().as_numpy("scores") == scores).all() for w in waiting)
    if c.kind == "grpc":
        got = queue.Queue()
        for _ in range(4):
            c.raw.async_infer("digits", [c.input("image", "FP32", image)], lambda result, error: got.put((result, error)))
        for _ in range(4):
            result, error = got.get(timeout=20)
            assert error is None and (result.as_numpy("scores") == scores).all()


@rpc
def model_stream_infer(c):
    if not c.is_grpc:
        return NONE
    images = [RANDOM.random((n, 1, 8, 8), np.float32) for n in (1, 2, 3)]
    requests = [{"model_name": "digits", "inputs": [c.input("image", "FP32", x)], "request_id": str(i)} for i, x in enumerate(images)]
    requests.insert(1, {"model_name": "nobody", "inputs": [c.input("image", "FP32", images[0])], "request_id": "wrong"})
    answers = []
    if c.kind == "grpc":
        got = queue.Queue()
        c.raw.start_stream(lambda result, error: got.put((result, error)))
        for r in requests:
            c.raw.async_stream_infer(**r)
        answers = [got.get(timeout=20) for _ in requests]
        c.raw.stop_stream()
    else:
        async def each():
            for r in requests:
                yield r

        async def run():
            async for pair in c.raw.stream_infer(each()):
                answers.append(pair)
        c.wait(run())
    assert len(answers) == 4, answers
    assert "nobody" in str(answers.pop(1)[1])
    for i, (result, error) in enumerate(answers):
        assert error is None and result.get_response().id == str(i), (i, error)
        want = c("infer", "digits", [c.input("image", "FP32", images[i])]).as_numpy("scores")
        assert (result.as_numpy("scores") == want).all()


@rpc
def model_statistics(c):
    def successes():
        s = c.get("get_inference_statistics", "digits")["model_stats"][0]
        assert s["name"] == "digits" and s["version"] == "1", s
        assert int(s["inference_stats"]["success"]["ns"]) > 0 and {"queue", "compute_input", "compute_infer", "compute_output"} <= set(s["inference_stats"])
        return int(s["inference_stats"]["success"]["count"]), int(s["inference_count"]), int(s["execution_count"])
    c.digits()
    before = successes()
    c.digits(3)
    after = successes()
    assert after[0] == before[0] + 1 and after[1] == before[1] + 3 and after[2] == before[2] + 1, (before, after)
    assert len(c.get("get_inference_statistics")["model_stats"]) > 15
    refused(["nobody"], c, "get_inference_statistics", "nobody")


@rpc
def repository_index(c):
    index = c.get("get_model_repository_index")
    index = index.get("models", []) if c.is_grpc else index
    states = {(m["name"], m.get("version", "")): m.get("state", "") for m in index}
    assert states[("digits", "1")] == "READY" and states[("specific", "3")] == "READY" and ("specific", "2") not in states, states
    assert [m for m in index if m["name"] == "broken"][0]["state"] == "UNAVAILABLE" and [m for m in index if m["name"] == "broken"][0]["reason"], index


@rpc
def repository_model_load(c):
    c("load_model", "digits")
    assert c("is_model_ready", "digits")
    refused(["nobody"], c, "load_model", "nobody")
    refused(["broken"], c, "load_model", "broken")
    refused(["config", "folder"], c, "load_model", "digits", config='{"backend": "onnxruntime"}')
    refused(["parameter", "folder"], c, "load_model", "digits", config="{}", files={"file:1/model.onnx": b"x"})


@rpc
def repository_model_unload(c):
    c("unload_model", "two")
    assert not c("is_model_ready", "two")
    assert not [m for m in c("get_inference_statistics", **({"as_json": True} if c.is_grpc else {}))["model_stats"] if m["name"] == "two"]
    refused(["two"], c, "infer", "two", [c.input("a", "FP32", np.ones((1, 3), np.float32))])
    c("load_model", "two")
    assert c("is_model_ready", "two")
    refused(["nobody"], c, "unload_model", "nobody")


class Shared:
    """Shared memory of the system."""

    def __init__(self, size):
        self.name, self.size = uuid.uuid4().hex[:12], size
        self.handle = shared_memory.create_shared_memory_region(self.name, "/weir" + self.name, size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shared_memory.destroy_shared_memory_region(self.handle)


@rpc
def system_shared_memory_register(c):
    with Shared(4096) as s:
        c("register_system_shared_memory", s.name, "/weir" + s.name, 4096)
        refused([s.name], c, "register_system_shared_memory", s.name, "/weir" + s.name, 4096)
        c("unregister_system_shared_memory", s.name)
        c("register_system_shared_memory", s.name, "/weir" + s.name, 1024, offset=512)
        c("unregister_system_shared_memory", s.name)
        refused(["4096"], c, "register_system_shared_memory", "long", "/weir" + s.name, 8192)
        refused(["nobody"], c, "register_system_shared_memory", "n", "/nobody", 64)
        refused(["../etc"], c, "register_system_shared_memory", "n", "/../etc/passwd", 64)


@rpc
def system_shared_memory_status(c):
    c("unregister_system_shared_memory")

    def names(*arguments):
        status = c.get("get_system_shared_memory_status", *arguments)
        return sorted(status.get("regions", {})) if c.is_grpc else sorted(r["name"] for r in status)
    with Shared(4096) as s:
        c("register_system_shared_memory", s.name, "/weir" + s.name, 4096)
        assert names() == [s.name] and names(s.name) == [s.name], names()
        c("unregister_system_shared_memory", s.name)
        assert names() == []
        refused(["nobody"], c, "get_system_shared_memory_status", "nobody")


@rpc
def system_shared_memory_unregister(c):
    with Shared(64) as s, Shared(64) as t:
        for one in (s, t):
            c("register_system_shared_memory", one.name, "/weir" + one.name, 64)
        c("unregister_system_shared_memory")
        c("unregister_system_shared_memory", s.name)  # a second time: nothing to do, as Triton answers


@rpc
def cuda_shared_memory_status(c):
    status = c.get("get_cuda_shared_memory_status")
    assert not (status.get("regions") if c.is_grpc else status), status


@rpc
def cuda_shared_memory_register(c):
    return refused(["CUDA", "system shared memory"], c, "register_cuda_shared_memory", "n", b"aGFuZGxl", 0, 64)


@rpc
def cuda_shared_memory_unregister(c):
    c("unregister_cuda_shared_memory")
    return refused(["CUDA"], c, "unregister_cuda_shared_memory", "n")


@rpc
def trace_setting(c):
    for model in ((), ("digits",)):
        m = c.get("get_trace_settings", *model)
        assert "OFF" in str((m["settings"] if c.is_grpc else m)["trace_level"]), m
    c("update_trace_settings", None, {"trace_level": ["OFF"]})
    refused(["nobody"], c, "get_trace_settings", "nobody")
    refused(["color"], c, "update_trace_settings", None, {"color": ["red"]})
    return refused(["tracer"], c, "update_trace_settings", None, {"trace_level": ["TIMESTAMPS"]})  # this process was given none


@rpc
def log_settings(c):
    def level():
        m = c.get("get_log_settings")
        m = m["settings"] if c.is_grpc else m
        return m["log_verbose_level"], m["log_info"]
    before = level()
    c("update_log_settings", {"log_verbose_level": 1})
    assert int(value(level()[0])) == 1, level()
    c("update_log_settings", {"log_verbose_level": 0})
    assert level() == before, (before, level())
    refused(["log_file"], c, "update_log_settings", {"log_file": "/tmp/x"})


def value(v):
    return next(iter(v.values())) if isinstance(v, dict) else v


def samples(kind):
    """Elements of a type, with its extremes, as tritonclient takes them."""
    if kind == "BYTES":
        return np.array([[b"", "grün".encode(), b"a\"b\\c\n"], [b"x" * 300, b"1", b"\xe2\x82\xac"]], dtype=object)
    if kind == "BOOL":
        return np.array([[True, False, True], [False, False, True]])
    if kind in ("FP16", "BF16", "FP32", "FP64"):
        extremes = {"FP16": 65504.0, "BF16": 3.3895313892515355e38, "FP32": 3.4028234663852886e38, "FP64": 1.7976931348623157e308}[kind]
        x = np.array([[0.1, -0.0, extremes], [1.5, -2.25, -extremes]])
        return x.astype({"FP16": np.float16, "BF16": ml_dtypes.bfloat16, "FP64": np.float64}.get(kind, np.float32))
    dt = np.dtype(kind.lower())
    return np.array([[np.iinfo(dt).min, np.iinfo(dt).max, 7], [0, 1, 100]], dt)


KINDS = ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "BF16", "FP32", "FP64", "BYTES")


def same(c, kind, x, binary_in, binary_out):
    r = c("infer", "same_" + kind.lower(), [c.input("x", kind, x, binary_in)], outputs=[c.output("y", binary_out)])
    y = r.as_numpy("y")
    if kind == "BYTES" and not binary_out and not c.is_grpc:
        y = np.array([e if isinstance(e, bytes) else e.encode() for e in y.reshape(-1)], object).reshape(y.shape)
    assert y.shape == x.shape and (y == x).all(), (kind, binary_in, binary_out, x, y)
    if "F" in kind:
        assert (np.signbit(x) == np.signbit(y)).all()


@feature("all 14 types, their extremes")
def all_types(c):
    for kind in KINDS:
        same(c, kind, samples(kind), True, True)
        same(c, kind, samples(kind)[:0], True, True)


@feature("12 types as JSON text, both ways")
def all_texts(c):
    if c.is_grpc:
        return NONE
    for kind in KINDS:
        if kind not in ("FP16", "BF16"):  # the client sends and reads these as binary data only
            for way in ((False, False), (True, False), (False, True)):
                same(c, kind, samples(kind), *way)


@feature("two inputs in any order, two outputs, one alone")
def two(c):
    a, b = RANDOM.random((2, 4, 3), np.float32)
    for inputs in ((("a", a), ("b", b)), (("b", b), ("a", a))):
        r = c("infer", "two", [c.input(n, "FP32", x) for n, x in inputs])
        assert (r.as_numpy("sum") == a + b).all() and (r.as_numpy("difference") == a - b).all()
    r = c("infer", "two", [c.input("a", "FP32", a), c.input("b", "FP32", b)], outputs=[c.output("difference", False), c.output("sum")])
    assert (r.as_numpy("sum") == a + b).all() and np.array_equal(r.as_numpy("difference"), a - b)
    r = c("infer", "two", [c.input("a", "FP32", a), c.input("b", "FP32", b)], outputs=[c.output("difference")])
    assert r.as_numpy("sum") is None and (r.as_numpy("difference") == a - b).all()


@feature("no axes; no rows; three free axes")
def shapes(c):
    y = c("infer", "scalar", [c.input("x", "FP32", np.float32(41))]).as_numpy("y")
    assert y.shape == () and y == 42, y
    for extents in ((2, 3, 4), (1, 1, 1), (0, 3, 4), (2, 0, 0), (5, 1, 7)):
        x = RANDOM.integers(-1000, 1000, extents, np.int32)
        y = c("infer", "axes", [c.input("x", "INT32", x)]).as_numpy("y")
        assert y.shape == x.shape and (y == 2 * x).all(), (x.shape, y.shape)


@feature("8 MB, odd alignment")
def large(c):
    x = RANDOM.random(2_000_000, np.float32)
    for n in (len(x), 1_999_999, 3):
        for identity in ("", "1", "12", "123"):  # moves the elements within the message
            y = c("infer", "large", [c.input("x", "FP32", x[:n])], request_id=identity, outputs=[c.output("y")]).as_numpy("y")
            assert (y == -x[:n]).all(), n


@feature("versions by policy")
def versions(c):
    x = np.ones((2, 3), np.float32)
    for name, version, want in (("latest", "", 3), ("latest", "3", 3), ("specific", "", 3), ("specific", "1", 1), ("whole", "2", 2), ("whole", "", 3)):
        r = c("infer", name, [c.input("x", "FP32", x)], model_version=version)
        assert (r.as_numpy("y") == want).all(), (name, version, r.as_numpy("y"))
    refused(["latest", "version 1"], c, "infer", "latest", [c.input("x", "FP32", x)], model_version="1")
    refused(["version x"], c, "infer", "latest", [c.input("x", "FP32", x)], model_version="x")


@feature("gzip and deflate, both ways")
def compression(c):
    image, r = c.digits()
    want = r.as_numpy("scores")
    for way in ("gzip", "deflate"):
        if c.is_grpc:
            r = c("infer", "digits", [c.input("image", "FP32", image)], compression_algorithm=way)
            assert (r.as_numpy("scores") == want).all()
            continue
        for named in ({"request_compression_algorithm": way}, {"response_compression_algorithm": way},
                      {"request_compression_algorithm": way, "response_compression_algorithm": way}):
            for binary in (True, False):
                r = c("infer", "digits", [c.input("image", "FP32", image, binary)], outputs=[c.output("scores", binary)], **named)
                assert np.array_equal(r.as_numpy("scores"), want), named


@feature("classification")
def classification(c):
    image, r = c.digits()
    scores = r.as_numpy("scores")
    for binary in (True, False):
        r = c("infer", "digits", [c.input("image", "FP32", image)], outputs=[c.output("scores", binary, class_count=3)])
        classes = r.as_numpy("scores")
        assert classes.shape == (3, 3)
        for row in range(3):
            texts = [t.decode() if isinstance(t, bytes) else t for t in classes[row]]
            assert [int(t.split(":")[1]) for t in texts] == list(np.argsort(-scores[row])[:3]), (texts, scores[row])


@feature("parameters, priority, timeout, sequence")
def parameters(c):
    c.digits(parameters={"text": "a", "number": 3, "flag": True}, priority=2, timeout=5_000_000)
    c.digits(sequence_id=7, sequence_start=True, sequence_end=True)
    c.digits(headers={"x-request-id": "a"})


def steps(c, model, kind, number, count):
    """The requests of a sequence, and what they must answer: the sums of the numbers so far."""
    identity = number if number % 2 else f"sequence {number}"
    values = [np.array([number * 100 + i], np.int32 if kind == "INT32" else np.float32) for i in range(count)]
    return [({"model_name": model, "inputs": [c.input("x", kind, v)], "sequence_id": identity, "sequence_start": i == 0, "sequence_end": i == count - 1},
             sum(values[:i + 1])) for i, v in enumerate(values)]


@feature("a hundred sequences at once, numbers and texts as IDs")
def sequences(c):
    for model, kind in (("sum_int32", "INT32"), ("sum_fp32", "FP32"), ("list", "FP32"), ("started", "FP32")):
        for turn in zip(*(steps(c, model, kind, 1 + n, 3) for n in range(100))):  # step by step, the sequences interleaved
            if c.kind == "http":
                waiting = [c.raw.async_infer(**request) for request, _ in turn[:20]]
                got = [w.get_result() for w in waiting] + [c.raw.infer(**request) for request, _ in turn[20:]]
            elif c.kind == "grpc":
                got = [c.raw.infer(**request) for request, _ in turn]
            else:
                async def all_of_them():
                    return await asyncio.gather(*(c.raw.infer(**request) for request, _ in turn))
                got = c.wait(all_of_them())
            for result, (request, want) in zip(got, turn):
                y = result.as_numpy("y")
                twice = np.float32(0) if model != "started" else np.float32(100 * turn.index((request, want)) + 100)  # its state begins with x
                assert y.dtype == want.dtype and (y == want + twice).all(), (model, request, y, want)
                assert result.as_numpy("next") is None
    refused(["sequence 1 to model 'list' must specify the START flag"], c, "infer", "list", [c.input("x", "FP32", np.ones(1, np.float32))], sequence_id=1)
    refused(["non-zero"], c, "infer", "list", [c.input("x", "FP32", np.ones(1, np.float32))])
    named = {"sequence_id": "a-b", "sequence_start": True, "outputs": [c.output("who"), c.output("next")]}
    r = c("infer", "started", [c.input("x", "FP32", np.full(1, 3, np.float32))], **named)
    assert r.as_numpy("who")[0] == b"a-b" and r.as_numpy("next")[0] == 6, r.get_response()
    m = c.get("get_model_metadata", "started")
    assert [i["name"] for i in m["inputs"]] == ["x"] and [o["name"] for o in m["outputs"]] == ["y", "who"], m


@feature("attention over a cache that grows, as numpy computes it")
def attention(c):
    queries, keys, values = models.WEIGHTS
    rounds = [[RANDOM.normal(size=(1, n, 8)).astype(np.float32) for n in (3, 1, 2, 1)] for _ in range(10)]
    for step in range(4):
        for identity, xs in enumerate(rounds, 1):
            x, past = xs[step], np.concatenate(xs[:step + 1], 1)
            y = c("infer", "attend", [c.input("x", "FP32", x)], sequence_id=identity, sequence_start=step == 0, sequence_end=step == 3).as_numpy("y")
            score = (x @ queries) @ (past @ keys).transpose(0, 2, 1)
            score = np.exp(score - score.max(-1, keepdims=True))
            assert np.allclose(y, score / score.sum(-1, keepdims=True) @ (past @ values), rtol=1e-3, atol=1e-3), (identity, step)


@feature("two sequences in a stream")
def streamed(c):
    if not c.is_grpc:
        return NONE
    pairs = [pair for both in zip(steps(c, "sum_int32", "INT32", 201, 20), steps(c, "sum_int32", "INT32", 202, 20)) for pair in both]
    answers = []
    if c.kind == "grpc":
        got = queue.Queue()
        c.raw.start_stream(lambda result, error: got.put((result, error)))
        for request, _ in pairs:
            c.raw.async_stream_infer(**request)
        answers = [got.get(timeout=20) for _ in pairs]
        c.raw.stop_stream()
    else:
        async def each():
            for request, _ in pairs:
                yield request

        async def run():
            async for pair in c.raw.stream_infer(each()):
                answers.append(pair)
        c.wait(run())
    for (result, error), (request, want) in zip(answers, pairs, strict=True):
        assert error is None and (result.as_numpy("y") == want).all(), (request, error)


@feature("shared memory, inputs and outputs")
def shared(c):
    x = RANDOM.random((2, 3), np.float32)
    y = RANDOM.random((2, 3), np.float32)
    with Shared(4096) as s, Shared(4096) as t:
        shared_memory.set_shared_memory_region(s.handle, [x, y])
        c("register_system_shared_memory", s.name, "/weir" + s.name, 4096)
        c("register_system_shared_memory", t.name, "/weir" + t.name, 4096)

        def region(name, offset, of=s, size=x.nbytes):
            i = c.module.InferInput(name, [2, 3], "FP32")
            i.set_shared_memory(of.name, size, offset)
            return i
        outputs = [c.module.InferRequestedOutput("sum"), c.module.InferRequestedOutput("difference")]
        outputs[0].set_shared_memory(t.name, x.nbytes, 64)
        outputs[1].set_shared_memory(t.name, 2 * x.nbytes, 1024)  # more than it needs
        r = c("infer", "two", [region("a", 0), region("b", x.nbytes)], outputs=outputs)
        assert (shared_memory.get_contents_as_numpy(t.handle, np.float32, [2, 3], 64) == x + y).all()
        assert (shared_memory.get_contents_as_numpy(t.handle, np.float32, [2, 3], 1024) == x - y).all()
        assert "shared_memory_region" in str(r.get_output("sum")) and t.name in str(r.get_output("sum")), r.get_output("sum")
        r = c("infer", "two", [region("a", 0), c.input("b", "FP32", y)], outputs=[outputs[0], c.output("difference")])
        assert (r.as_numpy("difference") == x - y).all()
        a = (region("a", 0), region("b", x.nbytes))
        refused(["nobody"], c, "infer", "two", [region("a", 0, type("", (), {"name": "nobody"})), a[1]])
        refused(["4096"], c, "infer", "two", [region("a", 4090), a[1]])
        refused(["bytes"], c, "infer", "two", [region("a", 0, size=8), a[1]])
        small = c.module.InferRequestedOutput("sum")
        small.set_shared_memory(t.name, 8, 0)
        refused(["sum", "24"], c, "infer", "two", list(a), outputs=[small])
        c("unregister_system_shared_memory")
        refused([s.name], c, "infer", "two", list(a))


@feature("errors that name the fault")
def errors(c):
    x = np.ones((1, 3), np.float32)
    ones = c.input("a", "FP32", x)
    refused(["nobody"], c, "infer", "nobody", [ones])
    refused(["input b"], c, "infer", "two", [ones])
    refused(["third"], c, "infer", "two", [c.input("third", "FP32", x)])
    refused(["twice"], c, "infer", "two", [ones, ones])
    refused(["FP64", "FP32"], c, "infer", "two", [c.input("a", "FP64", x.astype(np.float64)), ones])
    refused(["nothing"], c, "infer", "same_fp32", [c.input("x", "FP32", x)], outputs=[c.output("nothing")])
    refused(["x"], c, "infer", "same_fp32", [c.input("x", "FP32", np.ones((1, 4), np.float32))])
    refused(["a"], c, "infer", "two", [ones, c.input("b", "FP32", np.ones((2, 4), np.float32))])


ALL = (*("http", "http.aio", "grpc", "grpc.aio"),)


def clients(server):
    """The four clients of a server."""
    loop = asyncio.new_event_loop()
    return [Client(kind, server, loop) for kind in ALL]
