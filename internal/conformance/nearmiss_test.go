package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
)

// missed returns a random model with a few changes that a rewriting must notice: an attribute, an axis, a constant, the
// order of operands, or the reader of a result. The model need not be valid.
func missed(seed uint64) *conformancetest.RandomModel {
	m := conformancetest.Random(seed)
	r := rand.New(rand.NewPCG(seed, 11))
	g := m.Model.Graph
	for range min(1+r.IntN(3), 3*len(g.Node)) {
		n := g.Node[r.IntN(len(g.Node))]
		switch r.IntN(5) {
		case 0:
			if len(n.Attribute) > 0 {
				missAttribute(r, n.Attribute[r.IntN(len(n.Attribute))])
			}
		case 1:
			if len(g.Initializer) > 0 {
				missConstant(r, g.Initializer[r.IntN(len(g.Initializer))])
			}
		case 2:
			if len(n.Input) == 2 {
				n.Input[0], n.Input[1] = n.Input[1], n.Input[0]
			}
		case 3:
			other := g.Node[r.IntN(len(g.Node))]
			if len(n.Input) > 0 && len(other.Input) > 0 && other.Input[0] != "" {
				n.Input[r.IntN(len(n.Input))] = other.Input[0]
			}
		default:
			name := n.Output[0]
			if !slices.ContainsFunc(g.Output, func(o *wire.ValueInfoProto) bool { return o.Name == name }) {
				g.Output = append(g.Output, &wire.ValueInfoProto{Name: name})
			}
		}
	}
	return m
}

// missAttribute changes an attribute.
func missAttribute(r *rand.Rand, a *wire.AttributeProto) {
	switch {
	case a.G != nil:
	case len(a.Ints) > 0:
		a.Ints = slices.Clone(a.Ints)
		if i := r.IntN(len(a.Ints)); r.IntN(2) == 0 {
			a.Ints[i] += int64(r.IntN(3)) - 1
		} else {
			k := r.IntN(len(a.Ints))
			a.Ints[i], a.Ints[k] = a.Ints[k], a.Ints[i]
		}
	case a.F != 0:
		a.F *= [...]float32{0.999, 1.01, 2, -1, 0}[r.IntN(5)]
	default:
		a.I = [...]int64{a.I + 1, a.I - 1, 1 - a.I, -a.I}[r.IntN(4)]
	}
}

// missConstant changes one element, or all, by a little or much.
func missConstant(r *rand.Rand, t *wire.TensorProto) {
	old, _, err := t.Tensor()
	if err != nil || old.Len() == 0 || !numeric(old.DType()) {
		return
	}
	x := old.Clone()
	by, all := r.IntN(4), r.IntN(2) == 0
	at := r.Int64N(x.Len())
	for i := range x.Len() {
		if !all && i != at {
			continue
		}
		switch {
		case x.DType() == dtype.Bool:
			x.SetInt(i, 1-x.Int(i))
		case x.DType().IsInt():
			x.SetInt(i, x.Int(i)+[...]int64{1, -1, 1, 2}[by])
		default:
			x.SetFloat(i, x.Float(i)*[...]float64{0.999, 1.02, -1, 2}[by])
		}
	}
	*t = *wire.FromTensor(t.Name, x)
}

// trialOf returns a random model as a trial.
func trialOf(m *conformancetest.RandomModel) *trial {
	data := m.Model.Marshal()
	return &trial{args: m.Inputs, unread: true, build: func() (*ir.Module, error) {
		parsed, err := onnx.Parse(data)
		if err != nil {
			return nil, err
		}
		module, _, err := parsed.Build(nil)
		return module, err
	}}
}

// smaller removes outputs and nodes of a model while it still differs.
func smaller(t *testing.T, m *conformancetest.RandomModel, how configuration) *conformancetest.RandomModel {
	try := func(change func(g *wire.GraphProto)) bool {
		g, proto := *m.Model.Graph, *m.Model
		proto.Graph = &g
		change(&g)
		small := &conformancetest.RandomModel{Seed: m.Seed, Model: &proto, Inputs: m.Inputs}
		if _, err := trialOf(small).compare(t.Context(), how); err == nil {
			return false
		}
		m = small
		return true
	}
	for i := len(m.Model.Graph.Output) - 1; i >= 0 && len(m.Model.Graph.Output) > 1; i-- {
		try(func(g *wire.GraphProto) { g.Output = slices.Delete(slices.Clone(g.Output), i, i+1) })
	}
	for i := range m.Model.Graph.Node {
		if try(func(g *wire.GraphProto) {
			g.Node, g.Output = g.Node[:i+1], []*wire.ValueInfoProto{{Name: g.Node[i].Output[0]}}
		}) {
			break
		}
	}
	for i := len(m.Model.Graph.Node) - 2; i >= 0; i-- {
		try(func(g *wire.GraphProto) { g.Node = slices.Delete(slices.Clone(g.Node), i, i+1) })
	}
	return m
}

// TestNearMisses compares random models, some with idioms that passes recognise, and copies with a change that must
// stop a pass, with the reference: each in a random configuration. WEIR_FUZZ_GRAPHS is their number, WEIR_FUZZ_SEED the
// first seed.
func TestNearMisses(t *testing.T) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	count, first := number("WEIR_FUZZ_GRAPHS", 600), number("WEIR_FUZZ_SEED", 50000)
	seeds := make(chan uint64)
	var mutex sync.Mutex
	counts := map[string]int{}
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for seed := range seeds {
				m := missed(seed)
				if seed%3 == 0 {
					m = conformancetest.Random(seed)
				}
				how := configurations[choice(fmt.Sprint(seed), len(configurations))]
				v, err := trialOf(m).compare(t.Context(), how)
				mutex.Lock()
				counts[how.name]++
				counts[fmt.Sprintf("verdict %d", v)]++
				wrong := 0
				if err != nil {
					counts["differ"]++
					wrong = counts["differ"]
				}
				mutex.Unlock()
				if wrong > 0 && wrong <= 20 {
					t.Errorf("%s: %v\n%s", how.name, err, smaller(t, m, how).Text())
				}
			}
		})
	}
	for i := range count {
		seeds <- uint64(first + i)
	}
	close(seeds)
	wait.Wait()
	t.Logf("%d models: %v", count, counts)
	if laxer := counts[fmt.Sprintf("verdict %d", unread)]; laxer > 5+count/100 {
		t.Errorf("%d of %d models run that the reference refuses", laxer, count)
	}
}
