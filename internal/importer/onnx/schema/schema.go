// Package schema has ONNX's operators, version by version: their inputs and outputs, their attributes with types and
// defaults, and the element types that they accept, as ONNX 1.23 defines them up to version 28 of ai.onnx and in the
// domains ai.onnx.ml, ai.onnx.preview and ai.onnx.preview.training, and as ONNX Runtime 1.31 defines com.microsoft and
// the operators that ai.onnx had on trial. It describes the form of nodes, and not their meaning.
//
// operators.txt is that table. A line is an operator's version, with tabs between its fields:
//
//	domain name version flags inputs outputs attributes types
//
//	flags       deprecated: nodes of this version are refused; function, builder, trial: see the fields of Operator
//	inputs      NAME:TYPE, then ? for an optional one, and for the last, a variadic one, * or ~ (types may differ)
//	            and the least count
//	attributes  NAME:TYPE, then ! for a required one, =DEFAULT, or ? for a default that depends on other attributes
//	types       VARIABLE=N: the variable stands for one of the types on the N-th of the lines that begin with "types"
//
// Types are written as in Weir's programs: f32, seq(f32), optional(seq(f32)), map(i64,f32). The table also has types
// that Weir lacks, of 6 bits.
package schema

//go:generate sh -c "python3 generate.py > operators.txt"

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

//go:embed operators.txt
var operatorsText string

// Newest is the newest version of ai.onnx in the table.
const Newest = 28

// Operator is one version of an operator.
type Operator struct {
	Domain     string // "" is ai.onnx
	Name       string
	Since      int64 // the version of the domain's operator set that introduced it
	Deprecated bool
	Function   bool // ONNX defines it by other operators: a fixed body, or one that depends on attributes and types
	Builder    bool // the body depends on attributes and types
	Trial      bool // it was in ai.onnx only on trial, or exporters wrote it there before ai.onnx had it
	Inputs     []Parameter
	Outputs    []Parameter
	Attributes []Attribute         // by name
	Types      map[string][]string // the types that a variable stands for
}

// Parameter is an input or output.
type Parameter struct {
	Name     string
	Type     string // a variable of Operator.Types, or a type
	Optional bool   // may be omitted: if it is among the last, or by an empty name
	Variadic bool   // stands for Least or more values; only the last parameter may be variadic
	Least    int
	Mixed    bool // the values of a variadic parameter may differ in type
}

// Attribute is an attribute's type and default.
type Attribute struct {
	Name     string
	Kind     wire.AttributeType
	Required bool
	Default  *wire.AttributeProto // nil if there is none; shared by all callers, who must not change it
}

// key identifies an operator; the domain of ai.onnx is "".
type key struct{ domain, name string }

// table parses operators.txt once: about 800 operators, each with its versions in ascending order.
var table = sync.OnceValue(func() map[key][]*Operator {
	out := map[key][]*Operator{}
	var sets [][]string
	for line := range strings.Lines(operatorsText) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] == "types" {
			sets = append(sets, strings.Fields(fields[1]))
			continue
		}
		fields = append(fields, make([]string, 8)...)
		o := &Operator{
			Domain: fields[0], Name: fields[1], Since: number(fields[2]),
			Deprecated: strings.Contains(fields[3], "deprecated"),
			Builder:    strings.Contains(fields[3], "builder"),
			Function:   strings.Contains(fields[3], "builder") || strings.Contains(fields[3], "function"),
			Trial:      strings.Contains(fields[3], "trial"),
			Inputs:     parameters(fields[4]),
			Outputs:    parameters(fields[5]),
			Attributes: attributes(fields[6]),
			Types:      map[string][]string{},
		}
		for _, constraint := range strings.Fields(fields[7]) {
			variable, set, _ := strings.Cut(constraint, "=")
			o.Types[variable] = sets[number(set)]
		}
		k := key{o.Domain, o.Name}
		out[k] = append(out[k], o)
	}
	return out
})

// number parses an integer of the table; anything else is a bug.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(diag.Internalf("schema: %v", err))
	}
	return n
}

// parameters parses a list of NAME:TYPE, in which ? marks an optional parameter, *N a variadic one with at least N
// values, and ~N one whose values may differ in type.
func parameters(text string) []Parameter {
	var out []Parameter
	for _, field := range strings.Fields(text) {
		name, kind, _ := strings.Cut(field, ":")
		p := Parameter{Name: name, Type: kind}
		if at := strings.IndexAny(kind, "?*~"); at >= 0 {
			p.Type = kind[:at]
			p.Optional, p.Variadic, p.Mixed = kind[at] == '?', kind[at] != '?', kind[at] == '~'
			if p.Variadic {
				p.Least = int(number(kind[at+1:]))
			}
		}
		out = append(out, p)
	}
	return out
}

// attributeKinds maps the name of an attribute's type to the type.
var attributeKinds = func() map[string]wire.AttributeType {
	out := map[string]wire.AttributeType{}
	for kind := wire.AttributeFloat; kind <= wire.AttributeTypeProtos; kind++ {
		out[kind.String()] = kind
	}
	return out
}()

// attributes parses a list of attributes, as the package's documentation describes it.
func attributes(text string) []Attribute {
	var out []Attribute
	for _, field := range strings.Fields(text) {
		name, kind, _ := strings.Cut(field, ":")
		kind, value, given := strings.Cut(kind, "=")
		a := Attribute{Name: name, Required: strings.HasSuffix(kind, "!"),
			Kind: attributeKinds[strings.TrimRight(kind, "!?")]}
		if a.Kind == wire.AttributeUndefined {
			panic(diag.Internalf("schema: %q is no attribute", field))
		}
		if given {
			a.Default = defaults[a.Kind](name, []byte(value))
		}
		out = append(out, a)
	}
	return out
}

// defaults read a default as JSON.
var defaults = map[wire.AttributeType]func(name string, value []byte) *wire.AttributeProto{
	wire.AttributeInt: func(name string, v []byte) *wire.AttributeProto {
		return wire.IntAttribute(name, read[int64](v))
	},
	wire.AttributeFloat: func(name string, v []byte) *wire.AttributeProto {
		return wire.FloatAttribute(name, read[float32](v))
	},
	wire.AttributeString: func(name string, v []byte) *wire.AttributeProto {
		return wire.StringAttribute(name, read[string](v))
	},
	wire.AttributeInts: func(name string, v []byte) *wire.AttributeProto {
		return wire.IntsAttribute(name, read[[]int64](v)...)
	},
	wire.AttributeFloats: func(name string, v []byte) *wire.AttributeProto {
		return wire.FloatsAttribute(name, read[[]float32](v)...)
	},
	wire.AttributeStrings: func(name string, v []byte) *wire.AttributeProto {
		return wire.StringsAttribute(name, read[[]string](v)...)
	},
}

// read decodes JSON; a failure is a bug, because the table is embedded.
func read[T any](text []byte) (value T) {
	if err := json.Unmarshal(text, &value); err != nil {
		panic(diag.Internalf("schema: %s: %v", text, err))
	}
	return value
}

// Lookup returns the newest version of an operator that is not newer than version, which is the version of the domain
// that a model imports. The domain of ai.onnx may be "" too. ok is false if the operator does not exist at that
// version.
func Lookup(domain, name string, version int64) (o *Operator, ok bool) {
	for _, candidate := range table()[key{unaliased(domain), name}] {
		if candidate.Since > version {
			break
		}
		o = candidate
	}
	return o, o != nil
}

// Versions returns the versions of an operator, ascending; none if there is no such operator.
func Versions(domain, name string) []int64 {
	var out []int64
	for _, o := range table()[key{unaliased(domain), name}] {
		out = append(out, o.Since)
	}
	return out
}

// Names returns the sorted names of a domain's operators, except those that were only on trial.
func Names(domain string) []string {
	var out []string
	for k, versions := range table() {
		if k.domain == unaliased(domain) && slices.ContainsFunc(versions, func(o *Operator) bool { return !o.Trial }) {
			out = append(out, k.name)
		}
	}
	slices.Sort(out)
	return out
}

// unaliased returns the name under which the table has a domain: "" for ai.onnx.
func unaliased(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// Attribute returns the attribute with a name, or nil.
func (o *Operator) Attribute(name string) *Attribute {
	at, ok := slices.BinarySearchFunc(o.Attributes, name, func(a Attribute, name string) int {
		return strings.Compare(a.Name, name)
	})
	if !ok {
		return nil
	}
	return &o.Attributes[at]
}

// Input returns the parameter of the i-th input, or nil if there are fewer.
func (o *Operator) Input(i int) *Parameter { return parameterAt(o.Inputs, i) }

// Output returns the parameter of the i-th output, or nil if there are fewer.
func (o *Operator) Output(i int) *Parameter { return parameterAt(o.Outputs, i) }

// parameterAt returns the i-th parameter; a variadic last parameter stands for all further values.
func parameterAt(list []Parameter, i int) *Parameter {
	if last := len(list) - 1; i > last && last >= 0 && list[last].Variadic {
		i = last
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return &list[i]
}

// Accepts returns the types that a parameter may have.
func (o *Operator) Accepts(p *Parameter) []string {
	if types, ok := o.Types[p.Type]; ok {
		return types
	}
	return []string{p.Type}
}

// Arity returns the least and the greatest number of a node's inputs or outputs; most is −1 if there is no limit.
// Inputs that an empty name omits count.
func Arity(list []Parameter) (least, most int) {
	for i, p := range list {
		switch {
		case p.Variadic:
			return i + p.Least, -1
		case !p.Optional:
			least = i + 1
		}
	}
	return least, len(list)
}

// Check compares a node with the operator: it must not be deprecated, the numbers of inputs and outputs must fit, and
// attributes must be known, unique, of their type, and present if required. A mistake is an ErrInput that names node
// and operator. Of an attribute that refers to a function's attribute only name and type are checked. An input that an
// empty name omits counts as present, because exporters omit required inputs that make no difference, such as Resize's
// roi.
func (o *Operator) Check(n *wire.NodeProto) error {
	fail := func(format string, args ...any) error {
		return diag.Inputf("%s (version %d)", fmt.Sprintf(format, args...), o.Since).AtNode(n.Name, n.OpType)
	}
	if o.Deprecated {
		return fail("the operator is deprecated")
	}
	for _, side := range [...]struct {
		what       string
		names      []string
		parameters []Parameter
	}{{"input", n.Input, o.Inputs}, {"output", n.Output, o.Outputs}} {
		least, most := Arity(side.parameters)
		if got := len(side.names); got < least || most >= 0 && got > most {
			return fail("%d %ss where the operator has %s", got, side.what, limits(least, most))
		}
	}
	given := map[string]bool{}
	for _, a := range n.Attribute {
		known := o.Attribute(a.Name)
		switch {
		case known == nil:
			return fail("the operator has no attribute %.80q", a.Name)
		case given[a.Name]:
			return fail("the attribute %s is given twice", a.Name)
		case a.Kind() != known.Kind && !(a.Kind() == wire.AttributeUndefined && emptyList(known.Kind)):
			return fail("the attribute %s is of type %s, not %s", a.Name, a.Kind(), known.Kind)
		}
		given[a.Name] = true
	}
	for _, a := range o.Attributes {
		if a.Required && !given[a.Name] {
			return fail("the attribute %s is missing", a.Name)
		}
	}
	return nil
}

// emptyList reports whether an attribute of this kind may have no field at all, in a file that declares no types.
func emptyList(kind wire.AttributeType) bool {
	return kind == wire.AttributeInts || kind == wire.AttributeFloats || kind == wire.AttributeStrings
}

// limits prints an arity: "2", "1 to 3" or "at least 1".
func limits(least, most int) string {
	switch {
	case most < 0:
		return fmt.Sprintf("at least %d", least)
	case least == most:
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
