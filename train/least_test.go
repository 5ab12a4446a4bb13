package train_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/weirtest"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// TestSmallestBudget: the error for a budget of one byte names a budget that suffices for all programs of the step: for
// four networks with different options, and for networks of random linear layers.
func TestSmallestBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	nets := budgetedNets()
	for name, o := range map[string]train.Options{"statistics": {Precision: weir.BF16},
		"dropout": {Precision: weir.BF16, Accumulate: 3}, "pairs": {Accumulate: 2}, "gru": {}} {
		nets[name].leastOf(t, name, o)
	}
	for range weirtest.Trials(12, 3) { // linear layers of random widths
		layers, width := []nn.Layer{}, 24
		for range 1 + r.IntN(4) {
			next := 1 + r.IntN(200)
			layers = append(layers, nn.Linear(width, next), []nn.Layer{nn.Relu, nn.Gelu, nn.Tanh, nn.LayerNorm(next)}[r.IntN(4)])
			width = next
		}
		c := certified{net: nn.Sequential(append(layers, nn.Linear(width, 4))...),
			x: array.SpecOf("x", weir.F32, "batch", 24)}
		most := int64(1 + r.IntN(60))
		c.o.Compile.Dims = map[string]weir.Range{"batch": {Min: 1, Max: most}}
		precision := []weir.DType{weir.F32, weir.BF16}[r.IntN(2)]
		c.leastOf(t, fmt.Sprintf("products of up to %d rows", most),
			train.Options{Precision: precision, Accumulate: r.IntN(3)})
	}
}

// leastOf compiles a step within a budget of one byte, which is refused, and then within the budget that the refusal
// names.
func (c certified) leastOf(t *testing.T, name string, o train.Options) {
	t.Helper()
	p := nn.Init(c.net, 5)
	defer p.Close()
	o.Compile, o.Inputs, o.Budget = c.o.Compile, []array.Spec{c.x, array.SpecOf("y", weir.I32, "batch")}, 1
	if c.x.DType == weir.I64 {
		o.Inputs[0] = c.x
	}
	_, err := train.New(c.net, p, train.CrossEntropy, train.SGD(0.05), o)
	var e *weir.Error
	if !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) || e.Budget <= 1 ||
		e.Fix != fmt.Sprintf("a budget of %d bytes works", e.Budget) {
		t.Errorf("%s, %v, accumulate %d: one byte: %v", name, o.Precision, o.Accumulate, err)
		return
	}
	o.Budget = e.Budget
	tr, err := train.New(c.net, p, train.CrossEntropy, train.SGD(0.05), o)
	if err != nil {
		t.Errorf("%s, %v, accumulate %d: what is named does not work: %v", name, o.Precision, o.Accumulate, err)
		return
	}
	if peak, err := tr.Memory().Max(1); err != nil || peak > o.Budget {
		t.Errorf("%s: the peak is %d of %d bytes, %v", name, peak, o.Budget, err)
	}
	tr.Close()
}
