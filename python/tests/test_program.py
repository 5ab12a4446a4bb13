"""Programs, called as users call them."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest
import weir

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits" / "data" / "digits.onnx"

ADD = b"""weir 1
ir @add {
  dim n in [0, 100000000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    return %sum
  }
}
"""

TWO = b"""weir 1
ir @two {
  main @main(%x: f32[3], %y: f32[3]) {
    %sum: f32[3] = add(%x, %y)
    %product: f32[3] = mul(%x, %y)
    return %sum, %product
  }
}
"""


def array(*x: float) -> numpy.ndarray:
    return numpy.array(x, numpy.float32)


def test_digits():
    with weir.load(DIGITS) as model:
        assert [str(p) for p in model.inputs] == ["image: f32[batch,1,8,8]"]
        program = weir.compile(model)
    rng = numpy.random.default_rng(0)
    x = rng.random((3, 1, 8, 8), numpy.float32)
    whole = program(x).numpy()
    assert whole.shape[0] == 3
    for i in range(3):
        numpy.testing.assert_allclose(program(x[i : i + 1]).numpy()[0], whole[i], rtol=1e-5, atol=1e-6)
    assert program.dims[0].name == "batch"
    names = {"batch": 3, "ceildiv": lambda a, b: -(-a // b), "max": max, "min": min}
    assert eval(program.memory.formula, names) == program.memory.peak(batch=3)
    assert "weights" in program.memory.parts and str(program.memory.peak(batch=3)) not in ("0", "")


def test_arguments():
    p = weir.compile(ADD)
    x, y = array(1, 2, 3), array(10, 20, 30)
    for got in (p(x, y), p(x, y=y), p(y=y, x=x), p([1, 2, 3], y), p(weir.from_dlpack(x), y), p(x, (10, 20, 30))):
        assert got.tolist() == [11, 22, 33]
    assert p(x[::-1], y).tolist() == [13, 22, 31]
    assert p(numpy.ones((5, 7), numpy.float32)[:3, 2], y).tolist() == [11, 21, 31]
    assert p(x[:0], y[:0]).shape == (0,)
    frozen = array(1, 1, 1)
    frozen.flags.writeable = False
    assert p(frozen, y).tolist() == [11, 21, 31]


@pytest.mark.parametrize(
    "args, named, words",
    [
        ((array(1),), {}, "y"),
        ((array(1), array(1), array(1)), {}, "3 arguments"),
        ((array(1), array(1)), {"y": array(1)}, "by position and by name"),
        ((array(1),), {"z": array(1)}, "no input 'z'"),
        ((array(1), array(1, 2)), {}, "n"),
        ((array(1), numpy.ones(1)), {}, "f64"),
        ((array(1), numpy.ones((1, 1), numpy.float32)), {}, "expected"),
        ((array(1), None), {}, "y"),
        ((array(1), object()), {}, "y"),
        ((array(1), "word"), {}, "y"),
    ],
)
def test_wrong_arguments(args, named, words):
    p = weir.compile(ADD)
    with pytest.raises(weir.InputError, match=words):
        p(*args, **named)
    assert p(array(1), array(2)).tolist() == [3]


def test_results():
    p = weir.compile(TWO)
    r = p(array(1, 2, 3), array(4, 5, 6))
    assert len(r) == 2 and r["product"].tolist() == [4, 10, 18] and r[0].tolist() == [5, 7, 9]
    total, product = r
    assert list(r.asdict()) == ["sum", "product"] and product is r[1] and total is r["sum"]
    with pytest.raises(KeyError):
        r["none"]
    kept = [p(array(i, i, i), array(1, 1, 1)) for i in range(50)]
    assert [k[0].tolist() for k in kept] == [[i + 1] * 3 for i in range(50)]
    p.close()
    assert kept[7]["product"].tolist() == [7, 7, 7], "results outlive their program"


def test_ownership():
    p = weir.compile(ADD)
    x = weir.from_dlpack(array(1, 2, 3))
    assert p(weir.consume(x), array(1, 1, 1)).tolist() == [2, 3, 4]
    assert x.closed
    with pytest.raises(weir.ClosedError):
        p(x, array(1, 1, 1))
    y = p(array(1, 2, 3), array(1, 1, 1))
    at = y.data_ptr
    z = p(weir.donate(y), array(1, 1, 1))
    assert z.data_ptr == at and z.tolist() == [3, 4, 5]
    view = z.numpy()
    with pytest.raises(weir.InputError, match="held by others"):
        p(weir.consume(z), array(1, 1, 1))
    assert view.tolist() == [3, 4, 5] and not z.closed
    del view
    assert p(weir.consume(z), array(1, 1, 1)).tolist() == [4, 5, 6]
    assert p(weir.consume(array(1, 2, 3)), array(1, 1, 1)).tolist() == [2, 3, 4]
    p.close()
    assert weir.usage()["foreign_bytes"] == 0


def test_states():
    p = weir.compile(ADD, states={"x": "sum"})
    assert p.inputs[0].state == "sum"
    x = array(1, 2, 3)
    for _ in range(3):
        assert p(weir.update(x), array(1, 1, 1)) is x
    assert x.tolist() == [4, 5, 6]
    x.flags.writeable = False
    with pytest.raises(weir.InputError, match="read"):
        p(weir.update(x), array(1, 1, 1))
    with pytest.raises(weir.Error):
        p(weir.update(numpy.ones(6, numpy.float32)[::2]), array(1, 1, 1))


def test_errors():
    with pytest.raises(weir.Error) as caught:
        weir.load("/nowhere/model.onnx")
    assert "/nowhere/model.onnx" in str(caught.value)
    for bad in (b"", b"rubbish", b"weir 1\nir @x {", b"\x08\x07"):
        with pytest.raises(weir.Error):
            weir.load(bad)
    with pytest.raises(weir.BudgetError) as refused:
        weir.compile(DIGITS, budget=1000, dims={"batch": (1, 8)})
    assert isinstance(refused.value, MemoryError) and refused.value.kind == "budget" and refused.value.fix
    for wrong in ({"target": "abacus"}, {"precision": "f3"}, {"dims": {"nothing": 3}}, {"threads": -1}, {"calls": -1}, {"outputs": ["no"]}):
        with pytest.raises(weir.Error):
            weir.compile(ADD, **wrong)
    p = weir.compile(ADD)
    p.close()
    p.close()
    with pytest.raises(weir.ClosedError):
        p(array(1), array(1))
    with pytest.raises(weir.ClosedError):
        p.memory.peak(n=3)
    assert issubclass(weir.UnsupportedError, NotImplementedError)


def test_saved(tmp_path):
    weir.compile(TWO).save(tmp_path / "two.weir")
    assert os.listdir(tmp_path) == ["two.weir"]
    p = weir.compile(tmp_path / "two.weir")
    assert p(array(1, 2, 3), array(1, 1, 1))[0].tolist() == [2, 3, 4]
    with pytest.raises(weir.Error):
        p.save(tmp_path / "no" / "such")


def test_threads():
    p = weir.compile(ADD, calls=2)
    failures = []

    def work(seed: int) -> None:
        rng = numpy.random.default_rng(seed)
        for _ in range(200):
            n = int(rng.integers(1, 500))
            x, y = rng.random(n, numpy.float32), rng.random(n, numpy.float32)
            if not numpy.array_equal(p(x, y).numpy(), x + y):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_memory_is_flat():
    p = weir.compile(ADD)
    x = numpy.ones(1000, numpy.float32)
    for _ in range(500):
        p(x, x)
    before = weir.usage()
    for _ in range(20_000):
        p(x, x)
    after = weir.usage()
    assert {k: after[k] - before[k] for k in after if k != "peak_bytes"} == {k: 0 for k in after if k != "peak_bytes"}


def test_limit():
    p = weir.compile(ADD)
    before = weir.set_limit(weir.usage()["current_bytes"] + (8 << 20))
    try:
        with pytest.raises(weir.OutOfMemoryError):
            p(numpy.ones(1 << 24, numpy.float32), numpy.ones(1 << 24, numpy.float32))
    finally:
        weir.set_limit(before)
    assert p(array(1), array(1)).tolist() == [2]


def run(code: str, **kwargs) -> subprocess.CompletedProcess:
    """Runs code in an interpreter of its own, in development mode."""
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(code)], cwd="/",
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path}, **kwargs,
    )  # fmt: skip


def test_fork():
    done = run(
        f"""
        import os, weir, numpy, warnings
        warnings.simplefilter("ignore")
        x = numpy.ones(3, numpy.float32)
        p = weir.compile({ADD!r})
        t = weir.from_dlpack(x)
        y = p(x, x).numpy()
        child = os.fork()
        if child == 0:
            try:
                p(x, x)
            except weir.ClosedError as error:
                assert "fork" in str(error), error
                del p, t, y
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(p(x, x).tolist())
        """
    )
    assert done.returncode == 0 and done.stdout.strip() == "[2.0, 2.0, 2.0]", done.stderr


def test_fork_before_the_first_use():
    done = run(
        f"""
        import os, weir, numpy
        child = os.fork()
        x = numpy.ones(3, numpy.float32)
        assert weir.compile({ADD!r})(x, x).tolist() == [2, 2, 2]
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """
    )
    assert done.returncode == 0, done.stderr


def test_exit_with_everything_open():
    done = run(
        f"""
        import weir, numpy
        x = numpy.ones(3, numpy.float32)
        p = weir.compile({ADD!r})
        t = weir.from_dlpack(x)
        y = p(x, x).numpy()
        z = [p(x, x) for _ in range(10)]
        capsule = t.__dlpack__(max_version=(1, 0))
        class Cycle: pass
        c = Cycle(); c.self, c.t = c, weir.from_dlpack(x)
        """
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr


LOOP = """
import weir, numpy, signal, time, os, threading
text = b'''weir 1
ir @long {
  main @main(%x: f32[2000,2000]) {
ROWS
    return %y300
  }
}
'''
rows = "\\n".join(f"    %y{i}: f32[2000,2000] = matmul(%{'x' if i == 0 else f'y{i-1}'}, %x)" for i in range(301))
p = weir.compile(text.replace(b"ROWS", rows.encode()), threads=1)
x = numpy.zeros((2000, 2000), numpy.float32)
"""


def test_interrupt():
    done = run(
        LOOP
        + """
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.time()
try:
    p(x)
except KeyboardInterrupt:
    took = time.time() - begin
    assert took < 10, took
    print("interrupted")
class Mine(Exception): pass
def handler(*_): raise Mine("mine")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    p(x)
except Mine as error:
    print(error)
signal.signal(signal.SIGALRM, lambda *_: print("heard"))
signal.setitimer(signal.ITIMER_REAL, 0.1)
q = weir.compile(b'''weir 1
ir @few {
  main @main(%x: f32[2000,2000]) {
    %a: f32[2000,2000] = matmul(%x, %x)
    %b: f32[2000,2000] = matmul(%a, %x)
    %c: f32[2000,2000] = matmul(%b, %x)
    %d: f32[2000,2000] = matmul(%c, %x)
    %e: f32[2000,2000] = matmul(%d, %x)
    %f: f32[2000,2000] = matmul(%e, %x)
    return %f
  }
}
''')
print(q(x).shape)
"""
    )
    lines = done.stdout.split("\n")
    assert lines[:2] == ["interrupted", "mine"] and "heard" in lines and "(2000, 2000)" in lines, (done.stdout, done.stderr)


def test_usage_is_plain():
    json.dumps(weir.usage())
    assert weir.trim() >= 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "weir leaves signals alone"
    assert time.time() > 0


def test_states_that_a_model_updates():
    """Buffers of a .pt2 file: the program keeps them from call to call, or the caller does."""
    folder = DIGITS.parents[3] / "testdata" / "torch"
    told = json.loads((folder / "states.json").read_text())
    program = weir.compile(folder / "states.pt2")
    own = [p for p in program.inputs if p.initial]
    users = [p for p in program.inputs if not p.initial]
    inputs = [
        numpy.array(given["values"], p.dtype.replace("f", "float").replace("i", "int")).reshape(given["shape"])
        for p, given in zip(users, told["inputs"])
    ]
    assert own and all(p.state for p in own)
    for step in told["steps"]:
        results = program(*inputs)
        assert len(results) == len(step["outputs"])
        for result, want in zip(results, step["outputs"]):
            numpy.testing.assert_allclose(result.numpy(), numpy.reshape(want["values"], want["shape"]), rtol=1e-4, atol=1e-4)
        result = results = None
    state = next(p for p in own if p.dtype == "f32")
    mine = numpy.zeros(state.shape, numpy.float32)
    results = program(*inputs, **{state.name: weir.update(mine)})
    assert results[state.state] is mine and mine.any()
    program.close()


def test_graphs_without_torch():
    """The list of torch.compile's graphs is empty in a process that compiles none."""
    assert weir.graphs() == []
