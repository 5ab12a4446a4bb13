"""Cases about element types: casts, integer arithmetic, half precision, quantised graphs."""
import ml_dtypes
import numpy as np
from make_models import Case, case, ints, normal, reference

# Weights beside u8 operands stay within seven bits: onnxruntime's kernels for some machines add two products in sixteen bits and saturate.


@case
def casts(rng):
    """Cast between floats, integers and bool: truncation, NaN and zero to bool, f16 and bf16 rounding"""
    return Case("""
g (float[n] x, int32[n] i, float[k] odd) => (int64[n] a, float16[n] b, float[n] c, double[n] d, int8[n] e, uint8[n] f, bool[k] g, float[n] h, float[n] j, int32[n] l) {
  a = Cast <to = 7> (x)  b = Cast <to = 10> (x)  c0 = Cast <to = 16> (x)  c = Cast <to = 1> (c0)
  d = Cast <to = 11> (x)  e = Cast <to = 3> (i)  f = Cast <to = 2> (i)  g = Cast <to = 9> (odd)
  h = Cast <to = 1> (i)  j = Cast <to = 1> (b)  l = CastLike (x, i)
}""", data=[{"x": np.array([0.5, -0.5, 2.5, -3.99, 65504, 1e-7, 123456.78], np.float32), "i": np.array([0, 1, -1, 127, -128, 5, 16777217], np.int32),
             "odd": np.array([0, -0.0, np.nan, np.inf, 1e-40], np.float32)}])


@case
def integers(rng):
    """integer arithmetic: division towards zero, both kinds of Mod, wrapping, shifts, bit operations, min and max, for several widths"""
    return Case("""
g (int32[n] a, int32[n] b, uint8[n] u, uint8[n] v, int64[n] w) => (int32[n] quotient, int32[n] rest, int32[n] frest, int32[n] product, uint8[n] left, uint8[n] right,
    uint8[n] both, uint8[n] flipped, int64[n] power, int32[n] low, uint8[n] sum, int64[n] sign) {
  quotient = Div (a, b)  rest = Mod (a, b)  frest = Mod <fmod = 1> (a, b)  product = Mul (a, a)
  left = BitShift <direction = "LEFT"> (u, v)  right = BitShift <direction = "RIGHT"> (u, v)
  both = BitwiseXor (u, v)  flipped = BitwiseNot (u)
  two = Constant <value = int64 {2}> ()  power = Pow (w, two)
  low = Min (a, b)  sum = Add (u, u)  sign = Sign (w)
}""", data=[{"a": np.array([7, -7, 7, -7, 2**31 - 1, -5], np.int32), "b": np.array([3, 3, -3, -3, 2, 5], np.int32), "u": np.array([1, 200, 255, 0, 128, 3], np.uint8),
             "v": np.array([1, 3, 7, 2, 0, 5], np.uint8), "w": np.array([0, -3, 1 << 20, 5, -1, 2], np.int64)}])


@case
def special_values(rng):
    """NaN and both infinities through comparisons, Min, Max, Where, rounding, IsNaN, IsInf, and the sign of zero"""
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, -2.5], np.float32)
    return Case("""
g (float[n] x, float[n] y) => (bool[n] less, float[n] low, float[n] high, float[n] even, float[n] floor, bool[n] nan, bool[n] down, float[n] root, float[n] log,
    float[n] relu, float[n] inverse, float[n] chosen, float[n] sigmoid, float[n] erf) {
  less = Less (x, y)  low = Min (x, y)  high = Max (x, y)  even = Round (x)  floor = Floor (x)  nan = IsNaN (x)
  down = IsInf <detect_positive = 0> (x)  root = Sqrt (x)  log = Log (x)  relu = Relu (x)  inverse = Reciprocal (x)
  chosen = Where (less, x, y)  sigmoid = Sigmoid (x)  erf = Erf (x)
}""", data=[{"x": odd, "y": odd[::-1].copy()}, {"x": normal(rng, 5, scale=3), "y": normal(rng, 5)}])


@case
def logic(rng):
    """boolean operators, comparisons of bools and integers, broadcasting of Where on three sides"""
    return Case("""
g (bool[m,1] a, bool[n] b, float[m,n] x, float[1,n] y, int64[n] i) => (bool[m,n] both, bool[m,n] either, bool[m,n] one, bool[n] none, bool[m,n] same, float[m,n] z, bool[n] big) {
  both = And (a, b)  either = Or (a, b)  one = Xor (a, b)  none = Not (b)  same = Equal (a, b)
  z = Where (a, x, y)  four = Constant <value_int = 4> ()  big = GreaterOrEqual (i, four)
}""", data=[{"a": ints(rng, 0, 2, m, 1, dtype=bool), "b": ints(rng, 0, 2, n, dtype=bool), "x": normal(rng, m, n), "y": normal(rng, 1, n), "i": ints(rng, 0, 9, n)}
            for m, n in ((3, 4), (1, 1))])


@case
def half_f16(rng):
    """a graph in f16: products, normalisation, softmax; sums are kept wider than the type (the numbers are chosen so that an intermediate rounding more or less shows in the last digit only)"""
    half = np.float16
    return Case("""
g (float16[n,16] x) => (float16[n,8] y, float16[n,16] z, float16[n] s) {
  h = MatMul (x, w)  a = Add (h, b)  r = Relu (a)  y = Softmax (r)
  z = LayerNormalization <epsilon = 1e-3> (x, gamma)
  axes = Constant <value_ints = [1]> ()  s = ReduceMean <keepdims = 0> (x, axes)
}""", {"w": normal(rng, 16, 8, scale=0.1, dtype=half), "b": normal(rng, 8, scale=0.1, dtype=half), "gamma": np.tile(np.array([2, -1, 0.5, 4], half), 4)},
        [{"x": normal(rng, n, 16, dtype=half)} for n in (1, 3)])


@case
def half_bf16(rng):
    """bf16 inputs, weights and outputs around elementwise operations and a product; expected outputs by onnx's reference evaluator"""
    kind = ml_dtypes.bfloat16
    built = Case("""
g (bfloat16[n,4] x) => (bfloat16[n,4] y, float[n,4] wide, bfloat16[4] back) {
  a = Add (x, b)  y = Mul (a, x)
  wide = Cast <to = 1> (y)
  two = Constant <value_float = 2.0> ()  big = Mul (vector, two)
  back = Cast <to = 16> (big)
}""", {"b": normal(rng, 4).astype(kind), "vector": normal(rng, 4)}, [{"x": normal(rng, n, 4).astype(kind)} for n in (1, 3)])
    built.outputs = reference(built.model)
    return built


@case
def quantize(rng):
    """QuantizeLinear and DequantizeLinear: per tensor, per axis, blocked, i8, u8 and i4, saturation, ties to even"""
    return Case("""
g (float[n,4] x, uint8[n,4] q) => (uint8[n,4] a, int8[n,4] b, float[n,4] c, float[n,4] d, uint8[n,4] dynamic, float scale, uint8 zero, float[4,6] blocked, float[8] nibbles) {
  a = QuantizeLinear (x, s, z)
  b = QuantizeLinear <axis = 1> (x, ss, zz)
  c = DequantizeLinear (q, s, z)
  d = DequantizeLinear <axis = -1> (b, ss, zz)
  dynamic, scale, zero = DynamicQuantizeLinear (x)
  blocked = DequantizeLinear <axis = 1, block_size = 3> (w8, sw)
  nibbles = DequantizeLinear (w4, s)
}""", {"s": np.float32(0.5), "z": np.uint8(100), "ss": np.array([0.25, 0.5, 1, 0.01], np.float32), "zz": np.array([0, -3, 5, 100], np.int8),
        "w8": ints(rng, -128, 128, 4, 6, dtype=np.int8), "sw": np.abs(normal(rng, 4, 2)), "w4": ints(rng, -8, 8, 8).astype(ml_dtypes.int4)},
        [{"x": np.array([[0.25, 0.75, -1.25, 1e6], [-1e6, 0, 0.3, 2.5]], np.float32), "q": ints(rng, 0, 256, 2, 4, dtype=np.uint8)},
         {"x": normal(rng, 1, 4, scale=9), "q": ints(rng, 0, 256, 1, 4, dtype=np.uint8)}])


@case
def qlinear_conv(rng):
    """QLinearConv with padding, stride, a bias and a scale per output channel; ConvInteger beside it"""
    return Case("""
g (uint8[n,2,5,5] x) => (uint8[n,3,3,3] y, int32[n,3,5,5] sums) {
  y = QLinearConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, xs, xz, w, ws, wz, ys, yz, b)
  sums = ConvInteger <pads = [1, 1, 1, 1]> (x, w, xz)
}""", {"xs": np.float32(0.02), "xz": np.uint8(120), "w": ints(rng, -64, 64, 3, 2, 3, 3, dtype=np.int8), "ws": np.array([0.01, 0.02, 0.015], np.float32),
        "wz": np.zeros(3, np.int8), "ys": np.float32(0.097), "yz": np.uint8(130), "b": ints(rng, -500, 500, 3, dtype=np.int32)},
        [{"x": ints(rng, 0, 256, n, 2, 5, 5, dtype=np.uint8)} for n in (1, 2)])


@case
def qlinear_matmul(rng):
    """QLinearMatMul and MatMulInteger with free sizes, u8 by i8, a zero point per column"""
    return Case("""
g (uint8[m,4] a, int8[4,n] b) => (uint8[m,n] y, int32[m,n] sums, float[m,n] back) {
  y = QLinearMatMul (a, as, az, b, bs, bz, ys, yz)
  sums = MatMulInteger (a, b, az, bz)
  back = DequantizeLinear (y, ys, yz)
}""", {"as": np.float32(0.05), "az": np.uint8(113), "bs": np.float32(0.04), "bz": np.int8(-3), "ys": np.float32(1.1), "yz": np.uint8(118)},
        [{"a": ints(rng, 0, 256, m, 4, dtype=np.uint8), "b": ints(rng, -64, 64, 4, n, dtype=np.int8)} for m, n in ((2, 3), (1, 1))])


@case
def qdq_int8(rng):
    """an int8 graph as quantisers write it: DequantizeLinear around Conv and Gemm, QuantizeLinear between"""
    return Case("""
g (float[n,1,4,4] x) => (float[n,3] y) {
  q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
  w = DequantizeLinear <axis = 0> (wq, ws, wz)
  c = Conv <kernel_shape = [3, 3], pads = [0, 0, 0, 0]> (d, w)
  r = Relu (c)
  q2 = QuantizeLinear (r, s2, z2)  d2 = DequantizeLinear (q2, s2, z2)
  f = Flatten (d2)
  v = DequantizeLinear (vq, vs)
  y = Gemm <transB = 1, alpha = 0.5> (f, v, bias)
}""", {"s": np.float32(0.03), "z": np.int8(-4), "wq": ints(rng, -128, 128, 2, 1, 3, 3, dtype=np.int8), "ws": np.array([0.01, 0.02], np.float32), "wz": np.array([0, 0], np.int8),
        "s2": np.float32(0.05), "z2": np.int8(-128), "vq": ints(rng, -128, 128, 3, 8, dtype=np.int8), "vs": np.float32(0.01), "bias": normal(rng, 3)},
        [{"x": normal(rng, n, 1, 4, 4)} for n in (1, 3)])


@case
def tied_embedding_int8(rng):
    """int8 weights dequantised and used twice, as an embedding and, transposed, as the output projection"""
    return Case("""
g (int64[n] ids) => (float[n,6] scores, float[n,4] rows) {
  table = DequantizeLinear <axis = 0> (quantised, scales)
  rows = Gather (table, ids)
  turned = Transpose <perm = [1, 0]> (table)
  scores = MatMul (rows, turned)
}""", {"quantised": ints(rng, -128, 128, 6, 4, dtype=np.int8), "scales": np.abs(normal(rng, 6))}, [{"ids": np.array([0, 5, 5, -1], np.int64)}, {"ids": np.array([3], np.int64)}])
