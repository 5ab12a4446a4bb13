"""Cases about shapes: free and empty dimensions, sizes computed by the graph or decided by the data, views, indices."""
import numpy as np
from make_models import Case, case, ints, normal


@case
def two_dims(rng):
    """two free dimensions that meet in a product, a softmax over one of them, a transpose, a reduction"""
    return Case("""
g (float[m,n] x, float[n] w) => (float[m,n] y, float[n,m] t, float[m] s, float[m,m] gram) {
  axes = Constant <value_ints = [1]> ()
  a = Mul (x, w)  b = Relu (a)  top = ReduceMax <keepdims = 1> (b, axes)
  c = Sub (b, top)  y = Softmax <axis = -1> (c)
  t = Transpose <perm = [1, 0]> (y)
  gram = MatMul (y, t)
  s = ReduceSum <keepdims = 0> (gram, axes)
}""", data=[{"x": normal(rng, m, n), "w": normal(rng, n)} for m, n in ((1, 1), (3, 5), (17, 4))])


@case
def attention_two_dims(rng):
    """one attention block over batch and sequence, heads split by Reshape with 0 and -1, a mask from Range, an output as wide as the input"""
    d = 8
    return Case("""
g (float[batch,seq,8] x) => (float[batch,seq,8] y) {
  q0 = MatMul (x, wq)  k0 = MatMul (x, wk)  v0 = MatMul (x, wv)
  q1 = Reshape (q0, heads)  k1 = Reshape (k0, heads)  v1 = Reshape (v0, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (q1)  k = Transpose <perm = [0, 2, 3, 1]> (k1)  v = Transpose <perm = [0, 2, 1, 3]> (v1)
  raw = MatMul (q, k)  scores = Mul (raw, scale)
  shape = Shape (x)  one = Constant <value_int = 1> ()  zero = Constant <value_int = 0> ()
  length = Gather <axis = 0> (shape, one)
  steps = Range (zero, length, one)
  first = Constant <value_ints = [0]> ()  second = Constant <value_ints = [1]> ()
  column = Unsqueeze (steps, second)  row = Unsqueeze (steps, first)
  allowed = GreaterOrEqual (column, row)
  masked = Where (allowed, scores, low)
  p = Softmax <axis = -1> (masked)
  o = MatMul (p, v)  o1 = Transpose <perm = [0, 2, 1, 3]> (o)  o2 = Reshape (o1, flat)
  o3 = MatMul (o2, wo)  r = Add (o3, x)
  y = LayerNormalization <axis = -1, epsilon = 1e-5> (r, gamma, beta)
}""", {**{w: normal(rng, d, d, scale=0.4) for w in ("wq", "wk", "wv", "wo")}, "gamma": normal(rng, d), "beta": normal(rng, d),
        "heads": np.array([0, -1, 2, 4], np.int64), "flat": np.array([0, 0, 8], np.int64),
        "scale": np.float32(0.5), "low": np.float32(-1e9)},
        [{"x": normal(rng, b, s, d)} for b, s in ((1, 1), (2, 5), (3, 9))])


@case
def kv_cache(rng):
    """a decode step: new rows appended to a cache of free length, attended, and given back"""
    return Case("""
g (float[batch,2,past,4] past_k, float[batch,2,past,4] past_v, float[batch,2,step,4] q, float[batch,2,step,4] k, float[batch,2,step,4] v)
  => (float[batch,2,step,4] y, float[batch,2,total,4] next_k, float[batch,2,total,4] next_v) {
  next_k = Concat <axis = 2> (past_k, k)
  next_v = Concat <axis = -2> (past_v, v)
  kt = Transpose <perm = [0, 1, 3, 2]> (next_k)
  s = MatMul (q, kt)  p = Softmax (s)  y = MatMul (p, next_v)
}""", data=[{"past_k": normal(rng, b, 2, p, 4), "past_v": normal(rng, b, 2, p, 4),
             "q": normal(rng, b, 2, s, 4), "k": normal(rng, b, 2, s, 4), "v": normal(rng, b, 2, s, 4)}
            for b, p, s in ((1, 0, 3), (1, 3, 1), (2, 7, 2))])


@case
def nonzero_use(rng):
    """NonZero followed by uses of its result: sizes that the data decide"""
    return Case("""
g (float[m,n] x) => (int64[2,count] at, float[count] picked, int64 total, float[count,3] rows) {
  zero = Constant <value_float = 0.0> ()
  positive = Greater (x, zero)
  at = NonZero (positive)
  where = Transpose <perm = [1, 0]> (at)
  picked = GatherND (x, where)
  shape = Shape (at)  one = Constant <value_int = 1> ()
  total = Gather <axis = 0> (shape, one)
  column = Constant <value_ints = [1]> ()
  tall = Unsqueeze (picked, column)
  rows = Mul (tall, weights)
}""", {"weights": normal(rng, 3)}, [{"x": normal(rng, 4, 5)}, {"x": normal(rng, 2, 3)}, {"x": -np.ones((3, 3), np.float32)}, {"x": normal(rng, 0, 3)}])


@case
def compress_unique(rng):
    """Compress and Unique with all outputs: sizes that the data decide"""
    return Case("""
g (float[n,3] x, bool[n] keep, int64[k] ids) => (float[kept,3] y, int64[u] values, int64[u] first, int64[k] back, int64[u] counts) {
  y = Compress <axis = 0> (x, keep)
  values, first, back, counts = Unique <sorted = 1> (ids)
}""", data=[{"x": normal(rng, 5, 3), "keep": np.array([1, 0, 1, 1, 0], bool), "ids": np.array([4, 2, 4, 9, 2, 2], np.int64)},
             {"x": normal(rng, 1, 3), "keep": np.array([0], bool), "ids": np.array([7], np.int64)}])


@case
def gather_negative(rng):
    """Gather with negative indices along each axis, of each rank, and int32 indices"""
    return Case("""
g (float[3,n,4] x, int64[k] index, int32[2,2] grid) => (float[k,n,4] a, float[3,k,4] b, float[3,n,2,2] c, float[3,n] d) {
  a = Gather <axis = 0> (x, index)
  b = Gather <axis = 1> (x, index)
  c = Gather <axis = -1> (x, grid)
  last = Constant <value_int = -1> ()
  d = Gather <axis = 2> (x, last)
}""", data=[{"x": normal(rng, 3, 6, 4), "index": np.array([-1, 0, 2, -3], np.int64), "grid": np.array([[-1, 0], [3, -4]], np.int32)},
             {"x": normal(rng, 3, 3, 4), "index": np.array([], np.int64), "grid": np.array([[1, 1], [-2, 2]], np.int32)}])


@case
def gather_family(rng):
    """GatherElements and GatherND with negative indices and batch dimensions"""
    return Case("""
g (float[2,3,n] x, int64[2,3,2] elements, int64[2,k,1] points) => (float[2,3,2] a, float[2,k,n] b, float[2,1,3] c) {
  a = GatherElements <axis = 2> (x, elements)
  b = GatherND <batch_dims = 1> (x, points)
  c0 = GatherElements <axis = -1> (x, elements)
  pairs = Constant <value = int64[2,1,2] {0, 1, 1, -2}> ()
  swapped = Transpose <perm = [0, 2, 1]> (c0)
  c = GatherND (swapped, pairs)
}""", data=[{"x": normal(rng, 2, 3, 5), "elements": ints(rng, -5, 5, 2, 3, 2), "points": ints(rng, -3, 3, 2, 4, 1)},
             {"x": normal(rng, 2, 3, 1), "elements": ints(rng, -1, 1, 2, 3, 2), "points": ints(rng, -3, 3, 2, 1, 1)}])


@case
def reshape_computed(rng):
    """Reshape and Expand with sizes from Shape, Gather, Mul, Div, Concat: must stay known as formulas"""
    return Case("""
g (float[a,b,4] x) => (float[a,p] y, float[q,2] z, float[a,b,2,4] w) {
  shape = Shape (x)
  i0 = Constant <value_int = 0> ()  i1 = Constant <value_ints = [1]> ()  four = Constant <value_ints = [4]> ()  two = Constant <value_ints = [2]> ()
  axis = Constant <value_ints = [0]> ()
  a0 = Gather <axis = 0> (shape, i0)  a1 = Unsqueeze (a0, axis)
  b1 = Slice (shape, i1, two)
  p = Mul (b1, four)
  to_y = Concat <axis = 0> (a1, p)
  y = Reshape (x, to_y)
  size = Size (x)  two0 = Constant <value_int = 2> ()  half0 = Div (size, two0)  half = Unsqueeze (half0, axis)
  to_z = Concat <axis = 0> (half, two)
  z = Reshape (x, to_z)
  tail = Shape <start = -1> (x)
  to_w = Concat <axis = 0> (a1, b1, two, tail)
  x4 = Unsqueeze (x, two)
  w = Expand (x4, to_w)
}""", data=[{"x": normal(rng, a, b, 4)} for a, b in ((1, 1), (2, 3), (5, 2))])


@case
def slice_steps(rng):
    """Slice with negative steps, clamped ends, missing axes, starts given at run time"""
    return Case("""
g (float[m,n] x, int64[1] start, int64[1] end) => (float[m,n] flipped, float[m,k] every, float[r,n] dynamic, float[u,v] inner) {
  huge = Constant <value_ints = [9223372036854775807]> ()  least = Constant <value_ints = [-9223372036854775808]> ()
  minus = Constant <value_ints = [-1]> ()  one = Constant <value_ints = [1]> ()  zero = Constant <value_ints = [0]> ()
  flipped = Slice (x, minus, least, one, minus)
  back = Constant <value_ints = [-2]> ()
  every = Slice (x, huge, least, one, back)
  dynamic = Slice (x, start, end, zero)
  starts = Constant <value_ints = [1, -3]> ()  ends = Constant <value_ints = [-1, 1000]> ()
  inner = Slice (x, starts, ends)
}""", data=[{"x": normal(rng, 5, 7), "start": np.array([1], np.int64), "end": np.array([4], np.int64)},
             {"x": normal(rng, 4, 3), "start": np.array([-2], np.int64), "end": np.array([100], np.int64)},
             {"x": normal(rng, 3, 1), "start": np.array([3], np.int64), "end": np.array([1], np.int64)}])


@case
def views(rng):
    """chains of views: transpose of slice of reshape, squeezes, splits of unequal parts, put together again"""
    return Case("""
g (float[n,12] x) => (float[n,12] y, float[4,n] corner, float[n,1,5] part) {
  to = Constant <value_ints = [0, 3, 4]> ()
  a = Reshape (x, to)  b = Transpose <perm = [2, 0, 1]> (a)
  last = Constant <value_ints = [2]> ()  end = Constant <value_ints = [3]> ()
  c = Slice (b, last, end, last)
  corner = Squeeze (c, last)
  sizes = Constant <value_ints = [5, 0, 7]> ()
  p, none, q = Split <axis = 1> (x, sizes)
  middle = Constant <value_ints = [1]> ()
  part = Unsqueeze (p, middle)
  y = Concat <axis = 1> (q, none, p)
}""", data=[{"x": normal(rng, n, 12)} for n in (1, 4)])


@case
def zero_dims(rng):
    """empty tensors: reductions over nothing, a product with an inner size of 0, softmax and concat of nothing"""
    return Case("""
g (float[n,k] x, float[k,3] w) => (float[n,3] y, float[k] sum, float[k] least, float[n,k] s, float[m,k] both, bool[n,k] t, int64 size) {
  y = MatMul (x, w)
  axis = Constant <value_ints = [0]> ()
  sum = ReduceSum <keepdims = 0> (x, axis)
  floor = Constant <value = float[1] {7.0}> ()
  padded = Abs (sum)
  least = Min (padded, floor)
  s = Softmax <axis = 1> (x)
  both = Concat <axis = 0> (x, s)
  t = Less (x, s)
  size = Size (x)
}""", data=[{"x": normal(rng, n, k), "w": normal(rng, k, 3)} for n, k in ((2, 2), (0, 2), (2, 0), (0, 0))])


@case
def scatter_family(rng):
    """ScatterElements and ScatterND with each reduction, negative indices, repeated targets, and updates of size 0"""
    return Case("""
g (float[4,n] x, int64[k,n] rows, float[k,n] new, int64[j,1] at, float[j,n] lines) => (float[4,n] a, float[4,n] b, float[4,n] c, float[4,n] d, float[4,n] e, float[4,n] f) {
  a = ScatterElements <axis = 0> (x, once, fill)
  b = ScatterElements <axis = 0, reduction = "add"> (x, rows, new)
  c = ScatterElements <axis = -2, reduction = "max"> (x, rows, new)
  d = ScatterND <reduction = "add"> (x, at, lines)
  e = ScatterND <reduction = "mul"> (x, at, lines)
  f = ScatterND <reduction = "min"> (x, at, lines)
}""", {"once": np.array([[-1], [1]], np.int64), "fill": np.array([[10], [20]], np.float32)},
        [{"x": normal(rng, 4, n), "rows": ints(rng, -4, 4, k, n), "new": normal(rng, k, n), "at": ints(rng, -4, 4, j, 1), "lines": normal(rng, j, n)}
         for n, k, j in ((3, 5, 6), (1, 2, 1), (2, 0, 0))])


@case
def pads(rng):
    """Pad in every mode, with axes, negative pads, and pads given at run time"""
    return Case("""
g (float[m,4] x, int64[2] amount) => (float[a,b] constant, float[c,d] reflect, float[e,f] edge, float[m,h] wrap, float[i,2] cut, float[j,4] dynamic) {
  p = Constant <value_ints = [1, 2, 0, 3]> ()
  seven = Constant <value_float = 7.5> ()
  constant = Pad (x, p, seven)
  r = Constant <value_ints = [1, 3, 1, 2]> ()
  reflect = Pad <mode = "reflect"> (x, r)
  edge = Pad <mode = "edge"> (x, p)
  w = Constant <value_ints = [2, 5]> ()  axis = Constant <value_ints = [-1]> ()
  wrap = Pad <mode = "wrap"> (x, w, , axis)
  n = Constant <value_ints = [0, -1, 2, -1]> ()
  cut = Pad (x, n)
  zero = Constant <value_ints = [0]> ()
  dynamic = Pad (x, amount, seven, zero)
}""", data=[{"x": normal(rng, 3, 4), "amount": np.array([2, 1], np.int64)}, {"x": normal(rng, 2, 4), "amount": np.array([0, 0], np.int64)}])


@case
def makers(rng):
    """ConstantOfShape, Range, OneHot, Tile, Trilu, EyeLike with sizes and values given at run time"""
    return Case("""
g (int64[2] shape, int64 count, int64[k] ids, float[n,n] x) => (float[a,b] filled, int64[r] range, float[k,5] hot, float[c,d] tiled, float[n,n] low, float[n,n] high, float[n,n] eye) {
  filled = ConstantOfShape <value = float[1] {2.5}> (shape)
  zero = Constant <value_int = 0> ()  step = Constant <value_int = -2> ()  one = Constant <value_int = 1> ()
  range = Range (count, zero, step)
  depth = Constant <value_int = 5> ()  values = Constant <value = float[2] {-1.0, 3.0}> ()
  hot = OneHot (ids, depth, values)
  tiled = Tile (x, shape)
  low = Trilu <upper = 0> (x)
  high = Trilu <upper = 1> (x, one)
  eye = EyeLike <k = -1> (x)
}""", data=[{"shape": np.array([2, 3], np.int64), "count": np.int64(7), "ids": np.array([0, -1, 4, 9], np.int64), "x": normal(rng, 3, 3)},
             {"shape": np.array([0, 1], np.int64), "count": np.int64(0), "ids": np.array([2], np.int64), "x": normal(rng, 1, 1)}])


@case
def topk_and_arg(rng):
    """TopK (largest, smallest, k at run time, ties), ArgMax and ArgMin with both tie rules, CumSum exclusive and reversed"""
    x = np.array([[3, 1, 3, 2], [0, 0, -1, 5], [1, 1, 1, 1]], np.float32)
    return Case("""
g (float[m,n] x, int64[1] k) => (float[m,t] top, int64[m,t] at, float[one,n] low, int64[one,n] low_at, int64[m] first, int64[m,1] final, int64[n] least,
    float[m,n] sums, float[m,n] before, float[m,n] after) {
  top, at = TopK <axis = -1> (x, k)
  single = Constant <value_ints = [1]> ()
  low, low_at = TopK <axis = 0, largest = 0> (x, single)
  first = ArgMax <axis = 1, keepdims = 0> (x)
  final = ArgMax <axis = 1, select_last_index = 1> (x)
  least = ArgMin <axis = 0, keepdims = 0> (x)
  one = Constant <value_int = 1> ()  zero = Constant <value_int = 0> ()
  sums = CumSum (x, one)
  before = CumSum <exclusive = 1> (x, zero)
  after = CumSum <reverse = 1, exclusive = 1> (x, one)
}""", data=[{"x": x, "k": np.array([3], np.int64)}, {"x": normal(rng, 2, 6), "k": np.array([6], np.int64)}, {"x": normal(rng, 1, 1), "k": np.array([0], np.int64)}])


@case
def einsums(rng):
    """Einsum: batched product, trace, diagonal, outer product, three operands, ellipsis, an implicit result"""
    return Case("""
g (float[b,m,k] x, float[b,k,n] y, float[m,m] s) => (float[b,m,n] product, float trace, float[m] diagonal, float[b,m,n,k] outer, float[m,m] implicit, float[b,n] three, float[k,m,b] turned) {
  product = Einsum <equation = "bij,bjk->bik"> (x, y)
  trace = Einsum <equation = "ii->"> (s)
  diagonal = Einsum <equation = "ii->i"> (s)
  outer = Einsum <equation = "bij,bjk->bikj"> (x, y)
  implicit = Einsum <equation = "ij,jk"> (s, s)
  three = Einsum <equation = "bij,bjk,ii->bk"> (x, y, s)
  turned = Einsum <equation = "...ij->ji..."> (x)
}""",
        data=[{"x": normal(rng, b, m, k), "y": normal(rng, b, k, n), "s": normal(rng, m, m)} for b, m, k, n in ((2, 3, 4, 2), (1, 1, 1, 1), (2, 2, 5, 3))])


@case
def passthrough(rng):
    """outputs that are an input, a weight, the same value twice; an input nobody reads; a weight that is also an input"""
    return Case("""
g (float[n] x, float[n] unread, float[3] w) => (float[n] y, float[n] same, float[3] sum) {
  y = Neg (x)
  same = Identity (y)
  sum = Add (w, w)
}""", {"w": normal(rng, 3)},
        [{"x": normal(rng, 4), "unread": normal(rng, 4)}, {"x": normal(rng, 1), "unread": normal(rng, 1), "w": normal(rng, 3)}],
        edit=lambda m: m.graph.output.extend([m.graph.input[0], m.graph.input[2]]))


@case
def scalars(rng):
    """tensors of rank 0 through arithmetic, broadcasting against every rank, reductions to rank 0"""
    return Case("""
g (float a, float[n] b, float[m,1,n] c) => (float s, float[m,1,n] y, float all, float[1] wide, int64 rank) {
  two = Constant <value_float = 2.0> ()
  s = Pow (a, two)
  t = Mul (b, s)  y = Add (c, t)
  all = ReduceMean <keepdims = 0> (y)
  axis = Constant <value_ints = [0]> ()
  wide = Unsqueeze (all, axis)
  shape = Shape (y)
  rank = Size (shape)
}""", data=[{"a": np.float32(1.5), "b": normal(rng, n), "c": normal(rng, m, 1, n)} for m, n in ((2, 3), (1, 1))])
