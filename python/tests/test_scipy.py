"""scipy.stats over weir's arrays, beside NumPy's. SciPy reads SCIPY_ARRAY_API when it is imported."""

from __future__ import annotations

import os

import numpy as np
import pytest
import weir
import weir.array_api as xp

os.environ["SCIPY_ARRAY_API"] = "1"
stats = pytest.importorskip("scipy.stats")

FUNCTIONS = {
    "skew": stats.skew,
    "skew, unbiased": lambda a, **how: stats.skew(a, bias=False, **how),
    "kurtosis": stats.kurtosis,
    "kurtosis, unbiased": lambda a, **how: stats.kurtosis(a, bias=False, fisher=False, **how),
    "ttest": lambda a, **how: stats.ttest_1samp(a, 0.1, **how),
    "ttest, one-sided": lambda a, **how: stats.ttest_1samp(a, 0.1, alternative="less", **how),
    "ttest, interval": lambda a, **how: stats.ttest_1samp(a, 0.1, **how).confidence_interval(0.9),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_statistics(name):
    rng = np.random.default_rng(0)
    for shape, axes in (((20,), (0, None)), ((7, 5), (0, -1, np.int64(1), None))):
        for dtype, tolerance in (("float32", 2e-4), ("float64", 1e-7)):
            x = rng.normal(0.3, 1, shape).astype(dtype)
            x.flat[3] = x.flat[4]  # a tie
            for axis in axes:
                for policy in ("propagate", "omit", "raise"):
                    f = FUNCTIONS[name]
                    expected, got = f(x, axis=axis, nan_policy=policy), f(xp.asarray(x), axis=axis, nan_policy=policy)
                    if not name.startswith("ttest"):
                        expected, got = (expected,), (got,)
                    for e, g in zip(expected, got):
                        assert isinstance(g, weir.Tensor) and g.shape == np.shape(e)
                        np.testing.assert_allclose(g.numpy(), e, rtol=tolerance, atol=tolerance)
