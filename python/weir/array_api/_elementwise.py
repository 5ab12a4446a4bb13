"""Functions of single elements. Operands of different types are converted to their common type, as by result_type."""

from __future__ import annotations

from .._operate import Scalar, binary, copy_of, operand, operate, quotient
from .._tensor import Tensor, zeros


def abs(x: Tensor, /) -> Tensor:
    """The magnitudes."""
    return operate("abs", x)


def acos(x: Tensor, /) -> Tensor:
    """The angles from 0 to π whose cosines are x."""
    return operate("acos", x)


def acosh(x: Tensor, /) -> Tensor:
    """The numbers whose hyperbolic cosines are x."""
    return operate("acosh", x)


def add(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 + x2."""
    return binary("add", x1, x2)


def asin(x: Tensor, /) -> Tensor:
    """The angles from −π/2 to π/2 whose sines are x."""
    return operate("asin", x)


def asinh(x: Tensor, /) -> Tensor:
    """The numbers whose hyperbolic sines are x."""
    return operate("asinh", x)


def atan(x: Tensor, /) -> Tensor:
    """The angles from −π/2 to π/2 whose tangents are x."""
    return operate("atan", x)


def atan2(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The angles from −π to π of the points (x2, x1)."""
    return binary("atan2", x1, x2)


def atanh(x: Tensor, /) -> Tensor:
    """The numbers whose hyperbolic tangents are x."""
    return operate("atanh", x)


def bitwise_and(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The bits that both have."""
    return binary("bitwise_and", x1, x2)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """The bits that x does not have."""
    return operate("bitwise_invert", x)


def bitwise_left_shift(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The bits of x1 shifted left by x2 positions."""
    return binary("shift_left", x1, x2)


def bitwise_or(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The bits that one of them has."""
    return binary("bitwise_or", x1, x2)


def bitwise_right_shift(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The bits of x1 shifted right by x2 positions; the sign stays."""
    return binary("shift_right", x1, x2)


def bitwise_xor(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The bits that exactly one of them has."""
    return binary("bitwise_xor", x1, x2)


def ceil(x: Tensor, /) -> Tensor:
    """The least integers not below x, in x's type."""
    return operate("ceil", x)


def clip(x: Tensor, /, min: Tensor | Scalar | None = None, max: Tensor | Scalar | None = None) -> Tensor:
    """x limited to at least min and at most max, in x's type."""
    limits = [None if limit is None else operand(limit, x.dtype) for limit in (min, max)]
    return operate("clip", x, *limits)


def conj(x: Tensor, /) -> Tensor:
    """A copy: there are no complex numbers."""
    return copy_of(x)


def copysign(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1's magnitudes with x2's signs."""
    return binary("copysign", x1, x2)


def cos(x: Tensor, /) -> Tensor:
    """The cosines."""
    return operate("cos", x)


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosines."""
    return operate("cosh", x)


def divide(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 / x2; for integers as f32."""
    return binary("div", x1, x2)


def equal(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 = x2."""
    return binary("equal", x1, x2)


def exp(x: Tensor, /) -> Tensor:
    """e to the power of x."""
    return operate("exp", x)


def expm1(x: Tensor, /) -> Tensor:
    """e to the power of x, minus 1, precise for small x."""
    return operate("expm1", x)


def floor(x: Tensor, /) -> Tensor:
    """The greatest integers not above x, in x's type."""
    return operate("floor", x)


def floor_divide(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The greatest integers not above x1 / x2; integers divided by 0 give 0."""
    return quotient(x1, x2)


def greater(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 > x2."""
    return binary("greater", x1, x2)


def greater_equal(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 ≥ x2."""
    return binary("greater_equal", x1, x2)


def hypot(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """√(x1² + x2²) without overflow."""
    return binary("hypot", x1, x2)


def imag(x: Tensor, /) -> Tensor:
    """Zeros: there are no complex numbers."""
    return zeros(x.shape, x.dtype)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether elements are neither infinite nor NaN."""
    return operate("isfinite", x)


def isinf(x: Tensor, /) -> Tensor:
    """Whether elements are infinite."""
    return operate("isinf", x)


def isnan(x: Tensor, /) -> Tensor:
    """Whether elements are NaN."""
    return operate("isnan", x)


def less(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 < x2."""
    return binary("less", x1, x2)


def less_equal(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 ≤ x2."""
    return binary("less_equal", x1, x2)


def log(x: Tensor, /) -> Tensor:
    """The natural logarithms."""
    return operate("log", x)


def log10(x: Tensor, /) -> Tensor:
    """The logarithms to the base 10."""
    return operate("log10", x)


def log1p(x: Tensor, /) -> Tensor:
    """The natural logarithms of 1 + x, precise for small x."""
    return operate("log1p", x)


def log2(x: Tensor, /) -> Tensor:
    """The logarithms to the base 2."""
    return operate("log2", x)


def logaddexp(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow."""
    return binary("logaddexp", x1, x2)


def logical_and(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether both are true."""
    return binary("logical_and", x1, x2)


def logical_not(x: Tensor, /) -> Tensor:
    """Whether elements are false, or 0."""
    return operate("logical_not", x)


def logical_or(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 or x2 is true."""
    return binary("logical_or", x1, x2)


def logical_xor(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether exactly one of them is true."""
    return binary("logical_xor", x1, x2)


def maximum(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The greater of x1 and x2; NaN if one of them is NaN."""
    return binary("maximum", x1, x2)


def minimum(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The smaller of x1 and x2; NaN if one of them is NaN."""
    return binary("minimum", x1, x2)


def multiply(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 · x2."""
    return binary("mul", x1, x2)


def negative(x: Tensor, /) -> Tensor:
    """The elements with the other sign."""
    return operate("neg", x)


def nextafter(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The next floats after x1 in the direction of x2."""
    return binary("nextafter", x1, x2)


def not_equal(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Whether x1 ≠ x2."""
    return binary("not_equal", x1, x2)


def positive(x: Tensor, /) -> Tensor:
    """A copy."""
    return copy_of(x)


def pow(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 to the power of x2; an integer to a negative power is 0, unless it is 1 or −1."""
    return binary("pow", x1, x2)


def real(x: Tensor, /) -> Tensor:
    """A copy: there are no complex numbers."""
    return copy_of(x)


def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x."""
    return operate("reciprocal", x)


def remainder(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """The remainder of x1 / x2, with x2's sign."""
    return binary("remainder", x1, x2)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, in x's type; of two, the even one."""
    return operate("round", x)


def sign(x: Tensor, /) -> Tensor:
    """−1, 0 or 1 if elements are less than, equal to or greater than 0; NaN for NaN."""
    return operate("sign", x)


def signbit(x: Tensor, /) -> Tensor:
    """Whether elements have a minus sign; zeros and NaN have signs too."""
    return operate("signbit", x)


def sin(x: Tensor, /) -> Tensor:
    """The sines."""
    return operate("sin", x)


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sines."""
    return operate("sinh", x)


def sqrt(x: Tensor, /) -> Tensor:
    """The square roots."""
    return operate("sqrt", x)


def square(x: Tensor, /) -> Tensor:
    """The squares."""
    return operate("square", x)


def subtract(x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 − x2."""
    return binary("sub", x1, x2)


def tan(x: Tensor, /) -> Tensor:
    """The tangents."""
    return operate("tan", x)


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangents."""
    return operate("tanh", x)


def trunc(x: Tensor, /) -> Tensor:
    """The elements without their fractional parts, in x's type."""
    return operate("trunc", x)
