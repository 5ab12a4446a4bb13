package torch_test

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/torch"
)

// argumentNames has the names of the operators' arguments, by the kinds that mostly fit them.
var argumentNames = map[string][]string{
	"tensor": {"self", "input", "other", "weight", "bias", "index", "src", "indices", "values", "mask", "source", "x1",
		"x2", "grid", "target",
		"grad_output", "grad_out", "offsets", "per_sample_weights", "running_mean", "running_var", "mean", "rstd", "output",
		"mat1", "mat2",
		"batch1", "batch2", "vec", "vec2", "query", "key", "value", "attn_mask", "condition", "real", "imag", "abs", "angle",
		"min", "max", "s", "exponent", "out"},
	"int": {"dim", "dim0", "dim1", "dim2", "start", "end", "step", "k", "mode", "reduction", "interpolation_mode",
		"padding_mode", "padding_idx",
		"divisor_override", "ignore_index", "storage_offset", "num_weights", "groups", "num_groups", "group", "diagonal",
		"offset", "chunks",
		"split_size", "length", "row", "col", "dtype", "start_dim", "end_dim", "a", "b", "compute_mode",
		"dimension", "normalization", "last_dim_size"},
	"ints": {"size", "shape", "stride", "padding", "dilation", "kernel_size", "output_size", "input_size", "dims",
		"normalized_shape", "repeats",
		"split_sizes", "sizes", "pad", "shifts", "output_padding"},
	"float": {"p", "eps", "alpha", "beta", "scale", "ord", "negative_slope", "threshold", "correction", "scales_h",
		"scales_w", "momentum"},
	"floats": {"scale_factors"},
	"bool": {"train", "training", "accumulate", "include_self", "align_corners", "ceil_mode", "include_last_offset",
		"keepdim", "transposed", "forward", "onesided"},
	"text":    {"reduce", "rounding_mode", "approximate", "equation"},
	"tensors": {"tensors"},
	"bools":   {"output_mask"},
}

// tensorNames are the inputs of the test's graphs.
var tensorNames = []string{"f", "x", "i", "j", "g", "v", "t", "n", "e"}

// randomArgument returns the JSON of an argument of a kind, with wrong or right contents.
func randomArgument(r *rand.Rand, kind string) string {
	number := func() int64 {
		return []int64{1, 2, 0, 3, 4, -1, -2, -7, 1 << 20, 1 << 40, -1 << 62}[min(r.Intn(11), r.Intn(11), r.Intn(11))]
	}
	tensor := func() string { return fmt.Sprintf(`{"name": %q}`, tensorNames[min(r.Intn(9), r.Intn(9))]) }
	float := func() string { return []string{"0.5", "0", "-3", "1e300", `"NaN"`, `"Infinity"`, "2"}[r.Intn(7)] }
	list := func(one func() string) string {
		var all []string
		for range []int{2, 1, 0, 3, 4, 5}[min(r.Intn(6), r.Intn(6))] {
			all = append(all, one())
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	switch kind {
	case "tensor":
		return `{"as_tensor": ` + tensor() + `}`
	case "int":
		return fmt.Sprintf(`{"as_int": %d}`, number())
	case "ints":
		return `{"as_ints": ` + list(func() string { return fmt.Sprint(number()) }) + `}`
	case "float":
		return `{"as_float": ` + float() + `}`
	case "floats":
		return `{"as_floats": ` + list(float) + `}`
	case "bool":
		return fmt.Sprintf(`{"as_bool": %t}`, r.Intn(2) == 0)
	case "bools":
		return `{"as_bools": ` + list(func() string { return "true" }) + `}`
	case "text":
		words := []string{"sum", "mean", "amax", "multiply", "floor", "tanh", "ij,jk->ik", "nothing"}
		return fmt.Sprintf(`{"as_string": %q}`, words[r.Intn(len(words))])
	case "tensors":
		if r.Intn(2) == 0 {
			return `{"as_optional_tensors": ` + list(func() string {
				return []string{`{"as_none": true}`, `{"as_tensor": {"name": "i"}}`, `{"as_tensor": {"name": "t"}}`}[r.Intn(3)]
			}) + `}`
		}
		return `{"as_tensors": ` + list(tensor) + `}`
	}
	return `{"as_none": true}`
}

// TestHostileArguments gives every operator arguments that are wrong in some way. None panics, and a refusal is always
// the file's fault.
func TestHostileArguments(t *testing.T) {
	const tries = 10
	tensors := `{"x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 4}]}, "i": {"dtype": 5, "sizes": [{"as_int": 3}]},
		"j": {"dtype": 5, "sizes": [{"as_int": 3}, {"as_int": 4}]}, "f": {"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 4}, {"as_int": 5}, {"as_int": 6}]},
		"g": {"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 4}, {"as_int": 4}, {"as_int": 2}]}, "v": {"dtype": 7, "sizes": [{"as_int": 4}]},
		"t": {"dtype": 12, "sizes": [{"as_int": 3}, {"as_int": 4}]}, "n": {"dtype": 7, "sizes": []}, "e": {"dtype": 7, "sizes": [{"as_int": 2},
		{"as_int": 3}, {"as_int": 0}, {"as_int": 5}]}}`
	var inputs, specs []string
	for _, name := range tensorNames {
		inputs = append(inputs, fmt.Sprintf(`{"as_tensor": {"name": %q}}`, name))
		specs = append(specs, fmt.Sprintf(`{"user_input": {"arg": {"as_tensor": {"name": %q}}}}`, name))
	}
	kinds := []string{"tensor", "int", "ints", "float", "floats", "bool", "text", "tensors", "bools", "none"}
	r := rand.New(rand.NewSource(1))
	for _, target := range torch.Operators() {
		plain, dot := target, strings.LastIndexByte(target, '.')
		for k := range tries + 4 {
			switch { // the last ones write to an argument
			case k >= tries+2:
				target = plain + "_out"
			case k >= tries:
				target = plain[:dot] + "_" + plain[dot:]
			}
			var args []string
			for _, kind := range kinds {
				for _, name := range argumentNames[kind] {
					as := kind
					switch {
					case name == "indices" && r.Intn(2) == 0:
						as = "tensors"
					case r.Intn(60) == 0:
						as = kinds[r.Intn(len(kinds))]
					case kind != "tensor" && r.Intn(2) == 0:
						continue
					}
					args = append(args, fmt.Sprintf(`{"name": %q, "arg": %s}`, name, randomArgument(r, as)))
				}
			}
			data := fmt.Sprintf(`{"graph_module": {"graph": {"inputs": [%s], "outputs": [{"as_tensor": {"name": "y"}}], "nodes": [{"target": "torch.ops.%s",
				"inputs": [%s], "outputs": [{"as_tensor": {"name": "y"}}%s], "name": "y"}], "tensor_values": %s,
				"sym_int_values": {}}, "signature": {"input_specs": [%s], "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}},
				"range_constraints": {}, "schema_version": {"major": 8, "minor": 0}}`, strings.Join(inputs, ", "), target, strings.Join(args, ", "),
				[]string{"", `, {"as_tensor": {"name": "z"}}`}[r.Intn(2)], tensors, strings.Join(specs, ", "))
			if _, err := parseGraph([]byte(data)); err != nil &&
				(errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) &&
					!errors.Is(err, diag.ErrUnsupported)) {
				t.Errorf("%s: %v\n%s", target, err, strings.Join(args, "\n"))
				break
			}
		}
	}
}

// TestMutations shows that new values of inputs become states, and that wrong ones are refused.
func TestMutations(t *testing.T) {
	with := func(outputs, specs string) (string, error) {
		data := strings.Replace(string(program(node("aten.relu.default", self)+", "+
			strings.ReplaceAll(node("aten.sum.default", self), `"y"`, `"z"`), "", "")),
			`"outputs": [{"as_tensor": {"name": "y"}}],
		"nodes"`, `"outputs": [`+outputs+`], "nodes"`, 1)
		data = strings.Replace(data, `{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}`, specs, 1)
		m, err := parseGraph([]byte(data))
		if err != nil {
			return "", err
		}
		return m.String(), nil
	}
	const y, z, x = `{"as_tensor": {"name": "y"}}`, `{"as_tensor": {"name": "z"}}`, `{"as_tensor": {"name": "x"}}`
	update := `{"user_input_mutation": {"arg": {"name": "y"}, "user_input_name": "x"}}`
	result := `{"user_output": {"arg": ` + y + `}}`
	for _, c := range [][2]string{{y + "," + y, update + "," + result}, {y, update}, {x, update}} {
		if text, err := with(c[0], c[1]); err != nil || !strings.Contains(text, "state %x -> %x.new") {
			t.Errorf("%v: %v\n%s", c, err, text)
		}
	}
	for name, c := range map[string][2]string{
		"an input that is none":  {y, strings.Replace(update, `"x"`, `"w"`, 1)},
		"a buffer that is none":  {y, `{"buffer_mutation": {"arg": {"name": "y"}, "buffer_name": "b"}}`},
		"an input twice":         {y + "," + y, update + "," + update},
		"another shape":          {z, update},
		"no tensor":              {`{"as_int": 3}`, update},
		"no name":                {y, `{"user_input_mutation": {}}`},
		"a loss":                 {y, `{"loss_output": {"arg": {"name": "y"}}}`},
		"a description of none":  {y, `{}`},
		"nothing that computes":  {`{"as_tensor": {"name": "q"}}`, update},
		"a name that is no name": {y, `{"user_input_mutation": {"user_input_name": 3}}`},
	} {
		if _, err := with(c[0], c[1]); err == nil || errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) &&
			!errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
