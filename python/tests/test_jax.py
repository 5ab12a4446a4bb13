"""Arrays of JAX, in and out by DLPack."""

from __future__ import annotations

import gc

import numpy
import pytest
import weir

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    missing = f"JAX IS NOT INSTALLED ({error}): nothing here says that its arrays come and go; pip install jax"
    pytest.skip(missing, allow_module_level=True)

TWO = b"""weir 1
ir @two {
  dim n in [0, 1000000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    %product: f32[n] = mul(%x, %y)
    return %sum, %product
  }
}
"""
TYPES = {
    "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "complex64": "c64", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
}  # fmt: skip


def held():
    gc.collect()
    told = weir.usage()
    return {name: told[name] for name in ("handles", "exported", "foreign_bytes", "tensors_bytes", "outputs_bytes")}


@pytest.fixture(scope="module", autouse=True)
def processor():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
def test_there_and_back(dtype, shape):
    before = held()
    x = (jnp.arange(numpy.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    t = weir.from_dlpack(x)
    assert (t.dtype, t.shape) == (TYPES[dtype], shape)
    back = jnp.from_dlpack(t)
    assert back.dtype == x.dtype and back.shape == shape and bool((back == x).all())
    t.close()
    assert bool((back == x).all())
    del x, t, back
    assert held() == before


def test_no_copy():
    x = jnp.arange(1000, dtype=jnp.float32)
    t = weir.from_dlpack(x)
    assert t.data_ptr == x.unsafe_buffer_pointer()
    z = weir.zeros((1000,))
    y = jnp.from_dlpack(z)
    assert y.unsafe_buffer_pointer() == z.data_ptr and weir.usage()["exported"] == 1


def test_run():
    before = held()
    program = weir.compile(TWO)
    x, y = jnp.arange(6, dtype=jnp.float32), jnp.full(6, 2, jnp.float32)
    total, product = program(x, y=y)
    got = jax.jit(lambda a, b: a - b)(jnp.from_dlpack(total), jnp.from_dlpack(product))
    assert got.tolist() == [(i + 2) - 2 * i for i in range(6)]
    program.close()
    del total, product, program, got
    assert held() == before


def test_arrays_that_live_on():
    """JAX reads results after their program is closed, and weir's tensors after they are closed."""
    program = weir.compile(TWO)
    x = jnp.ones(4, jnp.float32)
    with weir.Scope():
        kept = [jnp.from_dlpack(t) for t in program(x, x)]
    program.close()
    assert [k.tolist() for k in kept] == [[2] * 4, [1] * 4]


def test_many():
    before = held()
    x = jnp.ones(64, jnp.float32)
    for _ in range(2000):
        y = jnp.from_dlpack(weir.from_dlpack(x))
    del y
    assert held() == before


def test_wrong_shapes():
    with weir.compile(TWO) as program, pytest.raises(weir.InputError):
        program(jnp.ones((2, 2)), jnp.ones((2, 2)))
