package values

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// Value is the value of an input or output: a tensor, a sequence of tensors, or an optional of either.
type Value = wire.Value

// Of returns the value of an input or output that is one tensor.
func Of(name string, t *Array) Value { return Value{Name: name, Tensors: []*Array{t}} }

// sequence reports whether values of a kind are lists of tensors.
func sequence(k weir.Kind) bool { return k == weir.SequenceKind || k == weir.OptionalSequenceKind }

// optional reports whether values of a kind may be absent.
func optional(k weir.Kind) bool { return k == weir.OptionalKind || k == weir.OptionalSequenceKind }

// Parse reads a value from the contents of a .pb file: a TensorProto, SequenceProto or OptionalProto, as info declares
// it.
func Parse(data []byte, info weir.Info) (Value, error) {
	return wire.ParseValue(data, sequence(info.Kind), optional(info.Kind))
}

// ToArg copies a value into an argument. The caller closes the tensors after the run.
func ToArg(v Value) (a weir.Arg, tensors []*weir.Tensor, err error) {
	if v.Absent {
		return weir.Absent, nil, nil
	}
	for _, t := range v.Tensors {
		w, err := ToWeir(t)
		if err != nil {
			return nil, tensors, err
		}
		tensors = append(tensors, w)
	}
	if v.Sequence {
		return weir.Sequence(tensors...), tensors, nil
	}
	return tensors[0], tensors, nil
}

// FromResults returns output i of a run, in the results' own memory, which must stay open.
func FromResults(r *weir.Results, i int, info weir.Info) (Value, error) {
	v := Value{Name: info.Name, Sequence: sequence(info.Kind), Optional: optional(info.Kind)}
	list := []*weir.Tensor{r.At(i)}
	if v.Sequence {
		list = r.Sequence(info.Name)
		v.Absent = list == nil
	} else if list[0] == nil {
		v.Absent, list = true, nil
	}
	for _, w := range list {
		t, err := FromWeir(w)
		if err != nil {
			return v, err
		}
		v.Tensors = append(v.Tensors, t)
	}
	return v, nil
}

// CompareValues is Compare for values of any kind: sequences tensor by tensor.
func CompareValues(got, want Value, rtol, atol float64) error {
	switch {
	case got.Absent != want.Absent:
		return diag.Inputf("it has %s, and %s is expected", presence(got), presence(want))
	case got.Sequence && len(got.Tensors) != len(want.Tensors):
		return diag.Inputf("a sequence of %d tensors, and %d are expected", len(got.Tensors), len(want.Tensors))
	}
	for i, t := range got.Tensors {
		if err := tensor.Compare(t, want.Tensors[i], rtol, atol); err != nil {
			if got.Sequence {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
			return err
		}
	}
	return nil
}

// presence returns nothing or something, for errors.
func presence(v Value) string {
	if v.Absent {
		return "nothing"
	}
	return "something"
}

// Expected reads the expected value of an output; a file without a shape takes the shape of got, the actual value.
func Expected(file string, info weir.Info, got Value) (Value, error) {
	r := &Reader{Dims: weir.Dims{}}
	if info.Kind != weir.TensorKind {
		return r.value(file, info)
	}
	t := got.Tensors[0]
	info.Shape = nil
	for _, s := range t.Shape() {
		info.Shape = append(info.Shape, weir.Extent{Size: s})
	}
	want, err := r.read(file, info)
	return Of(info.Name, want), err
}

// SummariseValue is Summarise for any kind: a list for a sequence, nil for an absent value.
func SummariseValue(v Value, elements bool) any {
	summary := func(t *Array) Summary {
		if elements {
			return Summarise(t).WithValues(t)
		}
		return Summarise(t)
	}
	switch {
	case v.Absent:
		return nil
	case !v.Sequence:
		return summary(v.Tensors[0])
	}
	list := make([]Summary, len(v.Tensors))
	for i, t := range v.Tensors {
		list[i] = summary(t)
	}
	return list
}
