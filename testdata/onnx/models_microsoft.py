"""Cases about com.microsoft: what ONNX Runtime's optimizer, Olive and the model builder for generative models write."""
import numpy as np
from make_models import Case, case, ints, normal

DOMAINS = ', "com.microsoft" : 1'


def small(rng, *shape):
    """Weights of 8 bits whose products do not saturate in onnxruntime, whatever the processor."""
    return ints(rng, -60, 60, *shape, dtype=np.int8)


def table(rng, rows, half):
    angles = rng.uniform(0, 6, (rows, half)).astype(np.float32)
    return np.cos(angles), np.sin(angles)


@case
def microsoft_layers(rng):
    """Gelu, BiasGelu, FastGelu, QuickGelu; layer normalization of a sum, with the sum, and of embeddings"""
    def weights(names):
        return {name: normal(rng, 8) for name in names}
    return Case("""
g (float[n,s,8] x, float[n,s,8] y, float[s,8] row, int32[n,s] words, int32[n,s] kinds, int32[n,s] mask) =>
  (float[n,s,8] erf, float[n,s,8] biased, float[n,s,8] fast, float[n,s,8] fastbiased, float[n,s,8] quick, float[n,s,8] skip, float[n,s,8] sum, float[n,s,8] skiprow,
   float[n,s,8] rms, float[n,s,8] rmssum, float[n,s,8] embedded, int32[n] lengths, float[n,s,8] plain, int32[n] none) {
  erf = com.microsoft.Gelu (x)
  biased = com.microsoft.BiasGelu (x, a)
  fast = com.microsoft.FastGelu (x)
  fastbiased = com.microsoft.FastGelu (x, a)
  quick = com.microsoft.QuickGelu <alpha = 1.5> (x)
  skip, , , sum = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, y, a, b, c)
  skiprow = com.microsoft.SkipLayerNormalization <epsilon = 1e-6> (x, row, a)
  rms, , , rmssum = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-5> (x, y, a, c)
  embedded, lengths = com.microsoft.EmbedLayerNormalization <epsilon = 1e-5> (words, kinds, we, pe, se, a, b, mask)
  plain, none = com.microsoft.EmbedLayerNormalization (words, , we, pe, , a, b)
}""", {**weights("abc"), "we": normal(rng, 9, 8), "pe": normal(rng, 6, 8), "se": normal(rng, 2, 8)},
        [{"x": normal(rng, n, s, 8), "y": normal(rng, n, s, 8), "row": normal(rng, s, 8), "words": ints(rng, 0, 9, n, s, dtype=np.int32), "kinds": ints(rng, 0, 2, n, s, dtype=np.int32),
          "mask": np.tile(np.arange(s) < s - 1, (n, 1)).astype(np.int32)} for n, s in ((2, 4), (1, 3))], domains=DOMAINS,
        settings={"atol": 1e-6, "why": "1 + erf(x) loses all but a few bits where erf(x) is near -1"})


@case
def microsoft_fused(rng):
    """FusedConv, FusedMatMul and FusedGemm with activations and their settings, sums and turned operands; CDist, Trilu, ExpandDims"""
    return Case("""
g (float[n,3,h,w] x, float[n,4,h,w] z, float[n,5,6] p, float[m,4] q) =>
  (float[n,4,h,w] relu, float[n,4,h,w] leaky, float[n,4,h,w] clip, float[n,4,h,w] hard, float[n,7,5] turned, float[a,b,c] moved, float[m,5] elu, float[m,5] scaled, float[m,5] selu, float[m,3] apart, float[m,4] low,
   float[m,1,4] wide) {
  relu = com.microsoft.FusedConv <activation = "Relu", pads = [1, 1, 1, 1]> (x, k, bias, z)
  leaky = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.3], pads = [1, 1, 1, 1]> (x, k)
  clip = com.microsoft.FusedConv <activation = "Clip", activation_params = [-0.5, 0.5], pads = [1, 1, 1, 1]> (x, k, bias)
  hard = com.microsoft.FusedConv <activation = "HardSigmoid", activation_params = [0.3, 0.4], pads = [1, 1, 1, 1]> (x, k, bias)
  turned = com.microsoft.FusedMatMul <alpha = 0.5, transA = 1, transB = 1> (v, p)
  moved = com.microsoft.FusedMatMul <transBatchA = 1> (u, t)
  elu = com.microsoft.FusedGemm <activation = "Elu", activation_alpha = 0.7, transB = 1, alpha = 1.5, beta = 0.5> (q, r, five)
  scaled = com.microsoft.FusedGemm <activation = "ScaledTanh", activation_alpha = 0.5, activation_beta = 0.7, transB = 1> (q, r, five)
  selu = com.microsoft.FusedGemm <activation = "Selu", activation_alpha = 1.5, activation_gamma = 1.1, transB = 1> (q, r)
  apart = com.microsoft.CDist <metric = "euclidean"> (q, centres)
  low = com.microsoft.Trilu <upper = 0> (q)
  wide = com.microsoft.ExpandDims (q, one)
}""", {"k": normal(rng, 4, 3, 3, 3), "bias": normal(rng, 4), "v": normal(rng, 6, 7), "u": normal(rng, 3, 2, 4), "t": normal(rng, 2, 4, 5), "r": normal(rng, 5, 4), "five": normal(rng, 5),
        "centres": normal(rng, 3, 4), "one": np.array(1, np.int32)},
        [{"x": normal(rng, n, 3, h, w), "z": normal(rng, n, 4, h, w), "p": normal(rng, n, 5, 6), "q": normal(rng, m, 4)} for n, h, w, m in ((1, 4, 5, 3), (2, 3, 3, 2))],
        domains=DOMAINS)


@case
def microsoft_attention(rng):
    """Attention and MultiHeadAttention: masks of every form, biases, a past, causal or not, values of another width, keys by head"""
    qkv = {"w": normal(rng, 10, 36, scale=0.3), "b": normal(rng, 36), "wn": normal(rng, 10, 30, scale=0.3), "bn": normal(rng, 30), "shift": normal(rng, 36)}
    def data(n, s, p):
        keys = (np.arange(s) < np.array([[s - 1], [max(1, s - 2)]])).astype(np.int32)[:n]
        return {"x": normal(rng, n, s, 10), "keys": keys, "pairs": np.maximum(ints(rng, 0, 2, n, s, s), np.eye(s)).astype(np.int32), "ends": keys.sum(1).astype(np.int32),
                "past": normal(rng, 2, n, 3, p, 4), "bias": normal(rng, 1, 3, s, s),
                "q": normal(rng, n, s, 12), "k": normal(rng, n, s, 12), "v": normal(rng, n, s, 12), "heads": normal(rng, n, 3, p, 4)}
    return Case("""
g (float[n,s,10] x, int32[n,s] keys, int32[n,s,s] pairs, int32[n] ends, float[2,n,3,p,4] past, float[1,3,s,s] bias, float[n,s,12] q, float[n,s,12] k, float[n,s,12] v, float[n,3,p,4] heads) =>
  (float[n,s,12] causal, float[2,n,3,t,4] present, float[n,s,12] masked, float[n,s,12] paired, float[n,s,12] ended, float[n,s,12] added, float[n,s,6] narrow,
   float[n,s,12] multi, float[n,s,12] shifted, float[n,s,12] padded, float[n,s,12] grown, float[n,3,t,4] pk, float[n,3,t,4] pv, float[n,s,12] cross) {
  causal, present = com.microsoft.Attention <num_heads = 3, unidirectional = 1> (x, w, b, , past)
  masked = com.microsoft.Attention <num_heads = 3> (x, w, b, keys)
  paired = com.microsoft.Attention <num_heads = 3, scale = 0.2, mask_filter_value = -3.0> (x, w, b, pairs)
  ended = com.microsoft.Attention <num_heads = 3, unidirectional = 1> (x, w, b, ends)
  added = com.microsoft.Attention <num_heads = 3> (x, w, b, , , bias)
  narrow = com.microsoft.Attention <num_heads = 3, qkv_hidden_sizes = [12, 12, 6]> (x, wn, bn)
  multi = com.microsoft.MultiHeadAttention <num_heads = 3, unidirectional = 1> (q, k, v)
  shifted = com.microsoft.MultiHeadAttention <num_heads = 3, scale = 0.3> (q, k, v, shift, , bias)
  padded = com.microsoft.MultiHeadAttention <num_heads = 3> (q, k, v, , keys)
  grown, pk, pv = com.microsoft.MultiHeadAttention <num_heads = 3> (q, k, v, , , , heads, heads)
  cross = com.microsoft.MultiHeadAttention <num_heads = 3> (q, heads, heads)
}""", qkv, [data(2, 4, 5), data(1, 3, 2)], domains=DOMAINS)


@case
def microsoft_grouped(rng):
    """GroupQueryAttention: a prompt and a step over a cache of free length, ragged sequences, rotation, a window, a cap, sinks, packed operands; RotaryEmbedding"""
    cos, sin = table(rng, 32, 8)
    def data(n, s, p, capacity, lengths):
        cache = normal(rng, 2, n, 2, capacity, 16)
        for i, length in enumerate(lengths):
            cache[:, i, :, length + 1 - s:] = 0
        return {"q": normal(rng, n, s, 64), "k": normal(rng, n, s, 32), "v": normal(rng, n, s, 32), "pk": cache[0], "pv": cache[1], "lengths": np.array(lengths, np.int32),
                "total": np.array(p + s, np.int32), "prompt": np.full(n, s - 1, np.int32), "size": np.array(s, np.int32), "packed": normal(rng, n, s, 128),
                "at": np.array([3], np.int64), "places": ints(rng, 0, 32, n, s)}
    return Case("""
g (float[n,s,64] q, float[n,s,32] k, float[n,s,32] v, float[n,2,c,16] pk, float[n,2,c,16] pv, int32[n] lengths, int32 total, int32[n] prompt, int32 size, float[n,s,128] packed, int64[1] at, int64[n,s] places) =>
  (float[n,s,64] step, float[n,2,d,16] keys, float[n,2,d,16] values, float[n,s,64] window, float[n,s,64] capped, float[n,s,64] sunk, float[n,s,64] first, float[n,s,64] smooth, float[n,s,64] both,
   float[n,s,64] turned, float[n,s,64] placed) {
  step, keys, values = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (q, k, v, pk, pv, lengths, total, cos, sin)
  window, wk, wv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, local_window_size = 3> (q, k, v, pk, pv, lengths, total)
  capped, ck, cv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, softcap = 2.0, scale = 0.2> (q, k, v, pk, pv, lengths, total)
  sunk, sk, sv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, local_window_size = 2> (q, k, v, pk, pv, lengths, total, , , , , sinks)
  first, fk, fv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1, rotary_interleaved = 1> (packed, , , , , prompt, size, cos, sin)
  smooth, mk, mv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, smooth_softmax = 1> (q, k, v, , , prompt, size)
  both, bk, bv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, causal = 0> (q, k, v, , , prompt, size)
  turned = com.microsoft.RotaryEmbedding <interleaved = 1> (q, at, cos, sin)
  placed = com.microsoft.RotaryEmbedding (q, places, cos, sin)
}""", {"cos": cos, "sin": sin, "sinks": normal(rng, 4)}, [data(2, 1, 5, 5, [5, 3]), data(1, 3, 4, 9, [6])], domains=DOMAINS)


@case
def microsoft_quantized(rng):
    """QLinearAdd and its relatives, QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul, QAttention, QuantizeLinear of the other domain"""
    one, byte = lambda x: np.array(x, np.float32), lambda x: np.array(x, np.uint8)
    weights = {"xs": one(0.05), "xz": byte(120), "ys": one(0.0317), "yz": byte(100), "zs": one(0.1), "zz": byte(128), "unit": one(1 / 256), "zero": byte(0), "w": small(rng, 4, 5), "ws": one(0.02),
               "wz": np.array(0, np.int8), "columns": rng.uniform(0.01, 0.05, 5).astype(np.float32), "zeros": np.zeros(5, np.int8), "c": normal(rng, 5), "ci": ints(rng, -99, 99, 5, dtype=np.int32),
               "wa": small(rng, 4, 36), "ba": normal(rng, 36), "far": one(0.0005), "middle": np.array(1000, np.uint16)}
    return Case("""
g (uint8[n,4] x, uint8[n,4] y, bool[n,4] which, uint8[n,2,h,w2] image, uint8[n,h,w2,2] last, float[n,4] real, uint8[n,s,4] rows, int32[n] ends) =>
  (uint8[n,4] sum, uint8[n,4] product, uint8[n,4] leaky, uint8[n,4] sigmoid, uint8[n,4] soft, uint8[n,8] joined, uint8[n,4] chosen, uint8[n,2,a,b] pool, uint8[n,2,1,1] mean, uint8[n,1,1,2] lastmean,
   uint8[n,5] gemm, float[n,5] wide, float[n,5] product1, float[n,5] dynamic, float[n,s,12] attended, uint16[n,4] sixteen, float[n,4] back) {
  sum = com.microsoft.QLinearAdd (x, xs, xz, y, ys, yz, zs, zz)
  product = com.microsoft.QLinearMul (x, xs, xz, y, ys, yz, zs, zz)
  leaky = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (x, xs, xz, zs, zz)
  sigmoid = com.microsoft.QLinearSigmoid (x, xs, xz, unit, zero)
  soft = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, xs, xz, unit, zero)
  joined = com.microsoft.QLinearConcat <axis = 1> (zs, zz, x, xs, xz, y, ys, yz)
  chosen = com.microsoft.QLinearWhere (which, x, xs, xz, y, ys, yz, zs, zz)
  pool = com.microsoft.QLinearAveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 1]> (image, xs, xz, ys, yz)
  mean = com.microsoft.QLinearGlobalAveragePool (image, xs, xz, ys, yz)
  lastmean = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (last, xs, xz, ys, yz)
  gemm = com.microsoft.QGemm (x, xs, xz, w, ws, wz, ci, zs, zz)
  wide = com.microsoft.QGemm <alpha = 1.5> (x, xs, xz, w, columns, zeros)
  product1 = com.microsoft.MatMulIntegerToFloat (x, w, xs, columns, xz, zeros, c)
  dynamic = com.microsoft.DynamicQuantizeMatMul (real, w, ws, wz, c)
  attended = com.microsoft.QAttention <num_heads = 3> (rows, wa, ba, xs, ws, ends, xz, wz)
  sixteen = com.microsoft.QuantizeLinear (real, far, middle)
  back = com.microsoft.DequantizeLinear (x, xs, xz)
}""", weights,
        [{"x": ints(rng, 0, 256, n, 4, dtype=np.uint8), "y": ints(rng, 0, 256, n, 4, dtype=np.uint8), "which": ints(rng, 0, 2, n, 4).astype(bool), "image": ints(rng, 0, 256, n, 2, h, w, dtype=np.uint8),
          "last": ints(rng, 0, 256, n, h, w, 2, dtype=np.uint8), "real": normal(rng, n, 4), "rows": ints(rng, 0, 256, n, s, 4, dtype=np.uint8), "ends": np.array([s, s - 1][:n], np.int32)}
         for n, h, w, s in ((2, 4, 5, 3), (1, 3, 3, 4))], domains=DOMAINS)


@case
def microsoft_packed(rng):
    """MatMulNBits with 2, 4 and 8 bits, zero points packed or floats, rows that do not fill their last block, a bias; codes of 4 bits (MatMulBnb4); GatherBlockQuantized; Unique"""
    def packed(rows, columns, size, bits):
        blocks = -(-columns // size)
        return ints(rng, 0, 256, rows, blocks, size * bits // 8, dtype=np.uint8), rng.uniform(0.01, 0.1, rows * blocks).astype(np.float32)
    weights = {}
    weights["w4"], weights["s4"] = packed(5, 40, 16, 4)
    weights["w8"], weights["s8"] = packed(5, 40, 32, 8)
    weights["w2"], weights["s2"] = packed(5, 40, 16, 2)
    weights.update(z4=ints(rng, 0, 256, 5 * 2, dtype=np.uint8), z8=ints(rng, 0, 256, 5 * 2, dtype=np.uint8), real=rng.uniform(0, 15, 15).astype(np.float32), bias=normal(rng, 5),
                   rows=ints(rng, 0, 256, 9, 16, dtype=np.uint8), scales=rng.uniform(0.01, 0.1, (9, 2)).astype(np.float32), zeros=ints(rng, 0, 256, 9, 1, dtype=np.uint8), codes=ints(rng, 0, 256, 100, dtype=np.uint8),
                   largest=rng.uniform(0.1, 2, 13).astype(np.float32), minus=np.array([-1], np.int64))
    return Case("""
g (float[n,m,40] x, int64[n,m] at) => (float[n,m,5] four, float[n,m,5] zeroed, float[n,m,5] floats, float[n,m,5] eight, float[n,m,5] two, float[n,m,32] gathered, float[n,m,32] plain, float[n,m,5] fp4, float[n,m,5] nf4, float[u] once, int64[k] where, int64[u] often) {
  four = com.microsoft.MatMulNBits <K = 40, N = 5, bits = 4, block_size = 16> (x, w4, s4, , , bias)
  zeroed = com.microsoft.MatMulNBits <K = 40, N = 5, bits = 4, block_size = 16> (x, w4, s4, z4)
  floats = com.microsoft.MatMulNBits <K = 40, N = 5, bits = 4, block_size = 16> (x, w4, s4, real)
  eight = com.microsoft.MatMulNBits <K = 40, N = 5, bits = 8, block_size = 32> (x, w8, s8, z8)
  two = com.microsoft.MatMulNBits <K = 40, N = 5, bits = 2, block_size = 16> (x, w2, s2)
  gathered = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 16, quantize_axis = 1> (rows, at, scales, zeros)
  plain = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 16, quantize_axis = 1> (rows, at, scales)
  fp4 = com.microsoft.MatMulBnb4 <K = 40, N = 5, block_size = 16, quant_type = 0> (x, codes, largest)
  nf4 = com.microsoft.MatMulBnb4 <K = 40, N = 5, block_size = 16, quant_type = 1> (x, codes, largest)
  flat = Reshape (at, minus)
  real_flat = Cast <to = 1> (flat)
  once, where, often = com.microsoft.Unique (real_flat)
}""", weights, [{"x": normal(rng, n, m, 40), "at": ints(rng, 0, 9, n, m)} for n, m in ((2, 3), (1, 1))], domains=DOMAINS)
