package tensor

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
)

// randomTensor returns a tensor of random bits, odd bytes after an aligned address.
func randomTensor(r *rand.Rand, dt dtype.DType, odd int, shape ...int64) *Tensor {
	count, _ := Count(shape)
	size := int(count) * dt.Bits() / 8
	data := make([]byte, size+16)
	start := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data)))&7) + odd
	data = data[start:][:size]
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return Must(Over(dt, shape, data))
}

// permutedSlowly is a reference for Permuted: it moves byte by byte.
func permutedSlowly(t *Tensor, shape, perm []int64) *Tensor {
	to := make([]int64, len(perm))
	for i, p := range perm {
		to[i] = shape[p]
	}
	out, strides, width, flat := Must(New(t.dt, to...)), Strides(shape), int64(t.dt.Bits()/8), int64(0)
	Each(to, func(at []int64) {
		from := int64(0)
		for i, p := range perm {
			from += at[i] * strides[p]
		}
		copy(out.data[flat*width:][:width], t.Bytes()[from*width:])
		flat++
	})
	return out
}

// shuffled returns a random permutation of rank axes.
func shuffled(r *rand.Rand, rank int) []int64 {
	perm := make([]int64, rank)
	for i, p := range r.Perm(rank) {
		perm[i] = int64(p)
	}
	return perm
}

// checkSlices fills slices along every axis, compares them with want, and computes the elements for good at the end.
func checkSlices(t *testing.T, r *rand.Rand, name string, got, want *Tensor) {
	t.Helper()
	if !slices.Equal(got.Shape(), want.Shape()) || got.DType() != want.DType() || got.Len() != want.Len() ||
		got.Size() != int64(len(want.Bytes())) {
		t.Fatalf("%s: %v%v, want %v%v", name, got.DType(), got.Shape(), want.DType(), want.Shape())
	}
	pending := got.Pending()
	if data, steps, ok := got.Strided(); ok {
		width, flat := int64(want.dt.Bits()/8), int64(0)
		Each(want.Shape(), func(at []int64) {
			from := Offset(steps, at) * width
			if string(data[from:from+width]) != string(want.Bytes()[flat*width:][:width]) {
				t.Fatalf("%s: element %v does not lie at %d", name, at, from)
			}
			flat++
		})
	}
	for axis, extent := range want.Shape() {
		begin := r.Int64N(extent + 1)
		end := begin + r.Int64N(extent-begin+1)
		shape := slices.Clone(want.Shape())
		shape[axis] = end - begin
		a, release := Temporary(want.DType(), shape...)
		b := Must(New(want.DType(), shape...))
		got.Fill(a, axis, begin, end)
		want.Fill(b, axis, begin, end)
		if !a.Equal(b) {
			t.Fatalf("%s: indices %d to %d along axis %d differ", name, begin, end, axis)
		}
		release()
	}
	if got.Pending() != pending {
		t.Fatalf("%s: filling slices has computed all elements for good", name)
	}
	if !got.Equal(want) || got.Pending() {
		t.Fatalf("%s: all elements: %v, want %v", name, got, want)
	}
}

// TestPermuted compares random permutations, some of them permuted again, with permutedSlowly; types and shapes that
// cannot be permuted are refused.
func TestPermuted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	types := []dtype.DType{dtype.U8, dtype.F16, dtype.F32, dtype.I64, dtype.F64, dtype.Bool, dtype.C64}
	for range 400 {
		shape := make([]int64, 1+r.IntN(5))
		for i := range shape {
			shape[i] = []int64{1, 1, 2, 3, 5, 17, 20}[r.IntN(7)]
			if r.IntN(40) == 0 {
				shape[i] = 0
			}
		}
		dt := types[r.IntN(len(types))]
		x := randomTensor(r, dt, r.IntN(2)*r.IntN(8), shape...)
		if dt == dtype.Bool {
			x = Must(New(dt, shape...))
		}
		perm := shuffled(r, len(shape))
		once, want := Must(Permuted(x, shape, perm)), permutedSlowly(x, shape, perm)
		if x.Len() > 0 && once.Origins()[0] != x {
			t.Fatal("a permuted tensor has another origin than what was permuted")
		}
		perm2 := shuffled(r, len(shape))
		twice := Must(Permuted(once, once.Shape(), perm2))
		again := permutedSlowly(want, want.Shape(), perm2)
		flat := []int64{want.Len()} // all axes in one
		if len(shape) > 2 {
			flat = []int64{want.Shape()[0], want.Len() / max(1, want.Shape()[0])}
		}
		if want.Len() > 0 {
			checkSlices(t, r, "reshaped", Must(Must(Permuted(x, shape, perm)).Reshape(flat...)), Must(want.Reshape(flat...)))
			ones := append(slices.Insert(slices.Clone(want.Shape()), len(shape)/2, 1), 1)
			checkSlices(t, r, "with axes of one", Must(Must(Permuted(x, shape, perm)).Reshape(ones...)),
				Must(want.Reshape(ones...)))
		}
		checkSlices(t, r, "permuted twice", twice, again)
		checkSlices(t, r, "permuted", once, want)
		checkSlices(t, r, "permuted of what is there", Must(Permuted(once, once.Shape(), perm2)), again)
	}
	for _, c := range []struct {
		t           *Tensor
		shape, perm []int64
	}{
		{Must(New(dtype.I4, 4, 4)), []int64{4, 4}, []int64{1, 0}},
		{Must(New(dtype.String, 4, 4)), []int64{4, 4}, []int64{1, 0}}, {Must(New(dtype.F32)), nil, nil},
		{Must(New(dtype.F32, 4, 4)), []int64{4, 5}, []int64{1, 0}}, {Must(New(dtype.F32, 4, 4)), []int64{4, 4}, []int64{0}},
		{Must(New(dtype.C128, 2, 2)), []int64{2, 2}, []int64{1, 0}},
	} {
		if p, err := Permuted(c.t, c.shape, c.perm); err == nil {
			t.Errorf("%v as %v in the order %v is %v", c.t, c.shape, c.perm, p)
		}
	}
}

// negated returns a deferred tensor of the negated elements of another.
func negated(x *Tensor, calls func(axis int, begin, end int64)) *Tensor {
	return Must(Deferred(x.DType(), x.Shape(), x, x.Major(), func(to *Tensor, axis int, begin, end int64) {
		calls(axis, begin, end)
		x.Fill(to, axis, begin, end)
		for i := range to.Len() {
			to.SetFloat(i, -to.Float(i))
		}
	}))
}

// TestDeferred permutes and reshapes a deferred tensor: however often it is permuted or reshaped, only the elements
// that are asked for may be computed.
func TestDeferred(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		shape := []int64{1 + r.Int64N(9), 1 + r.Int64N(6), 1 + r.Int64N(4), 1 + r.Int64N(20)}
		x := Must(New(dtype.F32, shape...))
		for i := range x.Len() {
			x.SetFloat(i, r.NormFloat64())
		}
		minus := x.Clone()
		for i := range minus.Len() {
			minus.SetFloat(i, -minus.Float(i))
		}
		perm := shuffled(r, 4)
		none := func(int, int64, int64) {}
		checkSlices(t, r, "negated", negated(x, none), minus)
		checkSlices(t, r, "negated, permuted", Must(Permuted(negated(x, none), shape, perm)),
			permutedSlowly(minus, shape, perm))
		inner := Must(Permuted(x, shape, perm))
		turned := permutedSlowly(minus, shape, perm)
		checkSlices(t, r, "permuted, negated", negated(inner, none), turned)
		merged := []int64{turned.Shape()[0] * turned.Shape()[1], turned.Shape()[2], 1, turned.Shape()[3]}
		checkSlices(t, r, "permuted, negated, reshaped",
			Must(negated(Must(Permuted(x, shape, perm)), none).Reshape(merged...)), Must(turned.Reshape(merged...)))

		y := Must(Permuted(negated(x, func(axis int, begin, end int64) {
			if x.Shape()[axis] > 1 && end-begin != 1 {
				t.Errorf("indices %d to %d along axis %d are computed where one is asked for", begin, end, axis)
			}
		}), shape, perm))
		if len := y.Shape()[y.Major()]; len > 1 {
			piece := slices.Clone(y.Shape())
			piece[y.Major()] = 1
			to, release := Temporary(dtype.F32, piece...)
			y.Fill(to, y.Major(), len-1, len)
			release()
		}
	}
}

// TestPendingWrites reads from many goroutines, and writes from one: written elements stay.
func TestPendingWrites(t *testing.T) {
	x := Must(FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	y := Must(Permuted(x, []int64{2, 3}, []int64{1, 0}))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if y.Float(1) != 4 {
				t.Error("the second element is not 4")
			}
		})
	}
	wait.Wait()
	y.SetFloat(1, 7)
	to := Must(New(dtype.F32, 3, 2))
	y.Fill(to, 0, 0, 3)
	if to.Float(1) != 7 || x.Float(3) != 4 || y.Pending() {
		t.Errorf("%v after writing, of %v", to, x)
	}
}

// slicedSlowly is a reference for Sliced.
func slicedSlowly(t *Tensor, begin, extent, step []int64) *Tensor {
	out, strides, flat := Must(New(t.dt, extent...)), Strides(t.shape), int64(0)
	Each(extent, func(at []int64) {
		from := int64(0)
		for i := range at {
			from += (begin[i] + at[i]*step[i]) * strides[i]
		}
		out.SetInt(flat, t.Int(from))
		flat++
	})
	return out
}

// TestSlicedAndJoined cuts permuted tensors into pieces and joins them in any order, as for recurrent weights whose
// gates an exporter orders differently.
func TestSlicedAndJoined(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		shape := make([]int64, 1+r.IntN(4))
		for i := range shape {
			shape[i] = 1 + r.Int64N(9)
		}
		x := randomTensor(r, dtype.I32, r.IntN(4), shape...)
		perm := shuffled(r, len(shape))
		later, there := Must(Permuted(x, shape, perm)), permutedSlowly(x, shape, perm)
		axis := r.IntN(len(shape))
		var pieces, want []*Tensor
		for range 1 + r.IntN(4) {
			begin, extent, step := make([]int64, len(shape)), slices.Clone(there.shape), make([]int64, len(shape))
			for i, size := range there.shape {
				if step[i] = 1; i == axis {
					begin[i] = r.Int64N(size)
					step[i] = 1 + r.Int64N(size)
					extent[i] = 1 + (size-1-begin[i])/step[i]
				}
			}
			piece, ok := Sliced(later, begin, extent, step)
			if !ok || piece.Depth() != 1 {
				t.Fatalf("%v from %v by %v cannot be sliced, or is computed in %d steps", later.shape, begin, step, piece.Depth())
			}
			slow := slicedSlowly(there, begin, extent, step)
			pieces, want = append(pieces, piece), append(want, slow)
			checkSlices(t, r, "sliced", Must(Permuted(piece, extent, perm)), permutedSlowly(slow, extent, perm))
			beyond := slices.Clone(extent)
			if beyond[axis]++; true {
				if _, ok := Sliced(later, begin, beyond, step); ok && begin[axis]+(beyond[axis]-1)*step[axis] >= there.shape[axis] {
					t.Fatalf("%v of %v from %v by %v is more than there is", beyond, there.shape, begin, step)
				}
			}
		}
		total, at := slices.Clone(there.shape), int64(0)
		total[axis] = 0
		for _, p := range want {
			total[axis] += p.shape[axis]
		}
		joined := Must(New(dtype.I32, total...))
		for _, p := range want {
			for i := range p.shape[axis] {
				index := make([]int64, len(total))
				line := slices.Clone(p.shape)
				line[axis] = 1
				Each(line, func(idx []int64) {
					copy(index, idx)
					index[axis] = i
					from := Offset(Strides(p.shape), index)
					index[axis] += at
					joined.SetInt(Offset(Strides(total), index), p.Int(from))
				})
			}
			at += p.shape[axis]
		}
		got, ok := Joined(axis, pieces...)
		if !ok || got.OriginBytes(0, 1) != nil || len(got.Origins()) != 1 {
			t.Fatalf("%d pieces cannot be joined, or have %d origins", len(pieces), len(got.Origins()))
		}
		checkSlices(t, r, "joined", Must(Permuted(got, total, perm)), permutedSlowly(joined, total, perm))
		checkSlices(t, r, "joined", got, joined)
	}
	x := Must(New(dtype.F32, 2, 3))
	for _, list := range [][]*Tensor{nil, {x, Must(New(dtype.F32, 3))}, {x, Must(New(dtype.F64, 2, 3))},
		{x, Must(New(dtype.F32, 2, 4))}} {
		if _, ok := Joined(0, list...); ok {
			t.Errorf("%v are joined", list)
		}
	}
}

// TestReshapedSpread shows that slices of a reshape have no origin bytes of their own if the slices are along an axis
// that is spread over the origin.
func TestReshapedSpread(t *testing.T) {
	weights := Must(New(dtype.F32, 12, 5, 3, 3)) // [filters, channels, rows, columns]
	last := Must(Permuted(weights, weights.shape, []int64{2, 3, 1, 0}))
	joined, err := last.Reshape(3, 15, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	if last.OriginBytes(0, 1) == nil || joined.OriginBytes(0, 1) != nil || joined.Done(1) != nil {
		t.Errorf("%d bytes of a permutation and %d of its reshape have origin bytes", len(last.OriginBytes(0, 1)),
			len(joined.OriginBytes(0, 1)))
	}
	checkSlices(t, rand.New(rand.NewPCG(1, 2)), "reshaped", joined,
		Must(permutedSlowly(weights, weights.shape, []int64{2, 3, 1, 0}).Reshape(3, 15, 4, 3)))
}
