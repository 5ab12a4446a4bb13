package conformance

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// TestRecurrentThreads: a recurrent layer whose steps are large enough for several workers gives the reference's
// results, and the same bits for any number of workers.
func TestRecurrentThreads(t *testing.T) {
	const units, inputs, steps = 144, 8, 5
	for at, c := range []struct {
		op       string
		gates    int64
		batch    int64
		optional bool
		attrs    []*wire.AttributeProto
	}{
		{"LSTM", 4, 1, false, nil},
		{"LSTM", 4, 3, true, []*wire.AttributeProto{wire.StringAttribute("direction", "bidirectional")}},
		{"LSTM", 4, 2, true, []*wire.AttributeProto{wire.StringAttribute("direction", "reverse"),
			wire.FloatAttribute("clip", 0.5)}},
		{"LSTM", 4, 35, true, nil},
		{"GRU", 3, 1, false, nil},
		{"GRU", 3, 2, true, []*wire.AttributeProto{wire.IntAttribute("linear_before_reset", 1),
			wire.StringAttribute("direction", "bidirectional")}},
		{"GRU", 3, 4, true, []*wire.AttributeProto{wire.StringAttribute("direction", "reverse")}},
		{"RNN", 1, 9, true, nil},
	} {
		t.Run(fmt.Sprint(c.op, at), func(t *testing.T) {
			r := rand.New(rand.NewSource(int64(at)))
			directions := int64(1)
			for _, a := range c.attrs {
				if string(a.S) == "bidirectional" {
					directions = 2
				}
			}
			g := &wire.GraphProto{Name: "g"}
			random := func(scale float64, shape ...int64) *tensor.Tensor {
				x := tensor.Must(tensor.New(dtype.F32, shape...))
				for i := range x.Len() {
					x.SetFloat(i, r.NormFloat64()*scale)
				}
				return x
			}
			constant := func(name string, x *tensor.Tensor) { g.Initializer = append(g.Initializer, wire.FromTensor(name, x)) }
			constant("w", random(0.3, directions, c.gates*units, inputs))
			constant("r", random(0.08, directions, c.gates*units, units))
			names := "x w r"
			if c.optional {
				lengths := tensor.Must(tensor.New(dtype.I32, c.batch))
				for i := range c.batch {
					lengths.SetInt(i, 1+r.Int63n(steps))
				}
				constant("b", random(0.3, directions, 2*c.gates*units))
				constant("lengths", lengths)
				constant("h", random(1, directions, c.batch, units))
				names += " b lengths h"
				if c.op == "LSTM" {
					constant("c", random(1, directions, c.batch, units))
					constant("p", random(0.3, directions, 3*units))
					names += " c p"
				}
			}
			n := &wire.NodeProto{OpType: c.op, Name: "n", Input: strings.Split(names, " "),
				Output: []string{"y", "last", "memory"}, Attribute: append(c.attrs, wire.IntAttribute("hidden_size", units))}
			if c.op != "LSTM" {
				n.Output = n.Output[:2]
			}
			g.Node = []*wire.NodeProto{n}
			g.Input = []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(steps), wire.Size(c.batch), wire.Size(inputs))}
			for _, name := range n.Output {
				g.Output = append(g.Output, &wire.ValueInfoProto{Name: name})
			}
			data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
			x := random(1, steps, c.batch, inputs)
			want, _, err := reference(data, []*tensor.Tensor{x})
			if err != nil {
				t.Fatal(err)
			}
			var first []*tensor.Tensor
			for _, threads := range []int{1, 2, 3, 5} {
				got := runRecurrent(t, data, x, threads)
				for i, y := range got {
					if err := tensor.Compare(y, want[i], 1e-4, 1e-5); err != nil {
						t.Errorf("%d threads, %s: %v", threads, n.Output[i], err)
					}
					if first != nil && !y.Equal(first[i]) {
						t.Errorf("%s has other bits on %d threads", n.Output[i], threads)
					}
				}
				if first == nil {
					first = got
				}
			}
		})
	}
}

// runRecurrent runs a model of one input several times, so that its launches learn the times of their stages, and
// returns the last results.
func runRecurrent(t *testing.T, data []byte, x *tensor.Tensor, threads int) (got []*tensor.Tensor) {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var faults schedulingFaults
	stepped := false
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: threads, Logger: faults.log(),
		Stage: func(name, text string) {
			stepped = stepped || strings.Contains(text, "for $s < 5 {\n      parallel")
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if faults.list != nil {
		t.Error(faults.list[0])
	}
	if target.Host(1).Name == target.AMD64Name && (threads == 1 || threads == 5) && stepped != (threads == 5) {
		t.Errorf("%d threads, and whether workers share the steps: %v", threads, stepped)
	}
	given, err := values.ToWeir(x)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	call, err := p.NewCall(weir.Dims{})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	if err := call.Bind("x", given); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := call.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, info := range p.Outputs() {
		y, err := values.FromWeir(call.Output(info.Name))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, y.Clone())
	}
	memory, err := MemoryOf(t.Context(), p, weir.Inputs{"x": given})
	if err != nil {
		t.Fatal(err)
	}
	if memory.Measured != memory.Predicted {
		t.Errorf("%d threads: predicted %d bytes, measured %d", threads, memory.Predicted, memory.Measured)
	}
	return got
}
