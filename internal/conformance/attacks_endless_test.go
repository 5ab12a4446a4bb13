package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// TestEndless: a context stops endless loops, alone, nested and around host operators; and it stops a compilation.
func TestEndless(t *testing.T) {
	yes := constants{"yes": tensor.Scalar(true)}
	inside := forever(attackNode("Neg", []string{"s"}, "s3"))
	inside.Name, inside.Input[2], inside.Output[0] = "inner", "s", "s2"
	for i, name := range []string{"i2", "c2", "s1"} {
		inside.Attribute[0].G.Input[i].Name = name
	}
	inside.Attribute[0].G.Output[0].Name = "c2"
	inside.Attribute[0].G.Node[0].Input[0] = "s1"
	for _, tc := range []struct {
		name  string
		model *wire.ModelProto
	}{
		{"alone", attackModel(yes, forever(attackNode("Neg", []string{"s"}, "s2")))},
		{"one within another", attackModel(yes, forever(inside))},
		{"around a host operator", attackModel(yes, forever(attackNode("Unique", []string{"s"}, "u"),
			attackNode("Neg", []string{"s"}, "s2")))},
	} {
		for _, target := range []weir.Target{weir.Portable, weir.Reference} {
			t.Run(tc.name+" on "+string(target), func(t *testing.T) {
				m, err := weir.LoadBytes(tc.model.Marshal())
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Target: target})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				in := weir.Inputs{}
				for _, info := range p.Inputs() {
					x, err := weir.New(info.DType, 2, 3)
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					in[info.Name] = x
				}
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(30*time.Millisecond, cancel)
				defer stop.Stop()
				begin := time.Now()
				r, err := p.Run(ctx, in)
				if took := time.Since(begin); took > 300*time.Millisecond {
					t.Errorf("it took %v to stop", took)
				}
				if err == nil {
					r.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			})
		}
	}
	t.Run("compiling", func(t *testing.T) {
		m, err := weir.LoadBytes(chain(20_000, "many", nil, func(in, out string) *wire.NodeProto {
			return attackNode("Softmax", []string{in}, out)
		}).Marshal())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		p, err := weir.Compile(ctx, m, weir.Options{Threads: 1})
		if err == nil {
			p.Close()
		}
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
