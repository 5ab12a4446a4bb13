package torch_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/torch"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
)

// claimOf returns the claim of a file.
func claimOf(data []byte) *mem.Claim { return mem.NewClaim(context.Background(), int64(len(data))) }

// parseGraph builds the module of a graph as JSON alone.
func parseGraph(data []byte) (*ir.Module, error) {
	m, _, err := torch.ParseGraph(claimOf(data), data)
	return m, err
}

var rewrite = flag.Bool("rewrite", false, "write the list of operators into docs/torch.md")

// TestList compares the list of operators in docs/torch.md with the rules.
func TestList(t *testing.T) {
	const file, mark = "../../../docs/torch.md", "<!-- generated: go test ./internal/importer/torch -rewrite -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatal("the document has no place for the list")
	}
	list := torch.Operators()
	var b strings.Builder
	fmt.Fprintf(&b, "%d overloads:\n\n", len(list))
	overloads, names := map[string][]string{}, []string{}
	for _, name := range list {
		at := strings.LastIndexByte(name, '.')
		if overloads[name[:at]] == nil {
			names = append(names, name[:at])
		}
		overloads[name[:at]] = append(overloads[name[:at]], name[at+1:])
	}
	line := ""
	for i, name := range names {
		word := "`" + strings.TrimPrefix(name, "aten.") + "`"
		if others := overloads[name]; len(others) > 1 || others[0] != "default" {
			word += " (" + strings.Join(others, ", ") + ")"
		}
		if i < len(names)-1 {
			word += ","
		}
		if len(line)+len(word) > 118 {
			b.WriteString(strings.TrimSpace(line) + "\n")
			line = ""
		}
		line += word + " "
	}
	b.WriteString(strings.TrimSpace(line) + "\n")
	if *rewrite {
		if err := os.WriteFile(file, []byte(before+mark+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if after != b.String() {
		t.Error("docs/torch.md lists other operators: go test ./internal/importer/torch -rewrite")
	}
}

// program returns the JSON of a graph with one input x and these nodes.
func program(nodes, tensors, extra string) []byte {
	return fmt.Appendf(nil, `{"graph_module": {"graph": {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "y"}}],
		"nodes": [%s], "tensor_values": {"x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 4}]}%s}, "sym_int_values": {}},
		"signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}], "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}},
		"range_constraints": {"s0": {"min_val": 1, "max_val": 9}}, "schema_version": {"major": 8, "minor": 0}, "torch_version": "2.15"%s}`, nodes, tensors, extra)
}

// node returns the JSON of a node y of an operator.
func node(target, inputs string) string {
	return fmt.Sprintf(`{"target": "torch.ops.%s", "inputs": [%s], `+
		`"outputs": [{"as_tensor": {"name": "y"}}], "name": "y"}`,
		target, inputs)
}

// size returns a node of x whose result is the integer n.
func size(target, inputs string) string {
	return fmt.Sprintf(`{"target": "torch.ops.aten.%s", "inputs": [%s], `+
		`"outputs": [{"as_sym_int": {"as_name": "n"}}], "name": "n"}`, target, self+inputs)
}

// integer returns a node whose result is a function of 7 and a number.
func integer(target string, b int) string {
	return fmt.Sprintf(`{"target": %q, "inputs": [{"name": "a", "arg": {"as_int": 7}}, {"name": "b", "arg": {"as_int": %d}}],
		"outputs": [{"as_sym_int": {"as_name": "n"}}], "name": "n"}`, target, b)
}

const self = `{"name": "self", "arg": {"as_tensor": {"name": "x"}}}`

// TestGraph reads graphs, and compares the modules that they become.
func TestGraph(t *testing.T) {
	for _, c := range []struct{ nodes, want string }{
		{node("aten.relu.default", self), "%y: f32[s0, 4] = max("},
		{node("aten.add.Scalar", self+`, {"name": "other", "arg": {"as_float": "Infinity"}}`), "add("},
		{node("aten.view.default", self+`, {"name": "size", "arg": {"as_ints": [-1]}}`), "f32[4*s0]"},
		{node("aten.sum.dim_IntList",
			self+`, {"name": "dim", "arg": {"as_ints": [-1]}}, {"name": "keepdim", "arg": {"as_bool": true}}`), "f32[s0, 1]"},
		{node("aten.slice.Tensor", self+
			`, {"name": "dim", "arg": {"as_int": 1}}, {"name": "start", "arg": {"as_int": -3}}, `+
			`{"name": "end", "arg": {"as_int": 9223372036854775807}}`), "f32[s0, 3]"},
		{size("sym_numel.default", "") + "," + node("aten.view.default",
			self+`, {"name": "size", "arg": {"as_sym_ints": [{"as_name": "n"}]}}`), "f32[4*s0]"},
		{size("sym_stride.int", `, {"name": "dim", "arg": {"as_int": 0}}`) + "," + node("aten.unfold.default", self+`, {"name": "dimension",
			"arg": {"as_int": 1}}, {"name": "size", "arg": {"as_sym_int": {"as_name": "n"}}}, {"name": "step", "arg": {"as_int": 1}}`), "f32[s0, 1, 4]"},
		{size("sym_storage_offset.default", "") + "," + node("aten.narrow.default", self+`, {"name": "dim", "arg": {"as_int": 1}}, {"name": "start",
			"arg": {"as_sym_int": {"as_name": "n"}}}, {"name": "length", "arg": {"as_int": 2}}`), "f32[s0, 2]"},
		{size("sym_size.int", `, {"name": "dim", "arg": {"as_int": -2}}`) + "," + node("aten.select.int", self+`, {"name": "dim", "arg": {"as_int": 0}},
			{"name": "index", "arg": {"as_int": -1}}`), "f32[4]"},
		{node("aten.as_strided.default",
			self+`, {"name": "size", "arg": {"as_ints": [2, 2]}}, {"name": "stride", "arg": {"as_ints": [2, 1]}}`), "f32[2, 2]"},
		{node("aten.sign.default", self), "%y: f32[s0, 4] = where("},
		{node("aten.gt.Scalar", self+`, {"name": "other", "arg": {"as_int": 0}}`), "bool[s0, 4]"},
	} {
		m, err := parseGraph(program(c.nodes, "", ""))
		if err != nil {
			t.Error(c.nodes, err)
		} else if text := m.String(); !strings.Contains(text, c.want) || !strings.Contains(text, "dim s0 in [1, 9]") {
			t.Errorf("%s becomes\n%s", c.nodes, text)
		}
	}
}

// TestIntegers shows that quotients by integers that may be 0 check them, and that indices that do not count from the
// end become unsigned.
func TestIntegers(t *testing.T) {
	number := func(n int) string { return fmt.Sprintf(`, {"name": "other", "arg": {"as_int": %d}}`, n) }
	tensor := `, {"name": "other", "arg": {"as_tensor": {"name": "x"}}}`
	mode := func(name string) string { return `, {"name": "rounding_mode", "arg": {"as_string": "` + name + `"}}` }
	const at = `, {"name": "dim", "arg": {"as_int": 0}}, {"name": "index", "arg": {"as_tensor": {"name": "x"}}}`
	for _, c := range []struct {
		node, has string
		want      bool
	}{
		{node("aten.floor_divide.default", self+tensor), "= divisor(", true},
		{node("aten.floor_divide.default", self+number(0)), "= divisor(", true},
		{node("aten.floor_divide.default", self+number(3)), "= divisor(", false},
		{node("aten.remainder.Tensor", self+tensor), "= divisor(", true},
		{node("aten.remainder.Scalar", self+number(-2)), "= divisor(", false},
		{node("aten.fmod.Tensor", self+tensor), "= divisor(", true},
		{node("aten.div.Tensor_mode", self+tensor+mode("trunc")), "= divisor(", true},
		{node("aten.div.Tensor_mode", self+tensor+mode("floor")), "= divisor(", true},
		{node("aten.div.Tensor", self+tensor), "= divisor(", false},
		{node("aten.gather.default", self+at), "to = dtype u64", true},
		{node("aten.embedding.default", `{"name": "weight", "arg": {"as_tensor": {"name": "x"}}},
			{"name": "indices", "arg": {"as_tensor": {"name": "x"}}}`), "to = dtype u64", true},
	} {
		m, err := parseGraph(bytes.Replace(program(c.node, "", ""), []byte(`"dtype": 7`), []byte(`"dtype": 5`), 1))
		if err != nil {
			t.Error(c.node, err)
		} else if text := m.String(); strings.Contains(text, c.has) != c.want {
			t.Errorf("%s becomes\n%s", c.node, text)
		}
	}
}

// TestGuards shows that torch's guards on sizes become conditions, and that a guard that cannot be read refuses the
// file.
func TestGuards(t *testing.T) {
	with := func(guard string) (string, error) {
		m, err := parseGraph(program(node("aten.relu.default", self), "", fmt.Sprintf(`, "guards_code": [%q]`, guard)))
		if err != nil {
			return "", err
		}
		return m.String(), nil
	}
	for guard, want := range map[string]string{
		"2*L['x'].size()[0] > 3 + L['x'].size()[1]": "7 < 2*s0",
		"(L['x'].size()[0] % 4) == 0":               "s0%4 == 0",
		"L['x'].size()[0] >= 5":                     "5 <= s0",
		"L['x'].size()[0] <= L['x'].size()[1]":      "s0 <= 4",
		"L['x'].size()[0] != 3":                     "s0 != 3",
	} {
		if text, err := with(guard); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s", guard, err, text)
		}
	}
	for _, guard := range []string{"L['z'].size()[0] > 3", "L['x'].size()[7] > 3",
		"L['x'].size()[0] > 3 and L['x'].size()[1] > 2", "L['x'] is None",
		"f(L['x'].size()[0]) > 3", "s0 > 3", "", "L['x'].size()[0]"} {
		if _, err := with(guard); !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%q: %v", guard, err)
		}
	}
	if _, err := with("L['x'].size()[0] > 9"); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a guard that never holds: %v", err)
	}
}

// TestHostile gives wrong graphs: each is refused, and the error names its node.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("(", 5000) + "s0" + strings.Repeat(")", 5000)
	for name, data := range map[string][]byte{
		"an unknown operator": program(node("aten.nothing.default", self), "", ""),
		"a missing tensor": program(node("aten.relu.default",
			`{"name": "self", "arg": {"as_tensor": {"name": "z"}}}`), "", ""),
		"a missing argument": program(node("aten.relu.default", ""), "", ""),
		"an argument of two kinds": program(node("aten.relu.default",
			`{"name": "self", "arg": {"as_tensor": {"name": "x"}, "as_int": 1}}`), "", ""),
		"a number for a tensor's name": program(node("aten.relu.default", `{"name": "self", "arg": {"as_tensor": 3}}`), "",
			""),
		"an axis beyond": program(node("aten.softmax.int", self+`, {"name": "dim", "arg": {"as_int": 7}}`),
			"", ""),
		"a place behind the last": program(node("aten.select.int",
			self+`, {"name": "dim", "arg": {"as_int": 1}}, {"name": "index", "arg": {"as_int": 4}}`), "", ""),
		"a part that is too long": program(node("aten.narrow.default",
			self+`, {"name": "dim", "arg": {"as_int": 1}}, {"name": "start", "arg": {"as_int": 2}}, `+
				`{"name": "length", "arg": {"as_int": 3}}`), "", ""),
		"parts that are too long": program(node("aten.split_with_sizes.default",
			self+`, {"name": "split_sizes", "arg": {"as_ints": [3, 3]}}, {"name": "dim", "arg": {"as_int": 1}}`), "", ""),
		"memory behind the last element": program(node("aten.as_strided.default",
			self+`, {"name": "size", "arg": {"as_ints": [99]}}, {"name": "stride", "arg": {"as_ints": [1]}}`), "", ""),
		"a quotient by 0": program(integer("_operator.floordiv", 0)+","+node("aten.relu.default", self), "",
			""),
		"a remainder by 0":   program(integer("_operator.mod", 0)+","+node("aten.relu.default", self), "", ""),
		"pairs of 4 numbers": program(node("aten.view_as_complex.default", self), "", ""),
		"a transform along no axis": program(node("aten._fft_r2c.default",
			self+`, {"name": "dim", "arg": {"as_ints": []}}`), "", ""),
		"a result of complex numbers": program(node("aten._fft_r2c.default",
			self+`, {"name": "dim", "arg": {"as_ints": [1]}}`), "", ""),
		"two open extents": program(node("aten.view.default",
			self+`, {"name": "size", "arg": {"as_ints": [-1, -1]}}`), "", ""),
		"many indices": program(node("aten.triu_indices.default",
			`{"name": "row", "arg": {"as_int": 1000000000}}, {"name": "col", "arg": {"as_int": 1000000000}}`), "", ""),
		"parts of nothing": program(node("aten.split.Tensor",
			self+`, {"name": "split_size", "arg": {"as_int": 0}}, {"name": "dim", "arg": {"as_int": 1}}`), "", ""),
		"a product of numbers": program(strings.Replace(node("aten.sum.default", self), `"y"`, `"n"`, 2)+","+
			node("aten.matmul.default",
				`{"name": "self", "arg": {"as_tensor": {"name": "n"}}}, {"name": "other", "arg": {"as_tensor": {"name": "n"}}}`),
			"", ""),
		"an open extent in front": program(node("aten.expand.default",
			self+`, {"name": "size", "arg": {"as_ints": [-1, 3, 4]}}`), "", ""),
		"axes in the wrong order": program(node("aten.flatten.using_ints",
			self+`, {"name": "start_dim", "arg": {"as_int": 1}}, {"name": "end_dim", "arg": {"as_int": -2}}`), "", ""),
		"a norm over more axes": program(node("aten.layer_norm.default",
			`{"name": "input", "arg": {"as_tensor": {"name": "x"}}}, `+
				`{"name": "normalized_shape", "arg": {"as_ints": [2, 3, 4, 5]}}`), "", ""),
		"a kernel without axes": program(node("aten.conv1d.default",
			`{"name": "input", "arg": {"as_tensor": {"name": "x"}}}, {"name": "weight", "arg": {"as_tensor": {"name": "x"}}}`),
			"", ""),
		"a permutation of too few": program(node("aten.permute.default",
			self+`, {"name": "dims", "arg": {"as_ints": [0]}}`), "", ""),
		"no result": program("", "", ""),
		"an expression without an end": bytes.Replace(program(node("aten.relu.default", self), "", ""), []byte(`"s0"}}`),
			[]byte(`"(s0"}}`), 1),
		"a deep expression": bytes.Replace(program(node("aten.relu.default", self), "", ""), []byte(`"s0"}}`),
			[]byte(`"`+deep+`"}}`), 1),
		"an unknown function": bytes.Replace(program(node("aten.relu.default", self), "", ""), []byte(`"s0"}}`),
			[]byte(`"Gamma(s0)"}}`), 1),
		"a great power": bytes.Replace(program(node("aten.relu.default", self), "", ""), []byte(`"s0"}}`),
			[]byte(`"s0**99999999"}}`), 1),
		"an unknown type": bytes.Replace(program(node("aten.relu.default", self), "", ""),
			[]byte(`"dtype": 7`), []byte(`"dtype": 77`), 1),
		"a negative extent": bytes.Replace(program(node("aten.relu.default", self), "", ""),
			[]byte(`{"as_int": 4}`), []byte(`{"as_int": -4}`), 1),
		"an empty range": bytes.Replace(program(node("aten.relu.default", self), "", ""),
			[]byte(`"max_val": 9`), []byte(`"max_val": 0`), 1),
		"another schema": bytes.Replace(program(node("aten.relu.default", self), "", ""),
			[]byte(`"major": 8`), []byte(`"major": 9`), 1),
		"more inputs than are described": bytes.Replace(program(node("aten.relu.default", self), "", ""),
			[]byte(`"inputs": [{`), []byte(`"inputs": [{"as_tensor": {"name": "x"}}, {`), 1),
		"no JSON": []byte(`{"graph_m`),
		"nothing": nil,
	} {
		_, err := parseGraph(data)
		if err == nil || errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) &&
			!errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{"nothing": nil, "no archive": []byte("PK\x03\x04 and no more")} {
		if _, _, err := torch.Parse(claimOf(data), data); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
