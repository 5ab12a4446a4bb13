package torch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// positional returns the JSON of arguments without names. It and the functions below are pieces of a node with graphs:
// arguments, tensors, and graphs of one operator.
func positional(args ...string) string {
	for i, a := range args {
		args[i] = `{"name": "", "arg": ` + a + `}`
	}
	return strings.Join(args, ", ")
}

// tensorsNamed returns the JSON of a list of tensors.
func tensorsNamed(names ...string) string {
	for i, n := range names {
		names[i] = fmt.Sprintf(`{"name": %q}`, n)
	}
	return `{"as_tensors": [` + strings.Join(names, ", ") + `]}`
}

// within returns the JSON of an argument that is a nested graph.
func within(inputs, nodes, outputs string) string {
	return `{"as_graph": {"name": "g", "graph": {"inputs": [` + inputs + `], "outputs": [` + outputs + `], "nodes": [` +
		nodes + `], "tensor_values": {}, "sym_int_values": {}}}}`
}

const (
	tensorX, tensorY = `{"as_tensor": {"name": "x"}}`, `{"as_tensor": {"name": "y"}}`
	asGraph          = `{"as_graph": {"name": "g"}}`
)

// unary returns a graph of one operator of x.
func unary(op string) string {
	return within(tensorX, node("aten."+op+".default", self), tensorY)
}

// condition returns a node that computes the truth of x's sum.
func condition(name string) string {
	return strings.ReplaceAll(node("aten.sum.default", self), `"y"`, `"s"`) + "," +
		strings.ReplaceAll(node("aten.gt.Scalar",
			`{"name": "self", "arg": {"as_tensor": {"name": "s"}}}, {"name": "other", "arg": {"as_int": 3}}`), `"y"`,
			`"`+name+`"`)
}

// graphCase has the nodes of a graph, and a substring of the text of the module that they become.
type graphCase struct{ nodes, want string }

// becomes reads graphs of x, and compares the modules that they become.
func becomes(t *testing.T, cases map[string]graphCase) {
	t.Helper()
	for name, c := range cases {
		m, err := parseGraph(program(c.nodes, "", ""))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if text := m.String(); !strings.Contains(text, c.want) {
			t.Errorf("%s becomes\n%s", name, text)
		}
	}
}

// TestControl reads nested graphs, and compares the modules that they become.
func TestControl(t *testing.T) {
	compared := func(target, a, b string) string {
		name := target[len("_operator."):][:2] // gt, an
		return fmt.Sprintf(`{"target": %q, "inputs": [{"name": "a", "arg": %s}, {"name": "b", "arg": %s}], `+
			`"outputs": [{"as_sym_bool": {"as_name": %q}}], "name": %[4]q}`, target, a, b, name)
	}
	rows, truth := size("sym_size.int", `, {"name": "dim", "arg": {"as_int": 0}}`), `{"as_sym_bool": {"as_name": "gt"}}`
	n := `{"as_sym_int": {"as_name": "n"}}`
	scaled := within(tensorX+`, {"as_sym_int": {"as_name": "k"}}`,
		node("aten.mul.Scalar", self+`, {"name": "other", "arg": {"as_sym_int": {"as_name": "k"}}}`), tensorY)
	becomes(t, map[string]graphCase{
		"a branch": {condition("p") + "," + node("higher_order.cond",
			positional(`{"as_tensor": {"name": "p"}}`, unary("relu"), unary("exp"), tensorsNamed("x"))), "= if("},
		"a size": {rows + "," + compared("_operator.gt", n, `{"as_int": 3}`) + "," + node("higher_order.cond",
			positional(truth, unary("relu"), unary("exp"), tensorsNamed("x"))), "gt("},
		"a truth": {node("higher_order.cond", positional(`{"as_bool": true}`, unary("relu"), unary("exp"),
			tensorsNamed("x"))), "= if("},
		"both of two": {rows + "," + compared("_operator.gt", n, `{"as_int": 3}`) + "," + compared("_operator.and_",
			truth, `{"as_bool": true}`) + "," + node("higher_order.cond",
			positional(`{"as_sym_bool": {"as_name": "an"}}`, unary("relu"), unary("exp"), tensorsNamed("x"))), "and("},
		"an assertion": {compared("_operator.gt", `{"as_sym_int": {"as_name": "unknown"}}`, `{"as_int": 3}`) + "," +
			node("aten.relu.default", self), "max("},
		"a loop": {node("higher_order.while_loop",
			positional(within(tensorX, condition("p"), `{"as_tensor": {"name": "p"}}`), unary("exp"), tensorsNamed("x"))),
			"= loop("},
		"a map": {node("higher_order.map_impl",
			positional(unary("exp"), tensorsNamed("x"), `{"as_ints": []}`)), "= scan("},
		"a scan": {strings.ReplaceAll(node("aten.select.int",
			self+`, {"name": "dim", "arg": {"as_int": 0}}, {"name": "index", "arg": {"as_int": 0}}`), `"y"`, `"h"`) + "," +
			node("higher_order.scan", positional(within(`{"as_tensor": {"name": "h"}}, `+tensorX,
				node("aten.add.Tensor", `{"name": "self", "arg": {"as_tensor": {"name": "h"}}}, {"name": "other", "arg": `+tensorX+
					`}`), tensorY+","+tensorY), tensorsNamed("h"), tensorsNamed("x"), `{"as_none": true}`)), "= scan("},
		"without gradients": {node("higher_order.wrap_with_set_grad_enabled",
			positional(`{"as_bool": false}`, unary("relu"), tensorX)), "max("},
		"a number for a graph": {node("higher_order.wrap_with_set_grad_enabled",
			positional(`{"as_bool": false}`, scaled, tensorX, `{"as_int": 7}`)), "mul("},
	})
}

// TestHostileControl gives wrong nested graphs. None panics, and a typed error refuses each soon.
func TestHostileControl(t *testing.T) {
	truth, x := `{"as_bool": true}`, tensorsNamed("x")
	test := within(tensorX, condition("p"), `{"as_tensor": {"name": "p"}}`)
	none, two := within("", "", ""), within(tensorX, "", tensorX+","+tensorX)
	cond := func(args ...string) string { return node("higher_order.cond", positional(args...)) }
	while := func(args ...string) string { return node("higher_order.while_loop", positional(args...)) }
	each := func(args ...string) string { return node("higher_order.map_impl", positional(args...)) }
	deep := unary("relu")
	for range 100 {
		deep = within(tensorX, cond(truth, deep, unary("exp"), x), tensorY)
	}
	wide := test // each builds the one nested in it twice
	for range 30 {
		wide = within(tensorX, while(wide, unary("exp"), x)+","+condition("p"), `{"as_tensor": {"name": "p"}}`)
	}
	itself := `{"target": "_operator.or_", "inputs": [{"name": "a", "arg": {"as_sym_bool": {"as_name": "p"}}}, {"name": "b", "arg": {"as_sym_bool": {"as_name": "p"}}}],
		"outputs": [{"as_sym_bool": {"as_name": "p"}}], "name": "p"},`
	for name, nodes := range map[string]string{
		"no arguments":             cond(),
		"a condition alone":        cond(truth),
		"one branch":               cond(truth, unary("relu")),
		"branches given nothing":   cond(truth, unary("relu"), unary("relu")),
		"branches given too much":  cond(truth, unary("relu"), unary("relu"), tensorsNamed("x", "x")),
		"no graph":                 cond(truth, asGraph, unary("relu"), x),
		"a tensor for a graph":     cond(truth, tensorX, unary("relu"), x),
		"a graph that is text":     cond(truth, `{"as_graph": "g"}`, unary("relu"), x),
		"a graph that is null":     cond(truth, `{"as_graph": {"graph": null}}`, unary("relu"), x),
		"branches of other counts": cond(truth, two, unary("relu"), x),
		"branches of nothing":      cond(truth, none, none),
		"branches of other types": cond(truth,
			within(tensorX, node("aten.gt.Scalar", self+`, {"name": "other", "arg": {"as_int": 0}}`), tensorY), unary("relu"),
			x),
		"branches of other ranks":           cond(truth, unary("sum"), unary("relu"), x),
		"a condition of many":               cond(tensorX, unary("relu"), unary("relu"), x),
		"a condition that nothing computes": cond(`{"as_sym_bool": {"as_name": "q"}}`, unary("relu"), unary("relu"), x),
		"a condition of itself": itself + cond(`{"as_sym_bool": {"as_name": "p"}}`, unary("relu"), unary("relu"),
			x),
		"a condition as a word":          cond(`{"as_string": "p"}`, unary("relu"), unary("relu"), x),
		"a result that nothing computes": cond(truth, within(tensorX, "", tensorY), unary("relu"), x),
		"a tensor from around":           cond(truth, within("", node("aten.relu.default", self), tensorY), none),
		"an output as a word":            cond(truth, within(tensorX, "", `{"as_string": "x"}`), unary("relu"), x),
		"graphs that are deep":           cond(truth, deep, unary("relu"), x),
		"loops that are built 2³⁰ times": while(wide, unary("exp"), x),
		"a loop of a condition alone":    while(test),
		"a loop that carries nothing":    while(none, none, `{"as_ints": []}`),
		"a loop that carries numbers":    while(test, unary("exp"), `{"as_ints": [1]}`),
		"a loop's condition of two":      while(two, unary("exp"), x),
		"a loop's condition of no truth": while(unary("exp"), unary("exp"), x),
		"a loop's body of two":           while(test, two, x),
		"a loop's body of another type":  while(test, unary("sum"), x),
		"a map of nothing":               each(unary("exp"), `{"as_ints": []}`),
		"a map without a body":           each(),
		"a map of a scalar": strings.ReplaceAll(node("aten.sum.default", self), `"y"`, `"s"`) + "," +
			each(unary("exp"), tensorsNamed("s")),
		"a map of no results": each(within(tensorX, "", ""), x),
		"a scan of other states": node("higher_order.scan",
			positional(within(tensorX+`, {"as_tensor": {"name": "h"}}`, "", `{"as_tensor": {"name": "h"}}`), x, x)),
		"a scan of fewer results": node("higher_order.scan",
			positional(within(tensorX+`, {"as_tensor": {"name": "h"}}`, "", ""), x, x)),
		"an operator in a graph":             cond(truth, unary("nothing"), unary("relu"), x),
		"a graph alone for what is repeated": node("higher_order.wrap_with_set_grad_enabled", positional(truth)),
	} {
		_, err := parseGraph(program(nodes, "", ""))
		if err == nil || errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) &&
			!errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
