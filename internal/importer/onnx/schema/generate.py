"""Writes operators.txt from the operator schemas of the Python packages onnx 1.23.2 and onnxruntime 1.31.1:
python3 generate.py > operators.txt

Its lines are explained in schema.go. Whatever does not fit the form fails here, not when the table is read.
"""
import json
import struct

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
from onnx import defs

NEWEST = 28  # of ai.onnx; the other domains are taken whole

# What onnxruntime alone describes: its own domain, operators that ai.onnx had on trial, and two that exporters write into ai.onnx before it had them.
RUNTIME_DOMAIN = "com.microsoft"
TRIAL = (
    "Affine Crop DynamicSlice GRUUnit GivenTensorFill ImageScaler MeanVarianceNormalization ParametricSoftplus Scale ScaledTanh "
    "ThresholdedRelu LayerNormalization SimplifiedLayerNormalization"
).split()

NAMES = dict(
    bool="bool", uint2="u2", int2="i2", uint4="u4", int4="i4", uint8="u8", int8="i8", uint16="u16", int16="i16", uint32="u32",
    int32="i32", uint64="u64", int64="i64", float4e2m1="f4e2m1", float8e4m3fn="f8e4m3fn", float8e4m3fnuz="f8e4m3fnuz",
    float8e5m2="f8e5m2", float8e5m2fnuz="f8e5m2fnuz", float8e8m0="f8e8m0", float16="f16", bfloat16="bf16", float6e2m3="f6e2m3", float6e3m2="f6e3m2", float="f32",
    double="f64", complex64="c64", complex128="c128", string="string",
)


def type_name(text):
    """tensor(float) is f32, seq(tensor(float)) is seq(f32), map(int64,tensor(float)) is map(i64,f32)."""
    text = text.replace(" ", "")
    if text in NAMES:
        return NAMES[text]
    kind, _, rest = text.partition("(")
    assert rest.endswith(")"), text
    inner = rest[:-1]
    if kind == "tensor":
        return NAMES[inner]
    if kind == "map":
        key, _, value = inner.partition(",")
        return f"map({NAMES[key]},{type_name(value)})"
    assert kind in ("seq", "optional", "sparse_tensor"), text
    return f"{kind}({type_name(inner)})"


def parameter(p):
    options = defs.OpSchema.FormalParameterOption
    suffix = {options.Single: "", options.Optional: "?"}.get(p.option)
    if suffix is None:
        suffix = f"{'*' if p.is_homogeneous else '~'}{p.min_arity}"
    kind = p.type_str
    if "(" in kind:
        kind = type_name(kind)
    assert p.name and not set(p.name + kind) & set(" :\t?*~"), (p.name, kind)
    return f"{p.name}:{kind}{suffix}"


def shortest(value):
    """The shortest decimal that is this float32."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", value):
            return text
    raise ValueError(value)


def default(a):
    kind = onnx.AttributeProto
    if a.type == kind.INT:
        return str(a.i)
    if a.type == kind.FLOAT:
        return shortest(a.f)
    if a.type == kind.STRING:
        return json.dumps(a.s.decode())
    if a.type == kind.INTS:
        return json.dumps(list(a.ints), separators=(",", ":"))
    if a.type == kind.FLOATS:
        return "[" + ",".join(shortest(f) for f in a.floats) + "]"
    if a.type == kind.STRINGS:
        return json.dumps([s.decode() for s in a.strings], separators=(",", ":"))
    raise ValueError(a)


def attribute(name, a):
    text = f"{name}:{a.type.name.lower()}"
    if a.required:
        text += "!"
    elif a.default_value.type != onnx.AttributeProto.UNDEFINED:
        if a.default_value.type == onnx.AttributeProto.TENSOR:
            return text + "?"  # LabelEncoder's, which depends on the other attributes
        text += "=" + default(a.default_value)
    assert not set(text) & set(" \t\n"), text
    return text


def check_arity(s, params, low, high):
    options = defs.OpSchema.FormalParameterOption
    least, most = 0, len(params)
    for i, p in enumerate(params):
        if p.option == options.Single:
            least = i + 1
        if p.option == options.Variadic:
            assert i == len(params) - 1, s.name
            least, most = i + p.min_arity, 2**31 - 1
    assert (least, most) == (low, high), (s.name, s.since_version, (least, most), (low, high))


def runtime_parameter(p, types):
    """A parameter as onnxruntime describes it, of which it does not say the least count: 1, or 0 for what is optional."""
    suffix = {"Single": "", "Optional": "?"}.get(p.option.name)
    if suffix is None:
        suffix = f"{'*' if p.isHomogeneous else '~'}1"
    kind = p.typeStr if p.typeStr in types or "(" not in p.typeStr else type_name(p.typeStr)
    name = p.name.replace(" ", "_")
    assert name and not set(name + kind) & set(" :\t?*~"), (name, kind)
    return f"{name}:{kind}{suffix}"


def runtime_attribute(name, a):
    text = f"{name}:{a.type.name.lower()}"
    if a.required:
        text += "!"
    elif a._default_value:
        value = onnx.AttributeProto()
        value.ParseFromString(a._default_value)
        text += "=" + default(value)
    assert not set(text) & set(" \t\n"), text
    return text


def main():
    sets, lines = {}, {}

    def line(domain, name, since, flags, inputs, outputs, attributes, constraints):
        numbered = []
        for variable, types in constraints:
            types = " ".join(sorted(type_name(t) for t in types))
            numbered.append(f"{variable}={sets.setdefault(types, len(sets))}")
        fields = [domain, name, str(since), " ".join(flags), " ".join(inputs), " ".join(outputs), " ".join(attributes), " ".join(numbered)]
        lines[domain, name, since] = "\t".join(fields).rstrip("\t")

    chosen = [s for s in defs.get_all_schemas_with_history() if s.domain or s.since_version <= NEWEST]
    for s in sorted(chosen, key=lambda s: (s.domain, s.name, s.since_version)):
        flags = [
            name for name, on in [
                ("deprecated", s.deprecated),
                ("function", s.has_function),
                ("builder", s.has_context_dependent_function),
            ] if on
        ]
        if not s.deprecated:
            check_arity(s, s.inputs, s.min_input, s.max_input)
            check_arity(s, s.outputs, s.min_output, s.max_output)
        line(
            s.domain, s.name, s.since_version, flags, [parameter(p) for p in s.inputs], [parameter(p) for p in s.outputs],
            [attribute(n, a) for n, a in sorted(s.attributes.items())], [(c.type_param_str, c.allowed_type_strs) for c in s.type_constraints],
        )

    extra = [
        s for s in runtime.get_all_operator_schema()
        if (s.domain == RUNTIME_DOMAIN or not s.domain and s.name in TRIAL) and (s.domain, s.name, s.since_version) not in lines
    ]
    for s in sorted(extra, key=lambda s: (s.domain, s.name, s.since_version)):
        flags = ["trial"] * (not s.domain) + ["deprecated"] * s.deprecated
        variables = {c.type_param_str for c in s.type_constraints}
        line(
            s.domain, s.name, s.since_version, flags, [runtime_parameter(p, variables) for p in s.inputs],
            [runtime_parameter(p, variables) for p in s.outputs], [runtime_attribute(n, a) for n, a in sorted(s.attributes.items())],
            [(c.type_param_str, c.allowed_type_strs) for c in s.type_constraints],
        )
    for types in sets:
        print("types\t" + types)
    for key in sorted(lines):
        print(lines[key])


main()
