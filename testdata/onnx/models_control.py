"""Cases about control flow and about how a file is put together: branches, loops, functions, external data, old opsets."""
import os

import numpy as np
import onnx
from make_models import Case, case, ints, normal
from onnx import TensorProto, external_data_helper, helper


@case
def if_captured(rng):
    """If whose branches read values and weights of the outer graph, one branch only handing a captured value on"""
    return Case("""
g (bool choose, float[n,3] x) => (float[n,3] y, float[n] z) {
  a = Mul (x, weight)
  y, z = If (choose) <
    then_branch = t () => (float[n,3] ty, float[n] tz) {
      ty = Add (a, x)
      axis = Constant <value_ints = [1]> ()
      tz = ReduceSum <keepdims = 0> (ty, axis)
    },
    else_branch = e () => (float[n,3] ey, float[n] ez) {
      ey = Identity (a)
      axis = Constant <value_ints = [1]> ()
      ez = ReduceMax <keepdims = 0> (x, axis)
    }>
}""", {"weight": normal(rng, 3)}, [{"choose": np.bool_(c), "x": normal(rng, n, 3)} for c, n in ((True, 2), (False, 4))])


@case
def if_shapes(rng):
    """If whose branches give results of different sizes: the sizes after it are bounded, not known"""
    return Case("""
g (float[n] x) => (float[k] y, float total) {
  zero = Constant <value_float = 0.0> ()
  sum = ReduceSum <keepdims = 0> (x)
  positive = Greater (sum, zero)
  y = If (positive) <
    then_branch = t () => (float[k1] ty) { ty = Concat <axis = 0> (x, x) },
    else_branch = e () => (float[k2] ey) { one = Constant <value_ints = [1]> ()  end = Constant <value_ints = [100]> ()  ey = Slice (x, one, end) }>
  total = ReduceMean <keepdims = 0> (y)
}""", data=[{"x": np.array(v, np.float32)} for v in ([1, 2, 3], [-1, -2, -3, -4])])


@case
def loop_scan_outputs(rng):
    """Loop over a fixed count: two carried values, one of them unchanged in shape, two scan outputs, a captured weight"""
    return Case("""
g (float[n] x, float s) => (float[n] final, float count, float[5,n] steps, float[5] sums) {
  trips = Constant <value_int = 5> ()
  go = Constant <value = bool {1}> ()
  final, count, steps, sums = Loop (trips, go, x, s) <
    body = b (int64 i, bool keep, float[n] v, float c) => (bool more, float[n] v1, float c1, float[n] step, float sum) {
      more = Identity (keep)
      scaled = Mul (v, decay)
      v1 = Add (scaled, x)
      one = Constant <value_float = 1.0> ()
      c1 = Add (c, one)
      step = Neg (v1)
      f = Cast <to = 1> (i)
      r = ReduceSum <keepdims = 0> (v1)
      sum = Mul (r, f)
    }>
}""", {"decay": np.float32(0.5)}, [{"x": normal(rng, n), "s": np.float32(2)} for n in (3, 1)])


@case
def loop_dynamic_trips(rng):
    """Loop whose trip count is an input (0 among them) and which stops early on its own condition"""
    def rows(inputs, results):  # of no trips onnxruntime gives [0,0], though a step's shape is declared
        return [results[0], results[1].reshape(-1, len(inputs["x"])), results[2]]
    return Case("""
g (int64 trips, float limit, float[n] x) => (float[n] final, float[t,n] steps, int64[t] index) {
  go = Constant <value = bool {1}> ()
  final, steps, index = Loop (trips, go, x) <
    body = b (int64 i, bool keep, float[n] v) => (bool more, float[n] v1, float[n] step, int64 at) {
      v1 = Add (v, v)
      step = Identity (v1)
      at = Identity (i)
      magnitude = Abs (v1)
      top = ReduceMax <keepdims = 0> (magnitude)
      more = Less (top, limit)
    }>
}""", data=[{"trips": np.int64(t), "limit": np.float32(l), "x": normal(rng, n)} for t, l, n in ((4, 1e9, 3), (9, 10, 2), (0, 1, 2), (1, 0, 1))], amend=rows)


@case
def loop_while(rng):
    """Loop without a trip count, its condition an input: Newton's iteration for a square root"""
    return Case("""
g (bool go, float[n] x) => (float[n] root, int64 steps) {
  zero = Constant <value_int = 0> ()
  root, steps = Loop ( , go, x, zero) <
    body = b (int64 i, bool keep, float[n] v, int64 k) => (bool more, float[n] v1, int64 k1) {
      q = Div (x, v)
      s = Add (v, q)
      half = Constant <value_float = 0.5> ()
      v1 = Mul (s, half)
      one = Constant <value_int = 1> ()
      k1 = Add (k, one)
      d = Sub (v1, v)
      a = Abs (d)
      worst = ReduceMax <keepdims = 0> (a)
      small = Constant <value_float = 1e-3> ()
      more = Greater (worst, small)
    }>
}""", data=[{"go": np.bool_(True), "x": np.array([4, 2, 9], np.float32)}, {"go": np.bool_(False), "x": np.array([4], np.float32)}])


@case
def if_in_loop(rng):
    """If nested in Loop nested in If: captures across two levels, the trip's number decides the branch"""
    return Case("""
g (bool run, int64 trips, float[n] x, float[n] up) => (float[n] y) {
  y = If (run) <
    then_branch = t () => (float[n] ty) {
      go = Constant <value = bool {1}> ()
      ty = Loop (trips, go, x) <
        body = b (int64 i, bool keep, float[n] v) => (bool more, float[n] v1) {
          more = Identity (keep)
          two = Constant <value_int = 2> ()
          odd0 = Mod (i, two)
          odd = Cast <to = 9> (odd0)
          v1 = If (odd) <
            then_branch = o () => (float[n] ov) { ov = Add (v, up) },
            else_branch = p () => (float[n] pv) { pw = Mul (v, up)  pv = Sub (pw, x) }>
        }>
    },
    else_branch = e () => (float[n] ey) { ey = Neg (x) }>
}""", data=[{"run": np.bool_(r), "trips": np.int64(t), "x": normal(rng, n), "up": normal(rng, n)} for r, t, n in ((True, 5, 3), (True, 0, 2), (False, 3, 1))])


@case
def loop_growing(rng):
    """Loop whose carried value grows by a row each trip: a size bounded only by the trip count"""
    return Case("""
g (int64 trips, float[1,k] x) => (float[m,k] y) {
  go = Constant <value = bool {1}> ()
  y = Loop (trips, go, x) <
    body = b (int64 i, bool keep, float[a,k] v) => (bool more, float[c,k] v1) {
      more = Identity (keep)
      axis = Constant <value_ints = [0]> ()
      row = ReduceSum <keepdims = 1> (v, axis)
      v1 = Concat <axis = 0> (v, row)
    }>
}""", data=[{"trips": np.int64(t), "x": normal(rng, 1, 2)} for t in (3, 0)])


@case
def loop_growing_data(rng):
    """Loop without a trip count whose carried value becomes twice as long each trip, as long as its sum is small: nothing bounds its size"""
    return Case("""
g (float[k] x, float most) => (float[m] y, int64 trips) {
  go = Constant <value = bool {1}> ()
  zero = Constant <value_int = 0> ()
  y, trips = Loop ( , go, x, zero) <
    body = b (int64 i, bool keep, float[a] v, int64 n) => (bool more, float[c] v1, int64 n1) {
      half = Constant <value_float = 0.75> ()
      w = Mul (v, half)
      v1 = Concat <axis = 0> (v, w)
      sum = ReduceSum <keepdims = 0> (v1)
      more = Less (sum, most)
      one = Constant <value_int = 1> ()
      n1 = Add (n, one)
    }>
}""", data=[{"x": np.abs(normal(rng, k)), "most": np.float32(m)} for k, m in ((3, 200), (1, 0.1), (2, 5000))])


@case
def loop_shapes(rng):
    """Loop whose carried values shrink, are exchanged, and grow by what the trip's number says; trip counts below 0, of 0, and computed"""
    return Case("""
g (int64 trips, float[n,2] x, float[k] a, float[l] b) => (float[m,2] y, float[c] p, float[d] q, float[e] r) {
  one = Constant <value_int = 1> ()
  count = Mul (trips, one)
  go = Constant <value = bool {1}> ()
  start = Constant <value_floats = [1.0]> ()
  y, p, q, r = Loop (count, go, x, a, b, start) <
    body = s (int64 i, bool keep, float[n1,2] xi, float[k1] ai, float[l1] bi, float[e1] ri) => (bool more, float[n2,2] xo, float[k2] ao, float[l2] bo, float[e2] ro) {
      more = Identity (keep)
      from = Constant <value_ints = [1]> ()
      to = Constant <value_ints = [1000]> ()
      xo = Slice (xi, from, to)
      ao = Neg (bi)
      bo = Identity (ai)
      axis = Constant <value_ints = [0]> ()
      size = Unsqueeze (i, axis)
      ones = ConstantOfShape <value = float[1] {2.0}> (size)
      ro = Concat <axis = 0> (ri, ones)
    }>
}""", data=[{"trips": np.int64(t), "x": normal(rng, n, 2), "a": normal(rng, k), "b": normal(rng, l)} for t, n, k, l in ((3, 5, 1, 4), (4, 2, 3, 2), (0, 2, 1, 2), (-7, 1, 2, 1), (1, 3, 2, 5))])


@case
def loop_nested(rng):
    """Loop in If in Loop in Loop: every level grows, by what the level around it has, stacks rows, and one stops early"""
    return Case("""
g (int64 trips, float[n] x, float limit) => (float[m] y, float[t,2] tops, float total) {
  go = Constant <value = bool {1}> ()
  nought = Constant <value_float = 0.0> ()
  y, total, tops = Loop (trips, go, x, nought) <
    body = b1 (int64 i, bool keep, float[a] v, float sum) => (bool more, float[b] v1, float sum1, float[2] top) {
      three = Constant <value_int = 3> ()
      w, inner, sizes = Loop (three, keep, v, sum) <
        body = b2 (int64 j, bool keep2, float[c] u, float s) => (bool more2, float[d] u1, float s1, float row) {
          two = Constant <value_int = 2> ()
          odd0 = Mod (j, two)
          odd = Cast <to = 9> (odd0)
          u1 = If (odd) <
            then_branch = tb () => (float[e] tv) {
              tv = Loop (two, keep2, u) <
                body = b3 (int64 k, bool keep3, float[f] z) => (bool more3, float[h] z1) {
                  more3 = Identity (keep3)
                  last = Constant <value_ints = [-1]> ()
                  end = Constant <value_ints = [1000]> ()
                  tail = Slice (z, last, end)
                  z1 = Concat <axis = 0> (z, tail)
                }>
            },
            else_branch = eb () => (float[g] ev) { ev = Identity (u) }>
          row = ReduceSum <keepdims = 0> (u1)
          s1 = Add (s, row)
          more2 = Less (s1, limit)
        }>
      v1 = Identity (w)
      sum1 = Identity (inner)
      axes = Constant <value_ints = [0]> ()
      hi = ReduceMax (sizes, axes)
      lo = ReduceMin (v1, axes)
      top = Concat <axis = 0> (hi, lo)
      more = Less (sum1, limit)
    }>
}""", data=[{"trips": np.int64(t), "x": np.abs(normal(rng, n)), "limit": np.float32(l)} for t, n, l in ((3, 2, 1e9), (5, 3, 40), (1, 1, 1e9))])


@case
def loop_rows(rng):
    """Loop whose rows have a size that the body finds: the same in every trip"""
    return Case("""
g (int64 trips, float[n] x) => (int64[t,k] rows, float[n] last) {
  go = Constant <value = bool {1}> ()
  last, rows = Loop (trips, go, x) <
    body = b (int64 i, bool keep, float[n] v) => (bool more, float[n] v1, int64[k] row) {
      more = Identity (keep)
      found = NonZero (v)
      flat = Constant <value_ints = [-1]> ()
      where = Reshape (found, flat)
      row = Add (where, i)
      v1 = Mul (v, v)
    }>
}""", data=[{"trips": np.int64(t), "x": np.array(v, np.float32)} for t, v in ((3, [1, 0, 2]), (1, [0, 0, 5, 1]))])


@case
def if_needs(rng):
    """If whose branches need something of the sizes, each where it is taken: a reshape, a sum, a pad by what is left"""
    return Case("""
g (float[n] x, float[k] z) => (float[m] y, float[p] w) {
  sx = Shape (x)
  sz = Shape (z)
  axis = Constant <value_ints = [0]> ()
  n0 = Squeeze (sx, axis)
  k0 = Squeeze (sz, axis)
  same = Equal (n0, k0)
  v = Neg (x)
  y = If (same) <
    then_branch = t () => (float[a] ty) {
      r = Reshape (v, sz)
      ty = Add (r, z)
    },
    else_branch = e () => (float[b] ey) { ey = Concat <axis = 0> (v, z) }>
  fewer = Less (n0, k0)
  w = If (fewer) <
    then_branch = t2 () => (float[c] tw) {
      left = Sub (sz, sx)
      nought = Constant <value_ints = [0]> ()
      pads = Concat <axis = 0> (nought, left)
      padded = Pad (v, pads)
      tw = Mul (padded, z)
    },
    else_branch = e2 () => (float[d] ew) { begin = Constant <value_ints = [0]> ()  cut = Slice (v, begin, sz)  ew = Mul (cut, z) }>
}""", data=[{"x": normal(rng, n), "z": normal(rng, k)} for n, k in ((3, 3), (2, 5), (6, 1), (0, 2))])


@case
def if_ranks(rng):
    """If whose branches give results of other ranks: what follows is converted in each until the ranks agree, by a size and by data"""
    return Case("""
g (float[n,3,t] x, bool flip) => (float[n,k] y, float[n] z) {
  shape = Shape (x)
  last = Constant <value_int = 2> ()
  extent = Gather (shape, last)
  one = Constant <value_int = 1> ()
  single = Equal (extent, one)
  a = If (single) <
    then_branch = t () => (ta) { axes = Constant <value_ints = [2]> ()  ta = Squeeze (x, axes) },
    else_branch = e () => (ea) { ea = Identity (x) }>
  b = Mul (a, a)
  rank = Shape (b)
  size = Shape (rank)
  rows = Constant <value_ints = [0, -1]> ()
  y = Reshape (b, rows)
  c = If (flip) <
    then_branch = t2 () => (tc) { tc = Identity (b) },
    else_branch = e2 () => (ec) { axes2 = Constant <value_ints = [1]> ()  ec = ReduceMax <keepdims = 0> (b, axes2) }>
  flat = Constant <value_ints = [0, -1]> ()
  d = Reshape (c, flat)
  axes3 = Constant <value_ints = [1]> ()
  z = ReduceSum <keepdims = 0> (d, axes3)
}""", data=[{"x": normal(rng, n, 3, t), "flip": np.bool_(f)} for n, t, f in ((2, 1, True), (4, 5, True), (3, 2, False), (1, 1, True))])


@case
def if_ranks_inner(rng):
    """If of other ranks inside the branch of an If, whose own results differ therefore; and one that only one branch of can be valid"""
    return Case("""
g (float[n,t] x, float[n] up, bool a, bool b) => (float[m] y, float[n] z) {
  v = If (a) <
    then_branch = ta () => (tv) {
      tv = If (b) <
        then_branch = tb () => (bv) { bv = Neg (x) },
        else_branch = eb () => (cv) { axes = Constant <value_ints = [1]> ()  cv = ReduceSum <keepdims = 0> (x, axes) }>
    },
    else_branch = ea () => (ev) { ev = Abs (x) }>
  w = Exp (v)
  flat = Constant <value_ints = [-1]> ()
  y = Reshape (w, flat)
  shape = Shape (x)
  at = Constant <value_int = 1> ()
  extent = Gather (shape, at)
  one = Constant <value_int = 1> ()
  single = Equal (extent, one)
  s = If (single) <
    then_branch = ts () => (sv) { axes2 = Constant <value_ints = [1]> ()  sv = Squeeze (x, axes2) },
    else_branch = es () => (iv) { iv = Identity (x) }>
  r = Add (s, up)
  begin = Constant <value_ints = [0]> ()
  z = Slice (r, begin, hundred)
}""", {"hundred": np.array([100], np.int64)}, [{"x": normal(rng, n, t), "up": normal(rng, n), "a": np.bool_(p), "b": np.bool_(q)} for n, t, p, q in ((2, 1, True, True), (4, 1, True, False), (3, 1, False, False))])


@case
def scan_batch(rng):
    """Scan of opset 8: a batch of sequences of unlike lengths, one input backwards"""
    return Case("""
g (int64[b] lengths, float[b,k] start, float[b,t,k] x, float[b,t,k] w) => (float[b,k] last, float[b,t,k] sums) {
  last, sums = Scan (lengths, start, x, w) <num_scan_inputs = 2, directions = [0, 1],
    body = s (float[k] state, float[k] xi, float[k] wi) => (float[k] next, float[k] sum) {
      p = Mul (xi, wi)
      next = Add (state, p)
      sum = Identity (next)
    }>
}""", data=[{"lengths": np.array(l, np.int64), "start": normal(rng, len(l), 2), "x": normal(rng, len(l), 4, 2), "w": normal(rng, len(l), 4, 2)} for l in ([4, 4], [4, 2, 1])], opset=8, ir=3)


@case
def scan(rng):
    """Scan over two inputs, one of them backwards, its outputs stacked along another axis"""
    return Case("""
g (float[n] start, float[t,n] x, float[n,t] w) => (float[n] final, float[n,t] steps) {
  final, steps = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1], scan_output_axes = [1],
    body = b (float[n] state, float[n] a, float[n] c) => (float[n] next, float[n] out) {
      p = Mul (a, c)
      next = Add (state, p)
      out = Tanh (next)
    }> (start, x, w)
}""", data=[{"start": normal(rng, n), "x": normal(rng, t, n), "w": normal(rng, n, t)} for n, t in ((3, 4), (1, 1))])


@case
def local_function(rng):
    """model-local functions: attributes passed on and defaulted, one calling another, a name used inside and outside"""
    return Case("""
g (float[n,4] x) => (float[n,4] y, float[n,4] z) {
  h = local.scaled <factor = 2.5> (x, bias)
  y = local.block <slope = 0.3> (h, bias)
  z = local.block (h, h)
}""", {"bias": normal(rng, 4)}, [{"x": normal(rng, n, 4)} for n in (1, 3)], domains=', "local" : 1', functions="""
<domain: "local", opset_import: ["" : 21]>
scaled <factor> (a, b) => (h) {
  f = Constant <value_float: float = @factor> ()
  m = Mul (a, f)
  h = Add (m, b)
}
<domain: "local", opset_import: ["" : 21, "local" : 1]>
block <slope: float = 0.1> (x, b) => (y) {
  h = LeakyRelu <alpha: float = @slope> (x)
  y = local.scaled <factor = -1.0> (h, b)
}""")


@case
def standard_functions(rng):
    """operators that ONNX defines as functions: Gelu, Mish, HardSwish, Celu, GroupNormalization, SoftmaxCrossEntropyLoss, MeanVarianceNormalization"""
    return Case("""
g (float[n,4,3] x, int64[n,3] label) => (float[n,4,3] a, float[n,4,3] b, float[n,4,3] c, float[n,4,3] d, float[n,4,3] e, float[n,4,3] f, float loss, float[n,4,3] logp) {
  a = Gelu (x)
  b = Gelu <approximate = "tanh"> (x)
  c = Mish (x)
  d = HardSwish (x)
  e = GroupNormalization <num_groups = 2> (x, gamma, beta)
  f = MeanVarianceNormalization <axes = [0, 2]> (x)
  loss, logp = SoftmaxCrossEntropyLoss <reduction = "mean"> (x, label)
}""", {"gamma": normal(rng, 4), "beta": normal(rng, 4)}, [{"x": normal(rng, n, 4, 3), "label": ints(rng, 0, 4, n, 3)} for n in (2, 3)])


def save_external(model, path):
    """Writes the weights beside the model: one at offset 0, one at an offset that is a multiple of nothing."""
    first, second = model.graph.initializer
    blob = first.raw_data + b"\0\0\0" + second.raw_data
    with open(os.path.join(os.path.dirname(path), "weights.bin"), "wb") as f:
        f.write(blob)
    for tensor, offset in ((first, 0), (second, len(first.raw_data) + 3)):
        external_data_helper.set_external_data(tensor, "weights.bin", offset, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    onnx.save(model, path)


@case
def external_data(rng):
    """two weights in a file of their own, the second at an odd offset"""
    return Case("""
g (float[n,3] x) => (float[n,5] y) {
  h = MatMul (x, w)
  y = Add (h, b)
}""", {"w": normal(rng, 3, 5), "b": normal(rng, 5)}, [{"x": normal(rng, n, 3)} for n in (2, 1)], save=save_external)


def typed_fields(model):
    """Stores each weight in the typed fields instead of raw_data."""
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        plain = helper.make_tensor(tensor.name, tensor.data_type, values.shape, values.flatten().tolist())
        tensor.CopyFrom(plain)


@case
def typed_weights(rng):
    """weights in float_data, int32_data, int64_data and double_data instead of raw bytes, f16 among them"""
    return Case("""
g (float[n,3] x) => (float[n,3] y, double[n,3] d, int64[3] i) {
  a = Mul (x, f)  half = Cast <to = 1> (h)  b = Add (a, half)
  chosen = Where (mask, b, x)
  small = Cast <to = 1> (byte)
  y = Sub (chosen, small)
  wide = Cast <to = 11> (y)
  d = Mul (wide, double)
  i = Add (long, long)
}""", {"f": normal(rng, 3), "h": normal(rng, 3, dtype=np.float16), "mask": np.array([1, 0, 1], bool), "byte": np.array([-3, 0, 127], np.int8),
        "double": normal(rng, 3, dtype=np.float64), "long": np.array([1 << 40, -5, 0], np.int64)}, [{"x": normal(rng, 2, 3)}], edit=typed_fields)


@case
def unaligned_weights(rng):
    """raw weights of every width, at offsets in the file that the widths do not divide"""
    return Case("""
g (float[n,3] x) => (float[n,3] y, double[n,3] z, int64[3] i, float16[3] h) {
  y = Mul (x, f)
  wide = Cast <to = 11> (x)
  z = Mul (wide, dd)
  i = Add (iii, iii)
  h = Neg (hhhh)
}""", {"f": normal(rng, 3), "dd": normal(rng, 3, dtype=np.float64), "iii": ints(rng, -9, 9, 3), "hhhh": normal(rng, 3, dtype=np.float16)}, [{"x": normal(rng, 2, 3)}])


@case
def opset7(rng):
    """operators as opset 7 spelt them: attributes in place of inputs, Softmax over a flattened matrix, Dropout, Upsample's ancestor"""
    return Case("""
g (float[n,2,4] x) => (float[n,2,4] y, float[n,1,4] s, float[n,2,2] cut, float[n,2,6] padded, float[n,2,2] top, int64[n,2,2] at, float[n,2,4] clipped) {
  d = Dropout <ratio = 0.5> (x)
  y = Softmax <axis = 1> (d)
  s = ReduceSum <axes = [1]> (x)
  cut = Slice <axes = [2], starts = [1], ends = [-1]> (x)
  padded = Pad <mode = "constant", pads = [0, 0, 1, 0, 0, 1], value = 2.0> (x)
  top, at = TopK <axis = -1, k = 2> (x)
  clipped = Clip <min = -0.5, max = 0.5> (x)
}""", data=[{"x": normal(rng, n, 2, 4)} for n in (1, 3)], opset=7, ir=3)


@case
def opset11_squeeze(rng):
    """operators as opset 11 spelt them: Squeeze, Unsqueeze and Split with attributes, Clip with inputs, Softmax's old default axis"""
    return Case("""
g (float[n,1,6] x) => (float[n,6] a, float[1,n,1,6] b, float[n,1,2] c, float[n,1,4] d, float[n,1,6] e, float[n,1,6] f) {
  a = Squeeze <axes = [1]> (x)
  b = Unsqueeze <axes = [0]> (x)
  c, d = Split <axis = 2, split = [2, 4]> (x)
  e = Clip (x, , high)
  f = LogSoftmax (x)
}""", {"high": np.float32(0.25)}, [{"x": normal(rng, n, 1, 6)} for n in (1, 3)], opset=11, ir=6)


@case
def sparse_weight(rng):
    """a constant given as a sparse tensor"""
    def edit(model):
        values = helper.make_tensor("values", TensorProto.FLOAT, [3], [1.5, -2.0, 4.0])
        at = helper.make_tensor("indices", TensorProto.INT64, [3], [1, 6, 11])
        node = helper.make_node("Constant", [], ["w"], sparse_value=helper.make_sparse_tensor(values, at, [3, 4]))
        model.graph.node.insert(0, node)
    return Case("g (float[n,3] x) => (float[n,4] y) { y = MatMul (x, w) }", data=[{"x": normal(rng, 2, 3)}], edit=edit)


@case
def texts(rng):
    """texts as inputs and outputs, compared and concatenated"""
    return Case("""
g (string[n] s, string[n] t) => (bool[n] same, string[n] joined) {
  same = Equal (s, t)
  joined = StringConcat (s, t)
}""", data=[{"s": np.array(["a", "bé", ""], object), "t": np.array(["a", "b", ""], object)}])


@case
def sequences_known(rng):
    """a sequence inside a graph whose tensors are known one by one"""
    return Case("""
g (float[n,2] x, float[m,2] y) => (float[k,2] z, int64 length) {
  s = SequenceConstruct (x, y, x)
  z = ConcatFromSequence <axis = 0> (s)
  length = SequenceLength (s)
}""", data=[{"x": normal(rng, 2, 2), "y": normal(rng, 1, 2)}])
