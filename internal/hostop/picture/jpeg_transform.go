package picture

// idct stores the inverse cosine transform of a block of dequantized coefficients in natural order: samples from 0 to
// 255, in rows at the given stride.
//
// It is Loeffler, Ligtenberg and Moschytz's algorithm (Practical Fast 1-D DCT Algorithms with 11 Multiplications, 1989)
// in 13 bits of fraction, columns first, with two bits kept between the passes: the fixed-point choices of the
// Independent JPEG Group's accurate integer transform, so that each sample comes out as it does there.
func idct(c *[64]int32, out []byte, stride int) {
	const fraction, between = 13, 2
	for x := range 8 {
		transform8(c[x:], 8, fraction-between)
	}
	for y := range 8 {
		row := c[8*y : 8*y+8]
		transform8(row, 1, fraction+between+3)
		to := out[y*stride : y*stride+8]
		for x, v := range row {
			to[x] = byte(min(max(v+128, 0), 255))
		}
	}
}

// transform8 transforms 8 numbers, at the given step, in place. It divides the results by 1<<shift and rounds them.
func transform8(v []int32, step int, shift uint) {
	const (
		c0298, c0390, c0541, c0765 = 2446, 3196, 4433, 6270 // of √2·cos and sums of them, in 13 bits
		c0899, c1175, c1501, c1847 = 7373, 9633, 12299, 15137
		c1961, c2053, c2562, c3072 = 16069, 16819, 20995, 25172
	)
	in := func(i int) int32 { return v[i*step] }
	half := int32(1) << (shift - 1)
	// Even coefficients.
	z := (in(2) + in(6)) * c0541
	t2, t3 := z-in(6)*c1847, z+in(2)*c0765
	t0, t1 := (in(0)+in(4))<<13, (in(0)-in(4))<<13
	e0, e3, e1, e2 := t0+t3, t0-t3, t1+t2, t1-t2
	// Odd coefficients.
	o0, o1, o2, o3 := in(7), in(5), in(3), in(1)
	z1, z2, z3, z4 := (o0+o3)*-c0899, (o1+o2)*-c2562, o0+o2, o1+o3
	z5 := (z3 + z4) * c1175
	z3, z4 = z3*-c1961+z5, z4*-c0390+z5
	o0, o1, o2, o3 = o0*c0298+z1+z3, o1*c2053+z2+z4, o2*c3072+z2+z3, o3*c1501+z1+z4
	v[0*step], v[7*step] = (e0+o3+half)>>shift, (e0-o3+half)>>shift
	v[1*step], v[6*step] = (e1+o2+half)>>shift, (e1-o2+half)>>shift
	v[2*step], v[5*step] = (e2+o1+half)>>shift, (e2-o1+half)>>shift
	v[3*step], v[4*step] = (e3+o0+half)>>shift, (e3-o0+half)>>shift
}

// upsampler computes a row of a component at the picture's full size from a row of its samples and, with vertical
// interpolation, the neighbouring row.
type upsampler struct {
	h, v          int  // the factors
	width, height int  // of the component
	fancy         bool // interpolated, where the factors allow it
	sums          []int32
}

// newUpsampler returns an upsampler by the factors h and v for a component of width × height samples.
func newUpsampler(h, v, width, height int) *upsampler {
	u := &upsampler{h: h, v: v, width: width, height: height}
	switch {
	case h == 2 && (v == 1 || v == 2):
		u.fancy = width > 2
	case h == 1 && v == 2:
		u.fancy = true
	}
	u.sums = make([]int32, width)
	return u
}

// row writes row y of the picture; out has room for h times the samples of the component's row. Interpolated samples
// lie at 1/4 and 3/4 between the component's; rounding alternates between up and down at halves.
func (u *upsampler) row(plane []byte, stride, y int, out []byte) {
	at := y / u.v
	near := plane[at*stride : at*stride+u.width]
	if !u.fancy {
		for x, s := range near {
			for i := range u.h {
				out[x*u.h+i] = s
			}
		}
		return
	}
	other := at - 1
	if y%u.v == 1 {
		other = at + 1
	}
	other = min(max(other, 0), u.height-1)
	far := plane[other*stride : other*stride+u.width]
	last := u.width - 1
	switch {
	case u.h == 1:
		round := 1 + int32(y%2)
		for x := range near {
			out[x] = byte((3*int32(near[x]) + int32(far[x]) + round) >> 2)
		}
	case u.v == 1:
		for x, s := range near {
			left, right := near[max(x-1, 0)], near[min(x+1, last)]
			out[2*x] = byte((3*int32(s) + int32(left) + 1) >> 2)
			out[2*x+1] = byte((3*int32(s) + int32(right) + 2) >> 2)
		}
	default:
		for x := range near {
			u.sums[x] = 3*int32(near[x]) + int32(far[x])
		}
		for x, s := range u.sums {
			left, right := u.sums[max(x-1, 0)], u.sums[min(x+1, last)]
			out[2*x] = byte((3*s + left + 8) >> 4)
			out[2*x+1] = byte((3*s + right + 7) >> 4)
		}
	}
}

// inkToRGB converts a pixel of cyan, magenta, yellow and black to red, green and blue.
func inkToRGB(c, m, y, k byte) (r, g, b byte) {
	white := int32(255 - k)
	remains := func(ink byte) byte {
		v := int32(ink)*white + 128
		return byte(max(white-(v>>8+v)>>8, 0))
	}
	return remains(c), remains(m), remains(y)
}
