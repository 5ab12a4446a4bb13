package weir

import "time"

// Probe is the most multiply-add arithmetic, in GFLOP/s, that one core does in this target's instructions at this moment: the best of a few runs of
// independent additions and multiplications of f32 held in registers.
func Probe() float64 {
	best := 0.0
	for range 5 {
		begin := time.Now()
		const rounds = 1 << 19
		probeSink = probe(rounds)
		if took := time.Since(begin).Seconds(); took > 0 {
			best = max(best, rounds*24/took/1e9)
		}
	}
	return best
}

var probeSink float32

// probe does 24 operations a round on 12 independent values.
func probe(rounds int) float32 {
	a0, a1, a2, a3, a4, a5 := float32(0), float32(1), float32(2), float32(3), float32(4), float32(5)
	b0, b1, b2, b3, b4, b5 := float32(6), float32(7), float32(8), float32(9), float32(10), float32(11)
	x, y := float32(0.5), float32(0.25)
	for range rounds {
		a0, a1, a2, a3, a4, a5 = a0*x+y, a1*x+y, a2*x+y, a3*x+y, a4*x+y, a5*x+y
		b0, b1, b2, b3, b4, b5 = b0*x+y, b1*x+y, b2*x+y, b3*x+y, b4*x+y, b5*x+y
	}
	return a0 + a1 + a2 + a3 + a4 + a5 + b0 + b1 + b2 + b3 + b4 + b5
}
