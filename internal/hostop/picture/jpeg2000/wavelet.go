package jpeg2000

import (
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// wavelet transforms one line of interleaved samples in place. Even indices are of the low band if odd is 0, and of the
// high band if odd is 1.
type wavelet[T int32 | float32] func(x []T, odd int)

// synthesize transforms the nested bands of a component's plane to samples, resolution by resolution: rows first, then
// columns (ISO/IEC 15444-1, annex F).
func synthesize[T int32 | float32](f *decoding.File, plane []T, stride int, list []resolution, transform wavelet[T]) {
	var line []T
	for i := 1; i < len(list); i++ {
		r, lower := &list[i], &list[i-1]
		width, height := int(r.x1-r.x0), int(r.y1-r.y0)
		line = grown(line, max(width, height))
		interleave := func(from, step, low, n, odd int) {
			f.Did(4 * int64(n))
			for j := range low {
				line[2*j+odd] = plane[from+j*step]
			}
			for j := range n - low {
				line[2*j+1-odd] = plane[from+(low+j)*step]
			}
			transform(line[:n], odd)
			for j := range n {
				plane[from+j*step] = line[j]
			}
		}
		for y := range height {
			interleave(y*stride, 1, int(lower.x1-lower.x0), width, int(r.x0&1))
		}
		for x := range width {
			interleave(x, stride, int(lower.y1-lower.y0), height, int(r.y0&1))
		}
	}
}

// lift adds to every second sample, from begin on, a function of its two neighbours; beyond the ends the line is
// mirrored.
func lift[T int32 | float32](x []T, begin int, step func(sum, v T) T) {
	last := len(x) - 1
	for i := begin; i <= last; i += 2 {
		left, right := i-1, i+1
		if left < 0 {
			left = 1
		}
		if right > last {
			right = last - 1
		}
		x[i] = step(x[left]+x[right], x[i])
	}
}

// reversible53 is the reversible transform of 5 and 3 taps.
func reversible53(x []int32, odd int) {
	if len(x) < 2 {
		if odd == 1 && len(x) == 1 {
			x[0] /= 2
		}
		return
	}
	lift(x, odd, func(sum, v int32) int32 { return v - (sum+2)>>2 })
	lift(x, 1-odd, func(sum, v int32) int32 { return v + sum>>1 })
}

// irreversible97 is the irreversible transform of 9 and 7 taps, each step rounded to 32 bits. As in OpenJPEG, the high
// bands are scaled with twice the factor of the standard.
func irreversible97(x []float32, odd int) {
	if len(x) < 2 {
		return
	}
	const (
		low, high                = 1.230174105, 1.625732422
		alpha, beta, gamma, delt = -1.586134342, -0.052980118, 0.882911075, 0.443506852
	)
	for i := range x {
		if i&1 == odd {
			x[i] *= low
		} else {
			x[i] *= high
		}
	}
	add := func(factor float32) func(sum, v float32) float32 {
		return func(sum, v float32) float32 { return v - float32(sum*factor) }
	}
	lift(x, odd, add(delt))
	lift(x, 1-odd, add(gamma))
	lift(x, odd, add(beta))
	lift(x, 1-odd, add(alpha))
}
