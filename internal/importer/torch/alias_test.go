package torch_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// made returns the JSON of a node of one tensor, with a name for its result.
func made(name, target, of, more string) string {
	return fmt.Sprintf(`{"target": "torch.ops.aten.%s", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": %q}}}%s],
		"outputs": [{"as_tensor": {"name": %q}}], "name": %[4]q}`, target, of, more, name)
}

// given returns the JSON of an argument of a node.
func given(name, arg string) string { return fmt.Sprintf(`, {"name": %q, "arg": %s}`, name, arg) }

const copied = `{"as_tensor": {"name": "c"}}`

// TestInPlace reads graphs of operators in place, and compares the modules that they become.
func TestInPlace(t *testing.T) {
	clone := made("c", "clone.default", "x", "") + ","
	row := made("r", "select.int", "c", given("dim", `{"as_int": 1}`)+given("index", `{"as_int": 2}`)) + ","
	becomes(t, map[string]graphCase{
		"a copy": {clone + made("w", "relu_.default", "c", "") + "," + made("y", "neg.default", "w", ""),
			"neg("},
		"an input": {made("w", "relu_.default", "x", "") + "," + made("y", "neg.default", "x", ""),
			"x.new"},
		"a view": {clone + row + made("w", "zero_.default", "r", "") + "," + made("y", "alias.default",
			"c", ""), "concat("},
		"a view by another name": {clone + row + made("w", "mul_.Scalar", "c", given("other", `{"as_int": 3}`)) + "," +
			made("y", "neg.default", "r", ""), "f32[s0] = neg("},
		"a tensor for the result": {clone + made("y", "exp.out", "x", given("out", copied)), "exp("},
		"an empty one": {made("e", "empty.memory_format", "x", given("size", `{"as_ints": [0]}`)) + "," +
			made("y", "exp.out", "x", given("out", `{"as_tensor": {"name": "e"}}`)), "exp("},
		"another shape": {clone + made("w", "unsqueeze_.default", "c", given("dim", `{"as_int": 0}`)) + "," +
			made("y", "neg.default", "w", ""), "f32[1, s0, 4]"},
		"a diagonal": {clone + made("d", "diagonal.default", "c", "") + "," + made("w", "fill_.Scalar", "d",
			given("value", `{"as_int": 1}`)) + "," + made("y", "neg.default", "c", ""), "scatter_nd("},
		"a view that nothing reads": {clone + made("f", "unfold.default", "c", given("dimension", `{"as_int": 1}`)+
			given("size", `{"as_int": 2}`)+given("step", `{"as_int": 1}`)) + "," + made("y", "neg.default", "f", ""), "neg("},
		"what is around its own part": {clone + node("higher_order.wrap_with_set_grad_enabled",
			positional(`{"as_bool": false}`, within(copied, made("w", "relu_.default", "c", ""), `{"as_tensor": {"name": "w"}}`),
				copied)), "max("},
	})
}

// TestHostileInPlace writes to memory that is shared in unknown ways, and to missing tensors.
func TestHostileInPlace(t *testing.T) {
	clone, write := made("c", "clone.default", "x", "")+",", func(to string) string {
		return "," + made("y", "zero_.default", to, "")
	}
	windows := given("dimension", `{"as_int": 1}`) + given("size", `{"as_int": 2}`) + given("step", `{"as_int": 1}`)
	deep, wide := clone+made("c0", "alias.default", "c", ""), clone+made("c0", "alias.default", "c", "")
	for i := range 1100 {
		deep += "," + made(fmt.Sprint("c", i+1), "alias.default", fmt.Sprint("c", i), "")
	}
	for i := range 900 {
		wide += "," + made(fmt.Sprint("c", i+1), "alias.default", fmt.Sprint("c", i), "")
	}
	for i := range 2000 {
		wide += "," + made(fmt.Sprint("w", i), "relu_.default", "c", "") + "," + made(fmt.Sprint("z", i), "neg.default",
			"c900", "")
	}
	for name, nodes := range map[string]string{
		"windows that overlap": clone + made("f", "unfold.default", "c", windows) + write("f"),
		"what windows are of":  clone + made("f", "unfold.default", "c", windows) + write("c"),
		"elements repeated": made("c", "sum.default", "x", "") + "," + made("f", "expand.default", "c",
			given("size", `{"as_ints": [4]}`)) + write("f"),
		"strides that overlap": clone + made("f", "as_strided.default", "c", given("size", `{"as_ints": [2, 2]}`)+
			given("stride", `{"as_ints": [1, 1]}`)) + write("f"),
		"a reshape, perhaps": clone + made("f", "reshape.default", "c", given("shape", `{"as_ints": [-1]}`)) +
			write("f"),
		"a conversion, perhaps": clone + made("f", "to.dtype", "c", given("memory_format", `{"as_int": 2}`)) + write("f"),
		"an old shape": clone + made("w", "unsqueeze_.default", "c", given("dim", `{"as_int": 0}`)) + "," +
			made("y", "neg.default", "c", ""),
		"another shape": clone + made("s", "sum.default", "x", "") + "," + made("y", "add_.Tensor", "s",
			given("other", copied)),
		"what nothing computes": made("y", "relu_.default", "q", ""),
		"nothing":               node("aten.relu_.default", ""),
		"a shape of nothing":    node("aten.squeeze_.default", ""),
		"a result for nothing":  made("y", "exp.out", "x", ""),
		"a result of another": made("s", "sum.default", "x", "") + "," + made("y", "exp.out", "x",
			given("out", `{"as_tensor": {"name": "s"}}`)),
		"an unknown operator":    made("y", "nothing_.default", "x", ""),
		"1,100 views of views":   deep + write("c1100"),
		"views made 2,000 times": wide + write("c"),
		"what is around a branch": clone + node("higher_order.cond",
			positional(`{"as_bool": true}`, within(copied, made("w", "relu_.default", "c", ""), `{"as_tensor": {"name": "w"}}`),
				within(copied, "", copied), tensorsNamed("c"))),
	} {
		_, err := parseGraph(program(nodes, "", ""))
		if err == nil || errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) &&
			!errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
