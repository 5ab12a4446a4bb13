package amd64

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// BenchmarkGenerate times the generation of code for products, at each level.
func BenchmarkGenerate(b *testing.B) {
	m := &loop.Module{Name: "products"}
	for _, c := range []productCase{
		{m: 96, n: 64, k: 64, width: 16},
		{m: 128, n: 768, k: 768, width: 16},
		{m: 3136, n: 64, k: 64, windows: []int64{9}, width: 16, rows: 112},
		{m: 1, n: 768, k: 3072, width: 64},
		{m: 4, n: 768, k: 768, width: 24},
	} {
		for _, last := range []string{"relu", "sigmoid"} {
			c.dt, c.packed, c.first, c.last = dtype.F32, true, "zero", last
			k, _ := c.kernel()
			k.Name = fmt.Sprintf("%s%d", k.Name, len(m.Kernels))
			m.Kernels = append(m.Kernels, k)
		}
	}
	for _, level := range []string{"avx2", "avx512"} {
		machine, err := target.Assumed(level, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(level, func(b *testing.B) {
			for b.Loop() {
				if _, err := Generate(m, machine); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
