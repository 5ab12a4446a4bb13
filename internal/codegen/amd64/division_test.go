package amd64

import "testing"

func TestDivisions(t *testing.T) {
	for _, cpu := range []string{"avx2", "avx512"} {
		t.Run(cpu, func(t *testing.T) { harness(t, cpu).Divisions(t) })
	}
}
