package amd64

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// BenchmarkGenerate times the generation of code for products, at each level.
func BenchmarkGenerate(b *testing.B) {
	m := &loop.Module{Name: "products"}
	for _, c := range []kerneltest.Product{
		{M: 96, N: 64, K: 64, Width: 16},
		{M: 128, N: 768, K: 768, Width: 16},
		{M: 3136, N: 64, K: 64, Windows: []int64{9}, Width: 16, Rows: 112},
		{M: 1, N: 768, K: 3072, Width: 64},
		{M: 4, N: 768, K: 768, Width: 24},
	} {
		for _, last := range []string{"relu", "sigmoid"} {
			c.DType, c.Packed, c.First, c.Last = dtype.F32, true, "zero", last
			k, _ := c.Kernel()
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
