package hostop

import (
	"math"
	"math/bits"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// init defines fourier, in the precision of its scratch.
func init() {
	register("fourier", func(c *Call) error {
		if c.Types[1] == dtype.F64 {
			return fourier[float64](c)
		}
		return fourier[float32](c)
	})
}

// maxRadix is the largest prime factor with a butterfly; a length with a larger one is transformed by a convolution.
const maxRadix = 61

// maxTransform is the largest length of a transform. It keeps squares of indices within 64 bits.
const maxTransform = 1 << 31

// FourierRoom returns the number of scratch elements that a transform of the given length needs.
func FourierRoom(length int64) int64 {
	room := 6*length + 2*maxRadix
	if length < 1 || length > maxTransform || radices(length) != nil {
		return room
	}
	return room + 8*paddedLength(length)
}

// FourierRoomMost bounds FourierRoom: FourierRoom(length) is at most FourierRoomMost·length + 2·61.
const FourierRoomMost = 38

// paddedLength returns the power of two that a convolution of the length is padded to, so that it does not wrap
// around. It is less than four times the length.
func paddedLength(length int64) int64 { return 1 << bits.Len64(uint64(2*length-2)) }

// radices returns the prime factors of a length, ascending, with fours for pairs of twos; nil if one is above
// maxRadix.
func radices(length int64) []int64 {
	out := []int64{}
	for length%4 == 0 && length > 0 {
		out, length = append(out, 4), length/4
	}
	for p := int64(2); p <= maxRadix; p++ {
		for length%p == 0 {
			out, length = append(out, p), length/p
		}
	}
	if length != 1 {
		return nil
	}
	return out
}

// real is a type of the real and imaginary components.
type real interface{ float32 | float64 }

// fourier computes the discrete Fourier transform along the attribute axis, in O(n log n). The last axis of input 0
// and of result 0 holds a real component, or a real and an imaginary one. The axis is cut or padded with zeros to the
// attribute length. With the attribute onesided, a forward transform returns the first half of the spectrum, and an
// inverse one takes this half and returns real numbers. Result 1, of as many elements as the attribute room says, is
// scratch in the precision of the computation; fourier sets it to zero at its end.
func fourier[T real](c *Call) error {
	x := c.In[0]
	axis, _ := c.Attrs["axis"].(int64)
	n, _ := c.Attrs["length"].(int64)
	inverse, _ := c.Attrs["inverse"].(bool)
	onesided, _ := c.Attrs["onesided"].(bool)
	size, _ := c.Attrs["room"].(int64)
	last := x.Rank() - 1
	if last < 1 || axis < 0 || int(axis) >= last || n < 1 || n > maxTransform || size < FourierRoom(n) {
		return diag.Inputf("a transform of length %d along axis %d of %d", n, axis, x.Rank())
	}
	shape := append([]int64{}, x.Shape()...)
	shape[axis], shape[last] = n, 2
	if onesided && inverse {
		shape[last] = 1
	} else if onesided {
		shape[axis] = n/2 + 1
	}
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	room, err := c.Result(1, size)
	if err != nil {
		return err
	}
	work, err := tensor.Data[T](room)
	if err != nil {
		return err
	}
	defer zero(&Call{}, work)
	zero(c, work)
	if out.Len() == 0 {
		return nil
	}
	given, components := x.Shape()[axis], x.Shape()[last]
	var run func() []T
	var signal []T
	if r := radices(n); !inverse && components == 1 && n%2 == 0 && r != nil {
		t := newReal(c, n, work)
		run, signal = t.run, t.inner.signal
		components = 0
	} else {
		t := newTransform(c, n, inverse, work)
		run, signal = t.run, t.signal
	}
	from, to := tensor.Strides(x.Shape()), tensor.Strides(shape)
	rows := append([]int64{}, shape...)
	rows[axis], rows[last] = 1, 1
	tensor.Each(rows, func(at []int64) {
		readLine(c, signal, x, tensor.Offset(from, at), from[axis], given, components, onesided && inverse)
		writeLine(c, out, run(), tensor.Offset(to, at), to[axis], shape[axis], shape[last])
	})
	return nil
}

// writeLine writes count complex numbers of line to out; components is 2, or 1 for their real components alone.
func writeLine[T real](c *Call, out *tensor.Tensor, line []T, begin, step, count, components int64) {
	c.work(2 * count)
	switch out.DType() {
	case dtype.F32:
		if y, err := tensor.Data[float32](out); err == nil {
			writeNumbers(y, line, begin, step, count, components)
			return
		}
	case dtype.F64:
		if y, err := tensor.Data[float64](out); err == nil {
			writeNumbers(y, line, begin, step, count, components)
			return
		}
	}
	for k := range count {
		c.work(4)
		for component := range components {
			out.SetFloat(begin+k*step+component, float64(line[2*k+component]))
		}
	}
}

// writeNumbers is writeLine to the aligned slice y.
func writeNumbers[T, S real](y []S, line []T, begin, step, count, components int64) {
	line = line[:2*count]
	for k := 0; k+1 < len(line); k += 2 {
		y[begin] = S(line[k])
		if components > 1 {
			y[begin+1] = S(line[k+1])
		}
		begin += step
	}
}

// readLine reads given complex numbers from a line of x into signal and fills the rest with zeros. If half is set, the
// second half of signal is the mirrored conjugate of the first. If components is 0, the numbers are real and contiguous
// in signal; if it is 1, they are real and the imaginary components become 0.
func readLine[T real](c *Call, signal []T, x *tensor.Tensor, begin, step, given, components int64, half bool) {
	n := int64(len(signal) / 2)
	taken := n
	if half {
		taken = n/2 + 1
	}
	if components == 0 {
		taken = 2 * n
	}
	if taken = min(given, taken); taken < n || components == 0 && taken < 2*n {
		zero(c, signal)
	}
	c.work(2 * taken)
	switch x.DType() {
	case dtype.F32:
		if data, err := tensor.Data[float32](x); err == nil {
			readNumbers(signal, data, begin, step, taken, components)
			break
		}
		readElements(c, signal, x, begin, step, taken, components)
	case dtype.F64:
		if data, err := tensor.Data[float64](x); err == nil {
			readNumbers(signal, data, begin, step, taken, components)
			break
		}
		readElements(c, signal, x, begin, step, taken, components)
	default:
		readElements(c, signal, x, begin, step, taken, components)
	}
	if !half {
		return
	}
	for j := range taken {
		if j == 0 || 2*j == n {
			signal[2*j+1] = 0
		}
		if j > 0 {
			signal[2*(n-j)], signal[2*(n-j)+1] = signal[2*j], -signal[2*j+1]
		}
	}
}

// readNumbers is readLine's copy from the aligned slice x.
func readNumbers[T, S real](signal []T, x []S, begin, step, count, components int64) {
	switch components {
	case 0:
		for j := range signal[:count] {
			signal[j] = T(x[begin])
			begin += step
		}
	case 1:
		line := signal[:2*count]
		for j := 0; j+1 < len(line); j += 2 {
			line[j], line[j+1] = T(x[begin]), 0
			begin += step
		}
	default:
		line := signal[:2*count]
		for j := 0; j+1 < len(line); j += 2 {
			line[j], line[j+1] = T(x[begin]), T(x[begin+1])
			begin += step
		}
	}
}

// readElements is readLine's copy from an x of any type.
func readElements[T real](c *Call, signal []T, x *tensor.Tensor, begin, step, count, components int64) {
	for j := range count {
		c.work(4)
		switch v := T(x.Float(begin)); components {
		case 0:
			signal[j] = v
		case 1:
			signal[2*j], signal[2*j+1] = v, 0
		default:
			signal[2*j], signal[2*j+1] = v, T(x.Float(begin+1))
		}
		begin += step
	}
}

// realTransform is a forward transform of an even number of real numbers by a transform of half as many complex ones,
// each of two neighbours.
type realTransform[T real] struct {
	inner *transform[T]
	roots []T // e^(−2πi k/n), k below n/2
	line  []T
}

// newReal returns a transform whose buffers are slices of work, which has at least FourierRoom(n) elements.
func newReal[T real](c *Call, n int64, work []T) *realTransform[T] {
	t := &realTransform[T]{roots: work[:n:n], line: work[n : 3*n : 3*n]}
	t.inner = newTransform(c, n/2, false, work[3*n:])
	for k := range n / 2 {
		c.work(8)
		t.roots[2*k], t.roots[2*k+1] = root[T](k, n, -2)
	}
	return t
}

// run transforms the inner transform's signal and returns the spectrum of all n frequencies.
func (t *realTransform[T]) run() []T {
	z, x, w := t.inner.run(), t.line, t.roots
	m := len(w) / 2
	t.inner.call.work(int64(4 * m))
	x[0], x[1], x[2*m], x[2*m+1] = z[0]+z[1], 0, z[0]-z[1], 0
	for k := 1; k < m; k++ {
		ar, ai, br, bi := z[2*k], z[2*k+1], z[2*(m-k)], -z[2*(m-k)+1]
		evenRe, evenIm, oddRe, oddIm := (ar+br)/2, (ai+bi)/2, (ai-bi)/2, (br-ar)/2
		re := evenRe + oddRe*w[2*k] - oddIm*w[2*k+1]
		im := evenIm + oddRe*w[2*k+1] + oddIm*w[2*k]
		x[2*k], x[2*k+1] = re, im
		x[4*m-2*k], x[4*m-2*k+1] = re, -im
	}
	return x
}

// transform is a Fourier transform of one length, forward or inverse, of complex numbers with interleaved components.
// A length of small prime factors is divided by one factor after the other (Cooley, Tukey: An algorithm for the
// machine calculation of complex Fourier series, 1965; in Stockham's order, which sorts on the way). Another length is
// a convolution with a chirp (Bluestein: A linear filtering approach to the computation of the discrete Fourier
// transform, 1970).
type transform[T real] struct {
	call          *Call
	signal, other []T // the input of run, and scratch of the same length
	radices       []int64
	roots         []T // e^(∓2πi k/n)
	butterfly     []T // scratch for one step
	scale         T
	sign          T             // of the roots' angles
	inner         *transform[T] // of the convolution; nil if there are radices
	chirp, filter []T           // e^(∓πi k²/n), and the transform of its conjugate
}

// newTransform returns a transform whose buffers are slices of work, which has at least FourierRoom(n) elements.
func newTransform[T real](c *Call, n int64, inverse bool, work []T) *transform[T] {
	take := func(count int64) []T {
		taken := work[:count:count]
		work = work[count:]
		return taken
	}
	sign := -1.0
	t := &transform[T]{call: c, scale: 1, radices: radices(n)}
	if inverse {
		sign, t.scale = 1, 1/T(n)
	}
	t.sign = T(sign)
	if t.radices != nil {
		t.signal, t.other, t.roots, t.butterfly = take(2*n), take(2*n), take(2*n), take(2*maxRadix)
		for k := range n {
			c.work(8)
			t.roots[2*k], t.roots[2*k+1] = root[T](k, n, 2*sign)
		}
		return t
	}
	m := paddedLength(n)
	t.filter, t.chirp = take(2*m), take(2*n)
	t.inner = newTransform(c, m, false, work)
	t.signal = t.inner.signal[: 2*n : 2*n]
	padded := t.inner.signal
	zero(c, padded)
	for k := range n {
		c.work(8)
		cos, sin := root[T](int64(uint64(k)*uint64(k)%uint64(2*n)), n, sign)
		t.chirp[2*k], t.chirp[2*k+1] = cos, sin
		for _, at := range []int64{k, (m - k) % m} {
			padded[2*at], padded[2*at+1] = cos, -sin
		}
	}
	copy(t.filter, t.inner.run())
	return t
}

// root returns e^(turn·πi k/n).
func root[T real](k, n int64, turn float64) (re, im T) {
	sin, cos := math.Sincos(turn * math.Pi * float64(k) / float64(n))
	return T(cos), T(sin)
}

// run transforms signal, which it overwrites, and returns the slice that holds the result.
func (t *transform[T]) run() []T {
	if t.inner != nil {
		return t.convolve()
	}
	n := int64(len(t.roots) / 2)
	from, to := t.signal, t.other
	done := int64(1)
	for _, radix := range t.radices {
		t.step(from, to, radix, done, n/done/radix)
		from, to = to, from
		done *= radix
	}
	scaled(t.call, from, t.scale)
	return from
}

// scaled multiplies the elements of x by scale in place.
func scaled[T real](c *Call, x []T, scale T) {
	if scale == 1 {
		return
	}
	for i := range x {
		c.work(1)
		x[i] *= scale
	}
}

// step divides each of done transforms, of length radix·rest, into radix transforms of length rest: from[i, r, d], i
// below rest, becomes to[i, d, r] times the root of i·r.
func (t *transform[T]) step(from, to []T, radix, done, rest int64) {
	switch radix {
	case 2:
		t.two(from, to, done, rest)
		return
	case 4:
		t.four(from, to, done, rest)
		return
	}
	for d := range done {
		t.call.work(radix)
		for i := range rest {
			t.call.work(radix * (1 + radix/16))
			begin, out := 2*(i+rest*radix*d), 2*(i+rest*d)
			t.odd(from[begin:], to[out:], radix, rest, done, i*done)
		}
	}
}

// walk is one of the two loops of a step, over i or over d: its number of iterations, and its strides in from, to and
// roots.
type walk struct{ count, from, to, root int64 }

// walks returns the loops of a step, the longer one as the inner loop.
func walks(radix, done, rest int64) (outer, inner walk) {
	outer, inner = walk{done, 2 * rest * radix, 2 * rest, 0}, walk{rest, 2, 2, 2 * done}
	if done > rest {
		return inner, outer
	}
	return outer, inner
}

// two computes step for radix 2.
func (t *transform[T]) two(from, to []T, done, rest int64) {
	outer, inner := walks(2, done, rest)
	stride, next, roots := 2*rest, 2*rest*done, t.roots
	for a := range outer.count {
		t.call.work(2 * inner.count)
		f, o, k := a*outer.from, a*outer.to, a*outer.root
		for range inner.count {
			x, y := from[f:][:2], from[f+stride:][:2]
			w := roots[k:][:2]
			re, im := x[0]-y[0], x[1]-y[1]
			p, q := to[o:][:2], to[o+next:][:2]
			p[0], p[1] = x[0]+y[0], x[1]+y[1]
			q[0], q[1] = re*w[0]-im*w[1], re*w[1]+im*w[0]
			f, o, k = f+inner.from, o+inner.to, k+inner.root
		}
	}
}

// four computes step for radix 4.
func (t *transform[T]) four(from, to []T, done, rest int64) {
	outer, inner := walks(4, done, rest)
	stride, next, roots, sign := 2*rest, 2*rest*done, t.roots, t.sign
	for a := range outer.count {
		t.call.work(6 * inner.count)
		f, o, k := a*outer.from, a*outer.to, a*outer.root
		for range inner.count {
			x0, x1, x2, x3 := from[f:][:2], from[f+stride:][:2], from[f+2*stride:][:2], from[f+3*stride:][:2]
			w1, w2, w3 := roots[k:][:2], roots[2*k:][:2], roots[3*k:][:2]
			ar, ai, br, bi := x0[0]+x2[0], x0[1]+x2[1], x0[0]-x2[0], x0[1]-x2[1]
			cr, ci := x1[0]+x3[0], x1[1]+x3[1]
			dr, di := sign*(x3[1]-x1[1]), sign*(x1[0]-x3[0]) // ±i times their difference
			y := to[o:][:2]
			y[0], y[1] = ar+cr, ai+ci
			re, im := br+dr, bi+di
			y = to[o+next:][:2]
			y[0], y[1] = re*w1[0]-im*w1[1], re*w1[1]+im*w1[0]
			re, im = ar-cr, ai-ci
			y = to[o+2*next:][:2]
			y[0], y[1] = re*w2[0]-im*w2[1], re*w2[1]+im*w2[0]
			re, im = br-dr, bi-di
			y = to[o+3*next:][:2]
			y[0], y[1] = re*w3[0]-im*w3[1], re*w3[1]+im*w3[0]
			f, o, k = f+inner.from, o+inner.to, k+inner.root
		}
	}
}

// turn stores (re, im) times root k.
func (t *transform[T]) turn(to []T, re, im T, k int64) {
	if k == 0 {
		to[0], to[1] = re, im
		return
	}
	cos, sin := t.roots[2*k], t.roots[2*k+1]
	to[0], to[1] = re*cos-im*sin, re*sin+im*cos
}

// odd computes the butterfly of an odd radix. The sums and differences of opposite elements share their factors.
func (t *transform[T]) odd(from, to []T, radix, rest, done, k int64) {
	n, half := int64(len(t.roots)/2), radix/2
	sums, differences := t.butterfly[:2*half], t.butterfly[2*half:4*half]
	firstRe, firstIm := from[0], from[1]
	totalRe, totalIm := firstRe, firstIm
	for j := range half {
		a, b := 2*rest*(j+1), 2*rest*(radix-1-j)
		sums[2*j], sums[2*j+1] = from[a]+from[b], from[a+1]+from[b+1]
		differences[2*j], differences[2*j+1] = from[a]-from[b], from[a+1]-from[b+1]
		totalRe, totalIm = totalRe+sums[2*j], totalIm+sums[2*j+1]
	}
	to[0], to[1] = totalRe, totalIm
	for r := int64(1); r <= half; r++ {
		alongRe, alongIm, acrossRe, acrossIm := firstRe, firstIm, T(0), T(0)
		for j := range half {
			at := 2 * (n / radix * ((j + 1) * r % radix))
			cos, sin := t.roots[at], t.roots[at+1]
			alongRe, alongIm = alongRe+cos*sums[2*j], alongIm+cos*sums[2*j+1]
			acrossRe, acrossIm = acrossRe-sin*differences[2*j+1], acrossIm+sin*differences[2*j]
		}
		t.turn(to[2*rest*done*r:], alongRe+acrossRe, alongIm+acrossIm, k*r)
		t.turn(to[2*rest*done*(radix-r):], alongRe-acrossRe, alongIm-acrossIm, k*(radix-r))
	}
}

// convolve transforms a length with a large prime factor: jk = (j² + k² − (k−j)²) / 2 makes the transform a
// convolution.
func (t *transform[T]) convolve() []T {
	padded := t.inner.signal
	multiply(t.call, t.signal, t.chirp, false)
	zero(t.call, padded[len(t.signal):])
	sums := t.inner.run()
	// The inverse transform is the conjugate of the conjugate's.
	multiply(t.call, sums, t.filter, true)
	copy(padded, sums)
	line := t.inner.run()[:len(t.signal)]
	scaled(t.call, line, 1/T(len(padded)/2))
	for i := 1; i < len(line); i += 2 {
		t.call.work(1)
		line[i] = -line[i]
	}
	multiply(t.call, line, t.chirp, false)
	scaled(t.call, line, t.scale)
	return line
}

// multiply multiplies the complex numbers of x by those of y in place, and conjugates the products if conjugate is
// set.
func multiply[T real](c *Call, x, y []T, conjugate bool) {
	sign := T(1)
	if conjugate {
		sign = -1
	}
	for i := 0; i+1 < len(x); i += 2 {
		c.work(2)
		re, im := x[i]*y[i]-x[i+1]*y[i+1], x[i]*y[i+1]+x[i+1]*y[i]
		x[i], x[i+1] = re, sign*im
	}
}
