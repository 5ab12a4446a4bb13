package loop

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// BenchmarkInterpret measures one step of a matrix product of loops, of a contraction, and of loops with a masked load.
func BenchmarkInterpret(b *testing.B) {
	for name, source := range map[string]string{
		"loops": `kernel @k(%a: f32[n, n] read, %b: f32[n, n] read, %c: f32[n, n] write) dims(n) {
			each i < n { each j < n {
				var %s: f32 = 0
				for k < n { %s add= mul(load %a[i, k], load %b[k, j]) }
				store %c[i, j] = %s
			} }
		}`,
		"contract": `kernel @k(%a: f32[n, n] read, %b: f32[n, n] read, %c: f32[n, n] update) dims(n) {
			contract %c[r, q] += %a[r, k] * %b[k, q] for r < n, q < n, k < n
		}`,
		"masked": `kernel @k(%a: f32[n, n] read, %b: f32[n, n] read, %c: f32[n, n] write) dims(n) {
			each i < n { each j < n { for k < n {
				store %c[i, j] = load %a[i, j + k - 3] if and(le(0, index(j + k - 3)), lt(index(j + k - 3), index(n))) else 0
			} } }
		}`,
	} {
		b.Run(name, func(b *testing.B) {
			k, err := ParseKernel(source)
			if err != nil {
				b.Fatal(err)
			}
			const n = 64
			x := NewInterpreter(k)
			data := func() Data { return Data{dtype.F32, make([]byte, 4*n*n)} }
			operands := []Data{data(), data(), data()}
			for b.Loop() {
				if err := x.Run(operands, []int64{n}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*n*n), "ns/step")
		})
	}
}
