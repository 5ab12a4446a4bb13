"""The Python array API standard, version 2024.12, over weir.Tensor and weir's kernels.

    xp = weir.array_api
    y = xp.sum(xp.asarray([1.0, 2.0, 3.0]) ** 2)

The functions are those of https://data-apis.org/array-api/2024.12, with the same names. Complex numbers, and the extensions
linalg and fft, are not supported.
"""

from ._types import (
    __array_namespace_info__, astype, bfloat16, can_cast, e, finfo, float16, float32, float64, iinfo, inf, int16, int32,
    int64, int8, isdtype, nan, newaxis, pi, result_type, uint16, uint32, uint64, uint8,
)  # fmt: skip
from ._creation import (
    arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones, ones_like, tril,
    triu, zeros, zeros_like,
)  # fmt: skip
from ._elementwise import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_or,
    bitwise_right_shift, bitwise_xor, ceil, clip, conj, copysign, cos, cosh, divide, equal, exp, expm1, floor,
    floor_divide, greater, greater_equal, hypot, imag, isfinite, isinf, isnan, less, less_equal, log, log10, log1p,
    log2, logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative, nextafter,
    not_equal, positive, pow, real, reciprocal, remainder, round, sign, signbit, sin, sinh, sqrt, square, subtract, tan,
    tanh, trunc,
)  # fmt: skip
from ._manipulation import (
    broadcast_arrays, broadcast_to, concat, expand_dims, flip, matmul, matrix_transpose, moveaxis, permute_dims, repeat,
    reshape, roll, squeeze, stack, take, take_along_axis, tensordot, tile, unstack, vecdot,
)  # fmt: skip
from ._reductions import (
    all, any, argmax, argmin, argsort, count_nonzero, cumulative_prod, cumulative_sum, diff, max, mean, min, nonzero,
    prod, searchsorted, sort, std, sum, unique_all, unique_counts, unique_inverse, unique_values, var, where,
)  # fmt: skip
from ._types import bool_ as bool

__array_api_version__ = "2024.12"

__all__ = [
    "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort",
    "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bfloat16", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays",
    "broadcast_to", "can_cast", "ceil", "clip", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero",
    "cumulative_prod", "cumulative_sum", "diff", "divide", "e", "empty", "empty_like", "equal", "exp", "expand_dims",
    "expm1", "eye", "finfo", "flip", "float16", "float32", "float64", "floor", "floor_divide", "from_dlpack", "full",
    "full_like", "greater", "greater_equal", "hypot", "iinfo", "imag", "inf", "int16", "int32", "int64", "int8",
    "isdtype", "isfinite", "isinf", "isnan", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose", "max",
    "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter",
    "nonzero", "not_equal", "ones", "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal",
    "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh",
    "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh",
    "tensordot", "tile", "tril", "triu", "trunc", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
    "__array_api_version__",
]  # fmt: skip
