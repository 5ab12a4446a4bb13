package torch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
)

// The fields of the schema, torch/_export/serde/schema.py, that are read.

// schemaMajor is the supported version of the schema; later minor versions only add fields.
const schemaMajor = 8

// exportedProgram is a model as torch.export writes it.
type exportedProgram struct {
	GraphModule struct {
		Graph     splitGraph `json:"graph"`
		Signature struct {
			Inputs  []inputSpec  `json:"input_specs"`
			Outputs []outputSpec `json:"output_specs"`
		} `json:"signature"`
	} `json:"graph_module"`
	Ranges map[string]struct {
		Min *int64 `json:"min_val"`
		Max *int64 `json:"max_val"`
	} `json:"range_constraints"`
	Version struct {
		Major int `json:"major"`
		Minor int `json:"minor"`
	} `json:"schema_version"`
	TorchVersion string   `json:"torch_version"`
	Guards       []string `json:"guards_code"`

	record func(name string) string // the record that contents are in, by their name in the model; nil if there is none
	inner  map[*argument]*graphJSON // graphs that are arguments, once they are read
}

// splitGraph is a graph whose longest parts are decoded one by one, so that decoding can end between them.
type splitGraph struct {
	graphJSON
	Nodes   json.RawMessage `json:"nodes"`
	Tensors json.RawMessage `json:"tensor_values"`
}

// graphJSON is a graph of nodes with its values' types.
type graphJSON struct {
	Inputs  []argument            `json:"inputs"`
	Outputs []argument            `json:"outputs"`
	Nodes   []nodeJSON            `json:"nodes"`
	Tensors map[string]tensorMeta `json:"tensor_values"`
	Ints    map[string]symInt     `json:"sym_int_values"`
	Single  bool                  `json:"is_single_tensor_return"`
}

// nodeJSON is a call of an operator.
type nodeJSON struct {
	Target string `json:"target"`
	Inputs []struct {
		Name string   `json:"name"`
		Arg  argument `json:"arg"`
	} `json:"inputs"`
	Outputs []argument `json:"outputs"`
	Name    string     `json:"name"`
}

// tensorMeta is the type, shape and layout of a tensor.
type tensorMeta struct {
	DType         int      `json:"dtype"`
	Sizes         []symInt `json:"sizes"`
	Strides       []symInt `json:"strides"`
	StorageOffset symInt   `json:"storage_offset"`
}

// symInt is a number, or an expression over symbols.
type symInt struct {
	Int  *int64 `json:"as_int"`
	Expr *struct {
		Text string `json:"expr_str"`
	} `json:"as_expr"`
}

// inputSpec is a union with one key, the kind of the input.
type inputSpec map[string]json.RawMessage

// outputSpec is a union with one key, the kind of the output.
type outputSpec map[string]json.RawMessage

// argument is a union with one key, which names the kind of the value.
type argument struct {
	kind  string
	value json.RawMessage
}

// UnmarshalJSON reads a union.
func (a *argument) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var union map[string]json.RawMessage
	if err := json.Unmarshal(data, &union); err != nil {
		return err
	}
	if len(union) != 1 {
		return fmt.Errorf("an argument with %d kinds", len(union))
	}
	for kind, value := range union {
		a.kind, a.value = kind, value
	}
	return nil
}

// into decodes the value of an argument.
func (a *argument) into(to any) error {
	if err := json.Unmarshal(a.value, to); err != nil {
		return diag.Inputf("an argument %s of %.100q", a.kind, string(a.value))
	}
	return nil
}

// named is the name of a tensor, or of another value.
type named struct {
	Name string `json:"name"`
}

// namedNumber names a number or a truth value.
type namedNumber struct {
	Name string `json:"as_name"`
}

// number is a float; JSON has it as a number, or as a word if it is not finite.
type number float64

// UnmarshalJSON reads a number or a word.
func (n *number) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"Infinity"`, `"inf"`, "Infinity":
		*n = number(math.Inf(1))
	case `"-Infinity"`, `"-inf"`, "-Infinity":
		*n = number(math.Inf(-1))
	case `"NaN"`, `"nan"`, "NaN":
		*n = number(math.NaN())
	default:
		return json.Unmarshal(data, (*float64)(n))
	}
	return nil
}

// scalarTypes has the element types by the schema's numbers.
var scalarTypes = map[int]dtype.DType{
	1: dtype.U8, 2: dtype.I8, 3: dtype.I16, 4: dtype.I32, 5: dtype.I64, 6: dtype.F16, 7: dtype.F32, 8: dtype.F64,
	10: dtype.C64, 11: dtype.C128, 12: dtype.Bool, 13: dtype.BF16, 28: dtype.U16, 29: dtype.F8E4M3FN, 30: dtype.F8E5M2,
	31: dtype.F8E4M3FNUZ, 32: dtype.F8E5M2FNUZ, 33: dtype.F8E8M0, 34: dtype.U32, 35: dtype.U64,
}

// decode decodes the nodes and the types of tensors.
func (g *splitGraph) decode(claim *mem.Claim) error {
	g.graphJSON.Tensors = map[string]tensorMeta{}
	err := eachPart(claim, '[', g.Nodes, func(d *json.Decoder, _ string) error {
		var n nodeJSON
		if len(g.graphJSON.Nodes) == mostNodes {
			return fmt.Errorf("a graph of more than %d nodes", mostNodes)
		}
		err := d.Decode(&n)
		g.graphJSON.Nodes = append(g.graphJSON.Nodes, n)
		return err
	})
	if err != nil {
		return err
	}
	return eachPart(claim, '{', g.Tensors, func(d *json.Decoder, name string) error {
		var m tensorMeta
		err := d.Decode(&m)
		g.graphJSON.Tensors[name] = m
		return err
	})
}

// eachPart calls decode for each element of a JSON array or object, which begins with begin, with its key, until the
// claim's context ends.
func eachPart(claim *mem.Claim, begin json.Delim, text []byte, decode func(d *json.Decoder, key string) error) error {
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); first != begin {
		return fmt.Errorf("%v where %v begins a list or an object (%v)", first, begin, err)
	}
	for d.More() {
		if err := claim.Err(); err != nil {
			return err
		}
		key := ""
		if begin == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			key = name.(string)
		}
		if err := decode(d, key); err != nil {
			return err
		}
	}
	return nil
}

// parseProgram decodes and checks the JSON of a program, which is charged to the claim of its file.
func parseProgram(claim *mem.Claim, data []byte) (*exportedProgram, error) {
	if err := claim.JSON(data); err != nil {
		return nil, err
	}
	p := &exportedProgram{}
	err := json.Unmarshal(finite(data), p)
	if err == nil {
		err = p.GraphModule.Graph.decode(claim)
	}
	if ended := claim.Err(); ended != nil {
		return nil, ended
	}
	if err != nil {
		return nil, diag.Inputf("the exported program: %v", err).WithCause(err)
	}
	if p.Version.Major != schemaMajor {
		return nil, diag.Unsupportedf("version %d.%d of torch.export's schema; %d is read", p.Version.Major, p.Version.Minor,
			schemaMajor).
			WithFix("save the model with a torch between 2.9 and 2.15")
	}
	return p, nil
}

// finite quotes the words that Python writes for floats that are not finite, which JSON lacks. Strings stay as they
// are.
func finite(data []byte) []byte {
	var out []byte
	done, within := 0, false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++ // the escaped character does not end the string
		case '"':
			within = !within
		case 'N', 'I':
			if within {
				continue
			}
			for _, word := range []string{"NaN", "Infinity"} {
				if !bytes.HasPrefix(data[i:], []byte(word)) {
					continue
				}
				begin := i
				if begin > done && data[begin-1] == '-' {
					begin--
				}
				out = append(append(append(out, data[done:begin]...), '"'), data[begin:i+len(word)]...)
				out, done = append(out, '"'), i+len(word)
				i = done - 1
				break
			}
		}
	}
	if out == nil {
		return data
	}
	return append(out, data[done:]...)
}
