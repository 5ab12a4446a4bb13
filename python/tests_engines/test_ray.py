"""Ray: map_batches with an actor that holds one program, and Serve with a replica that does."""

from __future__ import annotations

import concurrent.futures
import json
import urllib.error
import urllib.request

import numpy
import pytest
import rows
import weir
import weir.ray

ROWS = 1_000_000


def made(batch):
    """Rows for the ids of a batch."""
    return {"id": batch["id"], "x": rows.features(batch["id"])}


class Mortal(weir.ray.Predictor):
    """An actor that may die between computing a batch and returning it, or before."""

    def __init__(self, *args, folder, **options):
        super().__init__(*args, **options)
        self._folder = folder

    def __call__(self, batch):
        rows.perhaps_die(self._folder)
        result = super().__call__(batch)
        rows.perhaps_die(self._folder)
        return result


def gathered(dataset, count, name="scores", width=rows.WIDTH):
    """The rows of a column by id, and how often each id came."""
    got, seen = numpy.zeros((count, width), numpy.float32), numpy.zeros(count, numpy.int64)
    for batch in dataset.iter_batches(batch_size=None, batch_format="numpy"):
        got[batch["id"]] = batch[name]
        numpy.add.at(seen, batch["id"], 1)
    return got, seen


def test_a_million_rows(ray):
    """Each row comes once, with the result of one process."""
    arguments = weir.ray.Predictor.arguments(rows.MODEL, batch_size=4096)
    got, seen = gathered(ray.data.range(ROWS).map_batches(made, batch_size=65536).map_batches(weir.ray.Predictor, **arguments), ROWS)
    assert (seen == 1).all()
    assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(ROWS))))


def test_batches_of_several_runs(ray):
    """An actor cuts a batch into runs, the last of which is shorter."""
    count = 2000
    arguments = {**weir.ray.Predictor.arguments(rows.MODEL, batch_size=64), "batch_size": 650}
    got, seen = gathered(ray.data.range(count).map_batches(made).map_batches(weir.ray.Predictor, **arguments), count)
    assert (seen == 1).all()
    assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(count))))


def test_killed_actors(ray, kills, tmp_path):
    """Actors that are killed during a run cost no row."""
    count = 100_000
    arguments = weir.ray.Predictor.arguments(rows.MODEL, batch_size=500, actors=2, num_cpus=0.5)
    arguments["fn_constructor_kwargs"]["folder"] = rows.lives(tmp_path / "lives", kills)
    got, seen = gathered(ray.data.range(count, override_num_blocks=50).map_batches(made).map_batches(Mortal, **arguments), count)
    assert not list((tmp_path / "lives").iterdir()), "fewer actors died than should have"
    assert (seen == 1).all()
    assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(count))))


class Told(weir.ray.Predictor):
    """An actor that tells what it holds."""

    def __init__(self, *args, **options):
        self.before = rows.status("VmRSS")
        super().__init__(*args, **options)
        self.measured = rows.usages(self._worker.program)

    def __call__(self, batch):
        import ray

        super().__call__(batch)
        parts, held = self.measured(batch["image"])
        super().__call__(batch)
        told = {
            "parts": parts, "held": held, "after": weir.usage(), "rows": len(batch["image"]), "before": self.before,
            "resident": rows.status("VmRSS"), "asked": ray.get_runtime_context().get_assigned_resources(),
        }  # fmt: skip
        return {"told": [json.dumps(told)]}


def test_memory(ray):
    """An actor's weir holds what the certificate says, and its process no more than Ray was asked for."""
    size = 512
    arguments = weir.ray.Predictor.arguments(rows.DIGITS, batch_size=size, num_cpus=2)
    assert arguments["num_cpus"] == 2
    images = ray.data.from_numpy(rows.images(numpy.arange(4 * size))).rename_columns({"data": "image"}).materialize()
    answers = [json.loads(row["told"]) for row in images.map_batches(Told, **arguments).take_all()]
    with weir.compile(rows.DIGITS, threads=2, dims={"batch": (1, size)}) as program:
        peak = program.memory.peak(batch=size)
    assert arguments["memory"] == peak + weir.ray.PROCESS
    assert [a["rows"] for a in answers] == [size] * 4
    for told in answers:
        parts, held = told["parts"], told["held"]
        assert held["arenas_bytes"] == parts["arena"] and held["outputs_bytes"] == parts["outputs"]
        assert held["scratch_bytes"] == 2 * parts["scratch"] and held["code_bytes"] == parts["code"]
        assert 0 <= held["weights_bytes"] - parts["weights"] < 64  # they begin at multiples of 64 bytes
        assert held["tensors_bytes"] == held["files_bytes"] == held["foreign_bytes"] == 0
        assert held["current_bytes"] - (held["weights_bytes"] - parts["weights"]) == peak, "to the byte"
        assert told["after"]["outputs_bytes"] == 0, "Ray's rows are copies, so weir holds no result"
        assert told["asked"] == {"CPU": 2.0, "memory": float(peak + weir.ray.PROCESS)}
        assert told["before"] <= weir.ray.PROCESS, "a process without a model takes more than weir.ray.PROCESS"
        assert told["resident"] <= peak + weir.ray.PROCESS
    mib = {name: f"{bytes / (1 << 20):.1f}" for name, bytes in
           {"weir": peak, "engine": answers[0]["before"], "resident": max(a["resident"] for a in answers)}.items()}  # fmt: skip
    print(f"\nRay, an actor in MiB: {mib['weir']} of weir, {mib['engine']} before it had a model, {mib['resident']} resident at the end")


def test_columns():
    """Columns that are no inputs stay, and inputs may have other names. No Ray is needed for that."""
    predictor = weir.ray.Predictor(rows.TWO, batch_size=4, inputs={"y": "weight"})
    x = numpy.arange(60, dtype=numpy.float32).reshape(10, 2, 3)
    got = predictor({"x": x, "weight": x[:, 0, 1], "label": numpy.arange(10)})
    assert list(got) == ["label", "double", "square"]
    assert numpy.array_equal(got["double"], 2 * x) and numpy.array_equal(got["square"], x[:, 0, 1] ** 2)
    with pytest.raises(weir.InputError, match="no column 'weight'"):
        predictor({"x": x, "y": x[:, 0, 1]})
    with pytest.raises(weir.InputError, match="name of an output"):
        predictor({"x": x, "weight": x[:, 0, 1], "double": x})
    with pytest.raises(weir.InputError, match="no input 'z'"):
        weir.ray.Predictor(rows.TWO, batch_size=4, inputs={"z": "weight"})


def test_an_actor_that_would_take_more():
    arguments = weir.ray.Predictor.arguments(rows.MODEL, batch_size=64)
    options = {**arguments["fn_constructor_kwargs"], "batch_size": 640}
    with pytest.raises(weir.BudgetError, match="asked for"):
        weir.ray.Predictor(*arguments["fn_constructor_args"], **options)


def post(url, body):
    request = urllib.request.Request(url, body if isinstance(body, bytes) else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_serve(ray):
    """A deployment answers arrays by its handle, and JSON over HTTP; bad requests get errors, and leave others alone."""
    from ray import serve

    serve.start(http_options={"host": "127.0.0.1", "port": 8127})
    try:
        handle = serve.run(weir.ray.deployment(rows.DIGITS, batch_size=64, num_cpus=0.5, wait=0.02), route_prefix="/digits")
        x = rows.images(numpy.arange(500))
        want = rows.alone(rows.DIGITS, x)
        cuts = [0, 1, 2, 5, 6, 100, 300, 301, 302, 303, 500]
        pairs = list(zip(cuts, cuts[1:]))
        answers = [handle.remote({"image": x[i:j]}) for i, j in pairs]
        wrong = handle.remote({"image": x[:3, :, :7]})
        for (i, j), answer in zip(pairs, answers):
            assert numpy.allclose(answer.result(timeout_s=120)["scores"], want[i:j], rtol=1e-5, atol=1e-6)
        with pytest.raises(Exception, match="has float32 of the shape"):
            wrong.result(timeout_s=120)
        url = "http://127.0.0.1:8127/digits"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: post(url, {"image": x[i : i + 1].tolist()}), range(32)))
        assert numpy.allclose(numpy.concatenate([a["scores"] for a in answers]), want[:32], rtol=1e-5, atol=1e-6)
        for body, words in (({"image": [[1, 2]]}, "shape"), ({"pixels": [1]}, "no input 'pixels'"), ([], "JSON object"),
                            ({}, "no column"), (b"{", "Expecting")):  # fmt: skip
            with pytest.raises(urllib.error.HTTPError) as refused:
                post(url, body)
            assert refused.value.code == 400 and words in json.load(refused.value)["error"]
    finally:
        serve.shutdown()


def test_texts(ray):
    """A folder of a model of texts: each actor has one, and its vectors are those of one process."""
    count = 2000
    arguments = weir.ray.Predictor.arguments(rows.TEXTS, batch_size=64, actors=2, num_cpus=0.5)
    data = ray.data.range(count).map_batches(lambda batch: {"id": batch["id"], "text": rows.texts(batch["id"])})
    got, seen = gathered(data.map_batches(weir.ray.Predictor, **arguments), count, "vector", 32)
    assert (seen == 1).all()
    with weir.load_embedder(rows.TEXTS, threads=1) as embedder:
        assert arguments["memory"] == embedder.memory.held + embedder.memory.tokenizer + weir.ray.PROCESS
        assert abs(got - embedder(rows.texts(range(count))).numpy()).max() < 1e-5
