package weir_test

import (
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// BenchmarkSmall measures a run of four small products in sequence, by a call that is bound to its memory and by
// Program.Run, and reports the time of the kernels alone.
func BenchmarkSmall(b *testing.B) {
	square := weirtest.TensorType(wire.FloatType, wire.Size(4), wire.Size(4))
	inputs := []*wire.ValueInfoProto{weirtest.Typed("x", square), weirtest.Typed("w", square)}
	nodes := []*wire.NodeProto{weirtest.NodeOf("MatMul x,w a"), weirtest.NodeOf("MatMul a,w b"),
		weirtest.NodeOf("MatMul b,w c"),
		weirtest.NodeOf("MatMul c,w y")}
	p := weirtest.ProgramOf(b, weir.Options{}, inputs, []*wire.ValueInfoProto{weirtest.Typed("y", square)}, nodes...)
	x := weirtest.Must[*weir.Tensor](b)(weir.New(weir.F32, 4, 4))
	in := weir.Inputs{"x": x, "w": x}
	list := weirtest.Must[[]weir.KernelTime](b)(p.Profile(b.Context(), in, 1000))
	kernels := 0.0
	for _, k := range list {
		kernels += float64(k.Time)
	}
	b.Run("run", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := p.Run(b.Context(), in)
			if err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
		b.ReportMetric(kernels, "kernels-ns")
	})
	b.Run("call", func(b *testing.B) {
		c := weirtest.Must[*weir.Call](b)(p.NewCall(nil))
		defer c.Close()
		for _, name := range []string{"x", "w"} {
			if err := c.Bind(name, x); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(kernels, "kernels-ns")
	})
}
