"""The official runner of ONNX's tests, through weir.onnx_backend."""

from __future__ import annotations

import unittest
import warnings

import numpy
import pytest
import weir

try:
    import onnx
    import weir.onnx_backend
except ImportError as error:
    missing = f"ONNX IS NOT INSTALLED ({error}): nothing here says that weir.onnx_backend works; pip install onnx"
    pytest.skip(missing, allow_module_level=True)

# Bernoulli's cases hold numbers that another generator drew. The runner measures the length of each tensor of a sequence,
# and stops at one without axes, which the last case has: weir's result is right there.
KNOWN = {
    *(f"test_resize_downsample_scales_{mode}_align_corners_cpu" for mode in ("cubic", "linear")),  # against Resize's text
    *(f"test_bernoulli{seed}{expanded}_cpu" for seed in ("", "_double", "_seed") for expanded in ("", "_expanded")),
    "test_loop16_seq_none_cpu",
}


def test_official_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx.backend.test

        cases = onnx.backend.test.BackendTest(weir.onnx_backend, __name__).test_cases
        suite = unittest.TestSuite()
        for case in cases.values():
            suite.addTests(case(name) for name in unittest.TestLoader().getTestCaseNames(case) if name.endswith("_cpu"))
        result = unittest.TestResult()
        suite.run(result)
    failed = {test.id().split(".")[-1] for test, _ in result.failures + result.errors}
    assert result.testsRun == 1914 and not result.skipped
    assert failed == KNOWN, failed ^ KNOWN


def test_interface():
    node = onnx.helper.make_node("Add", ["x", "y"], ["z"])
    x = numpy.ones((2, 3), numpy.float32)
    assert weir.onnx_backend.run_node(node, [x, x])[0].tolist() == [[2, 2, 2]] * 2
    assert weir.onnx_backend.supports_device("CPU") and not weir.onnx_backend.supports_device("CUDA:1")
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n"]) for n in "xy"],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n"])],
    )
    model = onnx.helper.make_model(graph)
    one = weir.onnx_backend.run_model(model, {"x": x[0], "y": x[0]})
    assert one["z"].tolist() == one[0].tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="CUDA"):
        weir.onnx_backend.prepare(model, "CUDA")


@pytest.mark.parametrize("name", "bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1fn int4 uint4 int2 uint2".split())
def test_narrow_types(name):
    """Arrays of ml_dtypes cross, packed."""
    import ml_dtypes
    from weir import _narrow

    dtype = numpy.dtype(getattr(ml_dtypes, name))
    for count in (0, 1, 2, 3, 4, 7, 16):
        x = numpy.arange(count).astype(numpy.float32).astype(dtype)
        ours = _narrow.name_of(x)
        t = weir._tensor.copied(x)
        assert t.dtype == ours and t.shape == (count,)
        back = t.numpy()
        assert back.dtype == dtype and back.tolist() == x.tolist()
