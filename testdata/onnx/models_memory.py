"""Cases about memory: what is kept for long."""
import numpy as np
from make_models import Case, case, normal


@case
def training_step(rng):
    """one step of training eight layers, written out: forward, backward and update; every layer's result is kept until its gradient is computed"""
    layers, width = 8, 16
    weights = ", ".join(f"float[{width},{width}] w{i}" for i in range(layers))
    updated = ", ".join(f"float[{width},{width}] u{i}" for i in range(layers))
    lines = ["h0 = Identity (x)"]
    for i in range(layers):
        lines += [f"s{i} = MatMul (h{i}, w{i})", f"h{i + 1} = Tanh (s{i})"]
    lines += [f"e = Sub (h{layers}, y)", "l2 = Mul (e, e)", "loss = ReduceMean <keepdims = 0> (l2)", f"g{layers} = Mul (e, scale)"]
    for i in reversed(range(layers)):
        # tanh' = 1 - tanh²
        lines += [f"q{i} = Mul (h{i + 1}, h{i + 1})", f"p{i} = Sub (one, q{i})", f"d{i} = Mul (g{i + 1}, p{i})", f"t{i} = Transpose <perm = [1, 0]> (h{i})",
                  f"dw{i} = MatMul (t{i}, d{i})", f"r{i} = Mul (dw{i}, rate)", f"u{i} = Sub (w{i}, r{i})"]
        if i > 0:
            lines += [f"v{i} = Transpose <perm = [1, 0]> (w{i})", f"g{i} = MatMul (d{i}, v{i})"]
    return Case("g (float[n,16] x, float[n,16] y, " + weights + ") => (float loss, " + updated + ") {\n" + "\n".join(lines) + "\n}",
        {"scale": np.float32(0.1), "one": np.float32(1), "rate": np.float32(0.5)},
        [{"x": normal(rng, n, 16), "y": normal(rng, n, 16), **{f"w{i}": normal(rng, width, width, scale=0.3) for i in range(layers)}} for n in (3, 256)])


@case
def long_skips(rng):
    """six results that are each read again much later, in reverse order, between convolutions: a net in the form of a U, without the sampling"""
    depth = 6
    lines = ["a0 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, first)"]
    for i in range(depth):
        lines += [f"b{i} = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a{i}, down{i})", f"a{i + 1} = Sigmoid (b{i})"]
    lines.append(f"z{depth} = Identity (a{depth})")
    for i in reversed(range(depth)):
        lines += [f"y{i} = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (z{i + 1}, up{i})", f"z{i} = Add (y{i}, a{i})"]
    lines.append("y = Relu (z0)")
    return Case("g (float[n,4,20,24] x) => (float[n,8,20,24] y) {\n" + "\n".join(lines) + "\n}",
        {"first": normal(rng, 8, 4, 3, 3, scale=0.2), **{f"{way}{i}": normal(rng, 8, 8, 3, 3, scale=0.1) for way in ("down", "up") for i in range(depth)}},
        [{"x": normal(rng, n, 4, 20, 24)} for n in (1, 2)])


@case
def training_forward(rng):
    """the forward half of training: three layers, each of whose results is an output, kept for the backward half"""
    lines = ["h0 = Identity (x)"]
    for i in range(3):
        lines += [f"s{i} = MatMul (h{i}, w{i})", f"h{i + 1} = Tanh (s{i})"]
    return Case("g (float[n,16] x, float[16,16] w0, float[16,16] w1, float[16,16] w2) => (float[n,16] h1, float[n,16] h2, float[n,16] h3) {\n" + "\n".join(lines) + "\n}", {},
        [{"x": normal(rng, n, 16), **{f"w{i}": normal(rng, 16, 16, scale=0.3) for i in range(3)}} for n in (3, 8)])


@case
def training_backward(rng):
    """the backward half of training: it reads what the forward half kept, each for the last time where its layer's gradient is computed"""
    lines = ["e = Sub (h3, y)", "g3 = Mul (e, scale)"]
    for i in reversed(range(3)):
        before = "x" if i == 0 else f"h{i}"
        lines += [f"q{i} = Mul (h{i + 1}, h{i + 1})", f"p{i} = Sub (one, q{i})", f"d{i} = Mul (g{i + 1}, p{i})", f"t{i} = Transpose <perm = [1, 0]> ({before})",
                  f"r{i} = MatMul (t{i}, d{i})", f"u{i} = Sub (w{i}, r{i})"]
        if i > 0:
            lines += [f"v{i} = Transpose <perm = [1, 0]> (w{i})", f"g{i} = MatMul (d{i}, v{i})"]
    return Case("g (float[n,16] x, float[n,16] y, float[n,16] h1, float[n,16] h2, float[n,16] h3, float[16,16] w0, float[16,16] w1, float[16,16] w2)"
        " => (float[16,16] u0, float[16,16] u1, float[16,16] u2) {\n" + "\n".join(lines) + "\n}", {"scale": np.float32(0.1), "one": np.float32(1)},
        [{"x": normal(rng, n, 16), "y": normal(rng, n, 16), **{f"h{i}": np.tanh(normal(rng, n, 16)).astype(np.float32) for i in (1, 2, 3)},
          **{f"w{i}": normal(rng, 16, 16, scale=0.3) for i in range(3)}} for n in (3, 8)])


@case
def image_rows(rng):
    """images of a batch that has a name, through windows of many kinds: convolutions with strides, dilations, groups and uneven padding, poolings, an enlargement and a transposed convolution; rows are best kept a few at a time"""
    weights = {"a": normal(rng, 32, 3, 3, 3, scale=0.3), "b": normal(rng, 32, 32, 3, 3, scale=0.08), "c": normal(rng, 32, 1, 3, 3, scale=0.4), "d": normal(rng, 32, 16, 5, 3, scale=0.08),
               "e": normal(rng, 32, 16, 2, 2, scale=0.2), "f": normal(rng, 4, 16, 3, 3, scale=0.2), "scales": np.array([1, 1, 2, 2], np.float32)}
    return Case("""g (float[n,3,44,12] x) => (float[n,4,88,24] y) {
a1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, a)
a2 = Relu (a1)
b1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a2, b)
b2 = Relu (b1)
c1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 32> (b2, c)
c2 = HardSwish (c1)
p1 = MaxPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0]> (c2)
d1 = Conv <kernel_shape = [5, 3], dilations = [2, 1], pads = [5, 1, 3, 1], group = 2> (p1, d)
d2 = Sigmoid (d1)
p2 = AveragePool <kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]> (d2)
r1 = Resize <mode = "linear"> (p2, , scales)
s1 = Add (r1, c2)
e1 = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (s1, e)
e2 = Relu (e1)
y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (e2, f)
}""", weights, [{"x": normal(rng, n, 3, 44, 12)} for n in (1, 2)],
        settings={"atol": 1e-5, "why": "sums of products of either sign, some of which come to nearly nothing"})


@case
def tied_table(rng):
    """a table that is read by rows, by tokens that may count from the end, and is the output projection too; between the two a layer, of a free number of tokens"""
    return Case("""g (int64[n] tokens) => (float[n,611] scores) {
          rows = Gather (table, tokens)
          known = LayerNormalization (rows, scale, shift)
          wide = MatMul (known, up)
          biased = Add (wide, bias)
          bent = Gelu (biased)
          narrow = MatMul (bent, down)
          sum = Add (rows, narrow)
          projection = Transpose <perm = [1, 0]> (table)
          scores = MatMul (sum, projection)
        }""",
        {"table": normal(rng, 611, 48), "scale": normal(rng, 48), "shift": normal(rng, 48), "up": normal(rng, 48, 192, scale=0.2), "bias": normal(rng, 192), "down": normal(rng, 192, 48, scale=0.2)},
        [{"tokens": np.array(tokens, np.int64)} for tokens in ([3, -1, 610, -611, 3], [], range(-20, 20))],
        settings={"atol": 1e-4, "why": "scores near 0 are what is left of sums of numbers around 100"})
