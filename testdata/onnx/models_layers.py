"""Cases about layers: convolutions, pooling, resizing, normalisation, recurrent nets, attention."""
import numpy as np
from make_models import Case, case, ints, normal


@case
def conv_kinds(rng):
    """Conv in one, two and three dimensions: groups, dilation, stride, SAME_UPPER, SAME_LOWER, depthwise, free spatial sizes"""
    return Case("""
g (float[n,4,h,w] x, float[n,4,l] s, float[n,2,3,4,4] v) => (float[n,6,a,b] groups, float[n,2,c,d] dilated, float[n,4,e,f] upper, float[n,4,h,w] lower, float[n,3,k] line, float[n,1,2,3,3] solid) {
  groups = Conv <group = 2, kernel_shape = [3, 3], pads = [1, 0, 2, 1]> (x, w6, b6)
  dilated = Conv <dilations = [2, 1], strides = [1, 2], pads = [2, 2, 2, 2]> (x, w2)
  upper = Conv <auto_pad = "SAME_UPPER", strides = [2, 2], group = 4> (x, depth)
  lower = Conv <auto_pad = "SAME_LOWER", group = 4> (x, depth)
  line = Conv <strides = [2], pads = [1, 1]> (s, w3)
  solid = Conv (v, cube)
}""", {"w6": normal(rng, 6, 2, 3, 3), "b6": normal(rng, 6), "w2": normal(rng, 2, 4, 3, 3), "depth": normal(rng, 4, 1, 2, 2), "w3": normal(rng, 3, 4, 3),
        "cube": normal(rng, 1, 2, 2, 2, 2)},
        [{"x": normal(rng, n, 4, h, w), "s": normal(rng, n, 4, l), "v": normal(rng, n, 2, 3, 4, 4)} for n, h, w, l in ((1, 5, 6, 7), (2, 4, 3, 2))])


@case
def conv_transpose_kinds(rng):
    """ConvTranspose: groups, dilation, stride, output_padding, output_shape, SAME_UPPER, one dimension"""
    return Case("""
g (float[n,4,h,w] x, float[n,2,l] s) => (float[n,6,a,b] groups, float[n,1,c,d] dilated, float[1,1,10,9] shaped, float[n,1,e,f] same, float[n,3,k] line) {
  groups = ConvTranspose <group = 2, strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 2]> (x, w6, b6)
  dilated = ConvTranspose <dilations = [2, 1], pads = [1, 1, 1, 1]> (x, w1)
  shaped = ConvTranspose <strides = [3, 3], output_shape = [10, 9]> (fixed, w1)
  same = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w1)
  line = ConvTranspose <strides = [2]> (s, w3)
}""", {"w6": normal(rng, 4, 3, 3, 3), "b6": normal(rng, 6), "w1": normal(rng, 4, 1, 3, 3), "w3": normal(rng, 2, 3, 2), "fixed": normal(rng, 1, 4, 3, 3)},
        [{"x": normal(rng, n, 4, h, w), "s": normal(rng, n, 2, l)} for n, h, w, l in ((1, 2, 3, 4), (2, 3, 1, 1))])


@case
def pool_kinds(rng):
    """MaxPool with ceil_mode, dilation and indices; AveragePool counting pads or not; global pools; LpPool"""
    return Case("""
g (float[n,2,h,w] x) => (float[n,2,a,b] top, int64[n,2,a,b] at, float[n,2,c,d] dilated, float[n,2,e,f] mean, float[n,2,e,f] counted, float[n,2,1,1] all, float[n,2,1,1] most, float[n,2,g1,g2] norm) {
  top, at = MaxPool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x)
  dilated = MaxPool <kernel_shape = [2, 2], dilations = [2, 2], pads = [1, 1, 1, 1]> (x)
  mean = AveragePool <kernel_shape = [2, 3], pads = [1, 1, 0, 1], ceil_mode = 1, strides = [2, 2]> (x)
  counted = AveragePool <kernel_shape = [2, 3], pads = [1, 1, 0, 1], ceil_mode = 1, strides = [2, 2], count_include_pad = 1> (x)
  all = GlobalAveragePool (x)  most = GlobalMaxPool (x)
  norm = LpPool <kernel_shape = [2, 2], p = 2> (x)
}""", data=[{"x": normal(rng, n, 2, h, w)} for n, h, w in ((1, 6, 5), (2, 4, 4))])


@case
def resize_kinds(rng):
    """Resize: nearest with two roundings, linear half_pixel and align_corners, cubic, sizes, down with antialias off, axes"""
    return Case("""
g (float[n,1,h,w] x) => (float[n,1,a,b] near, float[n,1,a,b] ceil, float[n,1,c,d] linear, float[n,1,7,5] corners, float[n,1,e,f] cubic, float[n,1,2,2] small, float[n,1,h,k] wide) {
  near = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , doubled)
  ceil = Resize <mode = "nearest", coordinate_transformation_mode = "half_pixel", nearest_mode = "round_prefer_ceil"> (x, , doubled)
  linear = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , uneven)
  corners = Resize <mode = "linear", coordinate_transformation_mode = "align_corners", axes = [2, 3]> (x, , , seven)
  cubic = Resize <mode = "cubic", cubic_coeff_a = -0.75, coordinate_transformation_mode = "pytorch_half_pixel"> (x, , doubled)
  small = Resize <mode = "linear", axes = [2, 3]> (x, , , two)
  wide = Resize <mode = "nearest", axes = [3]> (x, , third)
}""", {"doubled": np.array([1, 1, 2, 2], np.float32), "uneven": np.array([1, 1, 1.5, 2.5], np.float32), "seven": np.array([7, 5], np.int64),
        "two": np.array([2, 2], np.int64), "third": np.array([3], np.float32)}, [{"x": normal(rng, n, 1, h, w)} for n, h, w in ((1, 3, 4), (2, 4, 4))])


@case
def normalisations(rng):
    """BatchNormalization, InstanceNormalization, LRN, LpNormalization, LayerNormalization over two axes with its extra outputs"""
    return Case("""
g (float[n,3,h,w] x) => (float[n,3,h,w] batch, float[n,3,h,w] instance, float[n,3,h,w] local, float[n,3,h,w] unit, float[n,3,4,2] layer, float[n,3,1,1] mean, float[n,3,1,1] spread) {
  batch = BatchNormalization <epsilon = 1e-3> (x, gamma, beta, average, variance)
  instance = InstanceNormalization (x, gamma, beta)
  local = LRN <size = 3, alpha = 0.01, bias = 2.0> (x)
  unit = LpNormalization <axis = 1, p = 2> (x)
  layer, mean, spread = LayerNormalization <axis = 2> (x, scale)
}""", {"gamma": normal(rng, 3), "beta": normal(rng, 3), "average": normal(rng, 3), "variance": np.abs(normal(rng, 3)) + np.float32(0.1), "scale": normal(rng, 4, 2)},
        [{"x": normal(rng, n, 3, 4, 2)} for n in (1, 2)])


def recurrent(rng, gates, inputs, hidden, directions=2):
    return {"w": normal(rng, directions, gates * hidden, inputs, scale=0.4), "r": normal(rng, directions, gates * hidden, hidden, scale=0.4),
            "b": normal(rng, directions, 2 * gates * hidden, scale=0.3)}


def sequences(rng, inputs, hidden, states):
    """Data sets with free time and batch sizes, sequences of unequal length among them."""
    return [{"x": normal(rng, t, n, inputs), "lengths": np.array(lengths, np.int32), **{s: normal(rng, 2, n, hidden) for s in states}}
            for t, n, lengths in ((5, 3, (5, 2, 4)), (1, 1, (1,)), (4, 2, (1, 4)))]


@case
def lstm_bidirectional(rng):
    """LSTM in both directions with sequence_lens, initial states and peepholes, all three outputs used"""
    return Case("""
g (float[t,n,3] x, int32[n] lengths, float[2,n,4] h, float[2,n,4] c) => (float[t,2,n,4] y, float[2,n,4] last, float[2,n,4] cell) {
  y, last, cell = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r, b, lengths, h, c, p)
}""", {**recurrent(rng, 4, 3, 4), "p": normal(rng, 2, 12, scale=0.3)}, sequences(rng, 3, 4, ("h", "c")))


@case
def lstm_stacked(rng):
    """two LSTM layers on [batch, time, features] by transposes, the last step classified: how exporters write them"""
    return Case("""
g (float[n,t,3] x) => (float[n,2] y) {
  x1 = Transpose <perm = [1, 0, 2]> (x)
  a = LSTM <hidden_size = 4> (x1, w1, r1, b1)
  one = Constant <value_ints = [1]> ()
  s = Squeeze (a, one)
  b, last = LSTM <hidden_size = 4> (s, w2, r2, b2)
  zero = Constant <value_ints = [0]> ()
  h = Squeeze (last, zero)
  y = Gemm <transB = 1> (h, v, c)
}""", {**{k + "1": v for k, v in recurrent(rng, 4, 3, 4, 1).items()}, **{k + "2": v for k, v in recurrent(rng, 4, 4, 4, 1).items()}, "v": normal(rng, 2, 4), "c": normal(rng, 2)},
        [{"x": normal(rng, n, t, 3)} for n, t in ((1, 1), (2, 6))])


@case
def gru_bidirectional(rng):
    """GRU in both directions with sequence_lens, linear_before_reset on and off"""
    return Case("""
g (float[t,n,3] x, int32[n] lengths, float[2,n,4] h) => (float[t,2,n,4] y, float[2,n,4] last, float[t,2,n,4] other) {
  y, last = GRU <hidden_size = 4, direction = "bidirectional", linear_before_reset = 1> (x, w, r, b, lengths, h)
  other = GRU <hidden_size = 4, direction = "bidirectional"> (x, w, r, b, lengths)
}""", recurrent(rng, 3, 3, 4), sequences(rng, 3, 4, ("h",)))


@case
def rnn_reverse(rng):
    """RNN backwards with Relu, and in both directions with clipping and two activations"""
    one = recurrent(rng, 1, 3, 4, 1)
    return Case("""
g (float[t,n,3] x, int32[n] lengths) => (float[t,1,n,4] y, float[1,n,4] last, float[t,2,n,4] both) {
  y, last = RNN <hidden_size = 4, direction = "reverse", activations = ["Relu"]> (x, w, r, b, lengths)
  both = RNN <hidden_size = 4, direction = "bidirectional", activations = ["Tanh", "Sigmoid"], clip = 0.8> (x, w2, r2, b2, lengths)
}""", {**one, **{k + "2": v for k, v in recurrent(rng, 1, 3, 4).items()}}, sequences(rng, 3, 4, ()))


@case
def gemm_matmul(rng):
    """Gemm with every transposition and a broadcast bias; MatMul of vectors, stacks and broadcast stacks"""
    return Case("""
g (float[m,3] a, float[k] v, float[b,1,2,k] s) => (float[3,4] both, float[m,4] plain, float[m,3] left, float dot, float[b,2,2,3] stack, float[b,1,2] by_vector) {
  gram = Gemm <transA = 1, alpha = 0.5> (a, a)
  both = Gemm <transB = 1, beta = 2.0> (gram, w, column)
  plain = Gemm (a, wt, row)
  left = MatMul (a, gram)
  dot = MatMul (v, v)
  stack = MatMul (s, cube)
  by_vector = MatMul (s, v)
}""", {"w": normal(rng, 4, 3), "wt": normal(rng, 3, 4), "column": normal(rng, 3, 1), "row": normal(rng, 4), "cube": normal(rng, 2, 5, 3)},
        [{"a": normal(rng, m, 3), "v": normal(rng, 5), "s": normal(rng, b, 1, 2, 5)} for m, b in ((2, 3), (1, 1))])


@case
def reductions(rng):
    """every reduction, over several axes, over given axes at run time, over none, keeping dimensions or not"""
    return Case("""
g (float[m,n,3] x, int64[k] axes) => (float[m,1,1] l1, float[m,1,1] l2, float[n] log, float[n] exp, float[1,1,1] least, float[m,n,3] none, float product, float[m,3] square, float[m,n] mean) {
  two = Constant <value_ints = [1, -1]> ()  outer = Constant <value_ints = [0, 2]> ()  middle = Constant <value_ints = [1]> ()
  l1 = ReduceL1 (x, two)  l2 = ReduceL2 (x, two)
  p = Abs (x)
  log = ReduceLogSum <keepdims = 0> (p, outer)  exp = ReduceLogSumExp <keepdims = 0> (x, outer)
  least = ReduceMin (x)
  empty = Constant <value = int64[0] {}> ()
  none = ReduceSum <noop_with_empty_axes = 1> (x, empty)
  product = ReduceProd <keepdims = 0> (x)
  square = ReduceSumSquare <keepdims = 0> (x, middle)
  mean = ReduceMean <keepdims = 0> (x, axes)
}""", data=[{"x": normal(rng, m, n, 3), "axes": np.array([axis], np.int64)} for m, n, axis in ((2, 4, 2), (1, 1, -1))])


@case
def activations(rng):
    """every elementwise function of one operand, each with attributes that are not the default"""
    return Case("""
g (float[n] x, float[n] p) => (float[n] y01, float[n] y02, float[n] y03, float[n] y04, float[n] y05, float[n] y06, float[n] y07, float[n] y08, float[n] y09, float[n] y10,
    float[n] y11, float[n] y12, float[n] y13, float[n] y14, float[n] y15, float[n] y16, float[n] y17, float[n] y18) {
  one = Constant <value_float = 1.0> ()  big = Add (p, one)
  y01 = Elu <alpha = 0.7> (x)  y02 = Selu (x)  y03 = LeakyRelu <alpha = 0.2> (x)  y04 = HardSigmoid <alpha = 0.3, beta = 0.4> (x)
  y05 = Softplus (x)  y06 = Softsign (x)  y07 = ThresholdedRelu <alpha = 0.5> (x)  y08 = Celu <alpha = 0.5> (x)  y09 = Shrink <lambd = 0.6, bias = 0.2> (x)
  y10 = Sin (x)  y11 = Cosh (x)  y12 = Atan (x)  y13 = Log (p)  y14 = Exp (x)  y15 = Asinh (x)  y16 = Acosh (big)  y17 = PRelu (x, slope)  y18 = Tan (x)
}""",
        {"slope": np.array([0.25], np.float32)}, [{"x": normal(rng, n, scale=2), "p": np.abs(normal(rng, n)) + np.float32(0.1)} for n in (9, 1)])


@case
def attention_23(rng):
    """the Attention operator of opset 23: causal, grouped heads, a cache, and RMSNormalization beside it"""
    return Case("""
g (float[n,4,q,8] x, float[n,2,k,8] key, float[n,2,k,8] value, float[n,2,p,8] old_key, float[n,2,p,8] old_value)
  => (float[n,4,q,8] y, float[n,2,t,8] all_key, float[n,2,t,8] all_value, float[n,4,q,8] rms) {
  y, all_key, all_value = Attention <is_causal = 0, scale = 0.3> (x, key, value, , old_key, old_value)
  rms = RMSNormalization <axis = -1, epsilon = 1e-5> (y, gamma)
}""", {"gamma": normal(rng, 8)},
        [{"x": normal(rng, n, 4, q, 8), "key": normal(rng, n, 2, q, 8), "value": normal(rng, n, 2, q, 8), "old_key": normal(rng, n, 2, p, 8), "old_value": normal(rng, n, 2, p, 8)}
         for n, q, p in ((1, 2, 3), (2, 1, 4))], opset=23)
