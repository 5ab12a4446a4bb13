package hostop

import (
	"math"
	"math/bits"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	register("fourier", func(c *Call) error {
		if c.Types[1] == dtype.F64 {
			return fourier[float64](c)
		}
		return fourier[float32](c)
	})
}

// maxRadix is the largest prime factor that a transform is divided by; a length with a larger one is computed as a convolution.
const maxRadix = 61

// maxTransform keeps the squares of positions within 64 bits.
const maxTransform = 1 << 31

// FourierRoom is the number of elements that a transform of the length works in.
func FourierRoom(length int64) int64 {
	room := 6*length + 2*maxRadix
	if length < 1 || length > maxTransform || radices(length) != nil {
		return room
	}
	return room + 8*paddedLength(length)
}

// FourierRoomMost times a length, plus 2·61, is at least its FourierRoom.
const FourierRoomMost = 38

// paddedLength is the power of two in which a convolution of the length is computed without wrapping around: less than four times it.
func paddedLength(length int64) int64 { return 1 << bits.Len64(uint64(2*length-2)) }

// radices are a length's prime factors, ascending; nil where one is above maxRadix.
func radices(length int64) []int64 {
	out := []int64{}
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

type real interface{ float32 | float64 }

// fourier is the discrete Fourier transform along the attribute axis, in O(n log n). The last axis of input 0 and of result 0 holds a real part, or a real and an imaginary one. The
// axis is cut or filled with zeros to the attribute length. Onesided, a forward transform gives the first half of its result, and an inverse one takes such a half and gives real
// numbers. Result 1, of the attribute room, is memory to work in, and its type the precision of the work; it is left zero.
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
	t := newTransform(c, n, inverse, work)
	from, to := tensor.Strides(x.Shape()), tensor.Strides(shape)
	rows := append([]int64{}, shape...)
	rows[axis], rows[last] = 1, 1
	given, parts := x.Shape()[axis], x.Shape()[last]
	tensor.Each(rows, func(at []int64) {
		readLine(c, t.signal, x, tensor.Offset(from, at), from[axis], given, parts, onesided && inverse)
		line := t.run()
		begin := tensor.Offset(to, at)
		for k := range shape[axis] {
			c.work(4)
			for part := range shape[last] {
				out.SetFloat(begin+k*to[axis]+part, float64(line[2*k+part]))
			}
		}
	})
	return nil
}

// readLine reads given complex numbers from a line of x into the signal, filling with zeros; with half, the signal's second half is the mirrored conjugate of its first.
func readLine[T real](c *Call, signal []T, x *tensor.Tensor, begin, step, given, parts int64, half bool) {
	n := int64(len(signal) / 2)
	zero(c, signal)
	taken := n
	if half {
		taken = n/2 + 1
	}
	for j := range min(given, taken) {
		c.work(4)
		re, im := T(x.Float(begin+j*step)), T(0)
		if parts > 1 && !(half && (j == 0 || 2*j == n)) {
			im = T(x.Float(begin + j*step + 1))
		}
		signal[2*j], signal[2*j+1] = re, im
		if half && j > 0 {
			signal[2*(n-j)], signal[2*(n-j)+1] = re, -im
		}
	}
}

// transform is a Fourier transform of one length, forward or inverse, of complex numbers whose parts are interleaved. A length of small prime factors is divided by one of them after
// the other (Cooley, Tukey: An algorithm for the machine calculation of complex Fourier series, 1965; in Stockham's order, which sorts on the way); another is a convolution with a
// chirp (Bluestein: A linear filtering approach to the computation of the discrete Fourier transform, 1970).
type transform[T real] struct {
	call          *Call
	signal, other []T // to be transformed, and as much room
	radices       []int64
	roots         []T // e^(∓2πi k/n)
	butterfly     []T // room for one step
	scale         T
	inner         *transform[T] // of the convolution; nil where there are radices
	chirp, filter []T           // e^(∓πi k²/n), and the transform of its conjugate
}

// newTransform divides work, which is FourierRoom(n) long at least.
func newTransform[T real](c *Call, n int64, inverse bool, work []T) *transform[T] {
	take := func(count int64) []T {
		part := work[:count:count]
		work = work[count:]
		return part
	}
	sign := -1.0
	t := &transform[T]{call: c, scale: 1, radices: radices(n)}
	if inverse {
		sign, t.scale = 1, 1/T(n)
	}
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

// root is e^(turn·πi k/n).
func root[T real](k, n int64, turn float64) (re, im T) {
	sin, cos := math.Sincos(turn * math.Pi * float64(k) / float64(n))
	return T(cos), T(sin)
}

// run transforms signal, which it spoils, and returns where the result lies.
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

func scaled[T real](c *Call, x []T, scale T) {
	if scale == 1 {
		return
	}
	for i := range x {
		c.work(1)
		x[i] *= scale
	}
}

// step divides each of done transforms, of length radix·rest, into radix transforms of length rest: from[i, r, d], i below rest, becomes to[i, d, r] times the root of i·r.
func (t *transform[T]) step(from, to []T, radix, done, rest int64) {
	for d := range done {
		t.call.work(radix)
		for i := range rest {
			t.call.work(radix * (1 + radix/16))
			begin, out := 2*(i+rest*radix*d), 2*(i+rest*d)
			if radix == 2 {
				far, twin := 2*rest, 2*rest*done
				ar, ai, br, bi := from[begin], from[begin+1], from[begin+far], from[begin+far+1]
				to[out], to[out+1] = ar+br, ai+bi
				t.turn(to[out+twin:], ar-br, ai-bi, i*done)
				continue
			}
			t.odd(from[begin:], to[out:], radix, rest, done, i*done)
		}
	}
}

// turn writes a complex number times a root.
func (t *transform[T]) turn(to []T, re, im T, k int64) {
	if k == 0 {
		to[0], to[1] = re, im
		return
	}
	cos, sin := t.roots[2*k], t.roots[2*k+1]
	to[0], to[1] = re*cos-im*sin, re*sin+im*cos
}

// odd is a step's butterfly of an odd radix: the sums and differences of the elements that lie opposite each other share their factors.
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

// convolve is the transform of a length with a large prime factor: jk = (j² + k² − (k−j)²) / 2 makes a convolution of it.
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

// multiply multiplies complex numbers into x, and conjugates the products where asked to.
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
