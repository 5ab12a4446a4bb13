package train_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// TestONNXMisuse: unknown and repeated outputs, wrong declarations of inputs, models without trainable weights, unknown
// operators, patterns without a match, and inputs of another shape or type are errors that name the problem. An unknown
// operator in nodes that Outputs omits is no error.
func TestONNXMisuse(t *testing.T) {
	good := func() *file { return convnet(wire.Dim("N")) }
	quantised, constants := &file{}, &file{}
	quantised.input("x", wire.Dim("n"), wire.Size(4))
	quantised.weight("w", tensor.Must(tensor.FromSlice([]int8{1, 2, 3, 4}, 4)))
	quantised.weight("scale", tensor.Must(tensor.FromSlice([]float32{0.1}, []int64{}...)))
	quantised.node("DequantizeLinear", []string{"w", "scale"}, []string{"d"})
	quantised.node("Mul", []string{"x", "d"}, []string{"y"})
	constants.input("x", wire.Dim("n"), wire.Size(4))
	constants.node("Constant", nil, []string{"w"}, wire.TensorAttribute("value", wire.FromTensor("w", normal(1, 1, 4))))
	constants.node("Mul", []string{"x", "w"}, []string{"y"})
	strange := good()
	strange.Node[2].OpType = "Strange"
	scores, y := []string{"scores"}, []string{"y"}
	until := func(names ...string) array.ModelOptions { return array.ModelOptions{Outputs: names} }
	declared := func(name string) array.ModelOptions {
		return array.ModelOptions{Inputs: []array.Spec{array.SpecOf(name, weir.F32, 1)}}
	}
	for want, c := range map[string]struct {
		f       *file
		outputs []string
		o       array.ModelOptions
	}{
		"the last nodes compute scores, features": {good(), scores, until("feature")},
		"twice":                   {good(), scores, until("p", "p")},
		`no input "x"`:            {good(), scores, declared("x")},
		"no outputs":              {good(), scores, array.ModelOptions{Outputs: []string{}}},
		"extents alone":           {good(), scores, declared("image")},
		"before it was quantised": {quantised, y, array.ModelOptions{}},
		"Constant nodes":          {constants, y, array.ModelOptions{}},
		"Strange":                 {strange, scores, array.ModelOptions{}},
	} {
		if _, err := parsed(c.f, c.outputs, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	strange = good()
	strange.Node[5].OpType = "Strange"
	if _, err := parsed(strange, []string{"scores"}, array.ModelOptions{Outputs: []string{"features"}}); err != nil {
		t.Errorf("an unknown operator in what is left out: %v", err)
	}
	net, p := mustParse(t, good().bytes("scores"), array.ModelOptions{})
	if err := p.Freeze("conv.weight"); err == nil || !strings.Contains(err.Error(), "Names lists them") {
		t.Errorf("freezing what is not there: %v", err)
	}
	s := array.NewScope("test")
	defer s.Close()
	for _, shape := range [][]int{{2, 3, 9, 8}, {2, 3, 8}, {2, 3, 8, 8}} {
		inner := array.NewScope("inner", array.In(s))
		dt := weir.F32
		if shape[2] == 8 && len(shape) == 4 {
			dt = weir.F64
		}
		_, err := nn.Predict(inner, net, p, inner.Zeros(dt, shape...))
		if err == nil || !strings.Contains(err.Error(), "image") || strings.Contains(err.Error(), "/conv") {
			t.Errorf("an input %v: %v", shape, err)
		}
		inner.Close()
	}
}

// TestONNXCollidingNames: parameters with the names of a batch's arrays, of the step's other inputs and of an
// optimiser's slots train as with any other names, also in checkpoints.
func TestONNXCollidingNames(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	batch := train.Batch{X: array.From(s, []float32{1, 2, -1, 0.5, 3, -2, 0.25, 1, -1.5, 2, 0.75, -3}, 3, 4),
		Y: array.From(s, []int32{0, 2, 1})}
	fit := func(o train.Optimiser, names ...string) (bits [][]byte) {
		f := &file{}
		f.input("image", wire.Dim("N"), wire.Size(4))
		at := "image"
		for i, name := range names {
			wide := int64(4)
			if i == len(names)-1 {
				wide = 3
			}
			f.weight(name, normal(uint64(i)+1, 0.4, 4, wide))
			f.node("MatMul", []string{at, name}, []string{fmt.Sprint("value", i)})
			at = fmt.Sprint("value", i)
		}
		net, p := mustParse(t, f.bytes(at), array.ModelOptions{})
		open := func() *train.Trainer {
			tr, err := train.New(net, p, train.CrossEntropy, o, train.Options{Accumulate: 2})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}
		dir, tr := t.TempDir(), open()
		defer func() { tr.Close() }()
		for step := range 8 {
			if _, err := tr.Step(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if step != 3 {
				continue
			}
			if err := tr.Save(dir); err != nil {
				t.Fatal(err)
			}
			tr.Close()
			tr = open()
			if err := tr.Restore(dir); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			bits = append(bits, elementsOf(p.Get(name)))
		}
		return bits
	}
	for _, o := range []train.Optimiser{train.Adam(0.01), train.Adagrad(0.01)} {
		plain := fit(o, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		odd := fit(o, "w", "w@mean", "w@square", "w@sum", "x", "y", "scalar0", "key", "loss", "w@mean@sum")
		for i := range plain {
			if !bytes.Equal(plain[i], odd[i]) {
				t.Errorf("%v: parameter %d differs", o, i)
			}
		}
	}
}

// TestONNXDamaged: of 400 files with changed bytes, some also cut, each is read or refused with an error that is not
// internal.
func TestONNXDamaged(t *testing.T) {
	whole := convnet(wire.Dim("N")).bytes("scores")
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 400 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			data[r.IntN(len(data))] = byte(r.Uint32())
		}
		if r.IntN(8) == 0 {
			data = data[:r.IntN(len(data))]
		}
		net, err := train.ParseONNX(data, array.ModelOptions{})
		if errors.Is(err, weir.ErrInternal) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
			continue
		}
		p, err := nn.New(net, 1)
		if errors.Is(err, weir.ErrInternal) {
			t.Fatal(err)
		}
		p.Close()
	}
	if refused == 0 || refused == 400 {
		t.Errorf("%d of 400 are refused", refused)
	}
}
