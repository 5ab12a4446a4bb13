package dlpack_test

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/dlpack"
)

// producer is another library's tensor of f32, whose deleter counts.
type producer struct {
	data           []float32
	shape, strides []int64
	managed        dlpack.Versioned
	deleted        int
}

func newProducer(data []float32, shape, strides []int64) *producer {
	p := &producer{data: data, shape: shape, strides: strides}
	p.managed = dlpack.Versioned{Major: 1, Minor: 3, Tensor: dlpack.Tensor{
		Data: unsafe.Pointer(unsafe.SliceData(data)), Device: dlpack.Device{Type: dlpack.CPU}, Rank: int32(len(shape)),
		Type: dlpack.Type{Code: 2, Bits: 32, Lanes: 1}, Shape: unsafe.SliceData(shape), Strides: unsafe.SliceData(strides),
	}}
	return p
}

func (p *producer) delete() { p.deleted++ }

func values(n int) []float32 {
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i)
	}
	return data
}

// TestImport takes tensors over as they lie, reads them, and has them deleted once by Close.
func TestImport(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		p := newProducer(values(6), []int64{2, 3}, []int64{3, 1})
		var x *weir.Tensor
		var err error
		if legacy {
			x, err = (&dlpack.Legacy{Tensor: p.managed.Tensor}).Import(p.delete, dlpack.Never)
		} else {
			x, err = p.managed.Import(p.delete, dlpack.Never)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, _ := weir.View[float32](x)
		if unsafe.SliceData(got) != unsafe.SliceData(p.data) || len(got) != 6 || x.String() != "f32[2,3]" || x.Fixed() {
			t.Errorf("%s does not lie where the producer's tensor does", x)
		}
		if p.deleted != 0 {
			t.Error("the deleter was called while the tensor is open")
		}
		x.Close()
		x.Close()
		if p.deleted != 1 {
			t.Errorf("the deleter was called %d times", p.deleted)
		}
	}
}

// TestImportStrides compares random views of random arrays with what their strides say.
func TestImportStrides(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	data := values(4000)
	for range 500 {
		rank := r.Intn(5)
		shape, strides := make([]int64, rank), make([]int64, rank)
		lowest := int64(0)
		for axis := range shape {
			shape[axis], strides[axis] = int64(r.Intn(5)), int64(r.Intn(41)-20)
			if shape[axis] > 0 {
				lowest += min(0, (shape[axis]-1)*strides[axis])
			}
		}
		p := newProducer(data, shape, strides)
		p.managed.Tensor.ByteOffset = uint64(4 * (2000 + lowest%100))
		begin := int64(p.managed.Tensor.ByteOffset / 4)
		x, err := p.managed.Import(p.delete, dlpack.IfNeeded)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := weir.Copy[float32](x)
		var want []float32
		var walk func(at int64, axis int)
		walk = func(at int64, axis int) {
			if axis == rank {
				want = append(want, data[at])
				return
			}
			for i := range shape[axis] {
				walk(at+i*strides[axis], axis+1)
			}
		}
		walk(begin, 0)
		if !slices.Equal(got, want) {
			t.Fatalf("shape %v, strides %v: %v, not %v", shape, strides, got, want)
		}
		if x.Close(); p.deleted != 1 {
			t.Fatalf("the deleter was called %d times", p.deleted)
		}
	}
}

// TestImportRefused gives what cannot be taken: the deleter is called once, and there is an error of the kind.
func TestImportRefused(t *testing.T) {
	input, unsupported := weir.ErrInput, weir.ErrUnsupported
	for _, c := range []struct {
		why  string
		bad  func(m *dlpack.Versioned)
		kind error
	}{
		{"another major version", func(m *dlpack.Versioned) { m.Major = 2; m.Tensor.Rank = math.MaxInt32 }, unsupported},
		{"version 0", func(m *dlpack.Versioned) { m.Major = 0 }, unsupported},
		{"a GPU's memory", func(m *dlpack.Versioned) { m.Tensor.Device.Type = 2 }, unsupported},
		{"an unknown device", func(m *dlpack.Versioned) { m.Tensor.Device.Type = -4 }, unsupported},
		{"vectors", func(m *dlpack.Versioned) { m.Tensor.Type.Lanes = 4 }, unsupported},
		{"an unknown type", func(m *dlpack.Versioned) { m.Tensor.Type.Code = 99 }, unsupported},
		{"pointers", func(m *dlpack.Versioned) { m.Tensor.Type.Code = 3; m.Tensor.Type.Bits = 64 }, unsupported},
		{"a float of 24 bits", func(m *dlpack.Versioned) { m.Tensor.Type.Bits = 24 }, unsupported},
		{"a negative rank", func(m *dlpack.Versioned) { m.Tensor.Rank = -1 }, input},
		{"a great rank", func(m *dlpack.Versioned) { m.Tensor.Rank = 65 }, input},
		{"no shape", func(m *dlpack.Versioned) { m.Tensor.Shape = nil }, input},
		{"no memory", func(m *dlpack.Versioned) { m.Tensor.Data = nil }, input},
		{"an offset beyond all addresses", func(m *dlpack.Versioned) { m.Tensor.ByteOffset = math.MaxUint64 - 8 }, input},
		{"a negative extent", func(m *dlpack.Versioned) { *m.Tensor.Shape = -2 }, input},
		{"more than there is", func(m *dlpack.Versioned) { *m.Tensor.Shape = math.MaxInt64 / 2 }, input},
		{"an endless stride", func(m *dlpack.Versioned) { *m.Tensor.Strides = math.MaxInt64 }, input},
		{"an endless negative stride", func(m *dlpack.Versioned) { *m.Tensor.Strides = math.MinInt64 }, input},
		{"a stride before all addresses", func(m *dlpack.Versioned) { *m.Tensor.Strides = -1 << 46 }, input},
		{"bits with strides", func(m *dlpack.Versioned) {
			m.Tensor.Type = dlpack.Type{Code: 1, Bits: 4, Lanes: 1}
			*m.Tensor.Strides = 9
		}, unsupported},
		{"bits of a byte each", func(m *dlpack.Versioned) {
			m.Tensor.Type = dlpack.Type{Code: 1, Bits: 4, Lanes: 1}
			m.Flags = dlpack.IsPadded
		}, unsupported},
	} {
		p := newProducer(values(6), []int64{2, 3}, []int64{3, 1})
		c.bad(&p.managed)
		x, err := p.managed.Import(p.delete, dlpack.IfNeeded)
		if !errors.Is(err, c.kind) || errors.Is(err, weir.ErrInternal) {
			t.Errorf("%s: %v, %v", c.why, x, err)
		}
		if p.deleted != 1 {
			t.Errorf("%s: the deleter was called %d times", c.why, p.deleted)
		}
	}
}

// TestImportCopies takes tensors over in each of the three ways.
func TestImportCopies(t *testing.T) {
	data := values(8)
	for _, c := range []struct {
		why     string
		strides []int64
		offset  uint64
		copying dlpack.Copying
		copied  bool
		refused bool
	}{
		{"as it lies", []int64{3, 1}, 0, dlpack.IfNeeded, false, false},
		{"a copy that is asked for", []int64{3, 1}, 0, dlpack.Always, true, false},
		{"transposed", []int64{1, 2}, 0, dlpack.IfNeeded, true, false},
		{"transposed, without a copy", []int64{1, 2}, 0, dlpack.Never, false, true},
		{"at an odd address", []int64{3, 1}, 2, dlpack.IfNeeded, true, false},
		{"at an odd address, without a copy", nil, 2, dlpack.Never, false, true},
		{"without strides", nil, 4, dlpack.Never, false, false},
	} {
		p := newProducer(data, []int64{2, 3}, c.strides)
		p.managed.Tensor.ByteOffset = c.offset
		before := weir.Usage()
		x, err := p.managed.Import(p.delete, c.copying)
		if (err != nil) != c.refused || c.refused && !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%s: %v", c.why, err)
		}
		if now := weir.Usage(); err == nil && (now.Tensors > before.Tensors) != c.copied {
			t.Errorf("%s: %d bytes more in tensors", c.why, now.Tensors-before.Tensors)
		}
		if (p.deleted == 1) != (c.copied || c.refused) {
			t.Errorf("%s: the deleter was called %d times before Close", c.why, p.deleted)
		}
		if err == nil {
			x.Close()
		}
		if p.deleted != 1 {
			t.Errorf("%s: the deleter was called %d times", c.why, p.deleted)
		}
	}
}

const text = `weir 1
ir @add {
  dim n in [0, 1000000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    return %sum
  }
}
`

// TestRuns runs a program on what another library lends, and on what it gives away: consumed memory is deleted by the
// run.
func TestRuns(t *testing.T) {
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	program, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	before := weir.Usage()
	for range 1000 {
		p, q := newProducer(values(100), []int64{50}, []int64{2}), newProducer(values(50), []int64{50}, []int64{1})
		q.managed.Flags = dlpack.ReadOnly
		x, err := p.managed.Tensor.Borrow(dlpack.IfNeeded, weir.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		y, err := q.managed.Import(q.delete, dlpack.Never)
		if err != nil {
			t.Fatal(err)
		}
		if !y.Fixed() {
			t.Fatal("memory that is flagged as read-only may be written")
		}
		r, err := program.Run(context.Background(), weir.Inputs{"x": x, "y": weir.Consume(y)})
		if err != nil {
			t.Fatal(err)
		}
		if q.deleted != 1 || p.deleted != 0 {
			t.Fatalf("after the run: consumed memory is deleted %d times, borrowed memory %d times", q.deleted, p.deleted)
		}
		got, _ := weir.View[float32](r.At(0))
		if got[49] != 98+49 {
			t.Fatalf("x+y ends with %v", got[49])
		}
		errs := errors.Join(r.Close(), x.Close(), y.Close())
		if errs != nil || p.deleted != 0 || q.deleted != 1 {
			t.Fatal("after Close:", errs, p.deleted, q.deleted)
		}
	}
	if now := weir.Usage(); now.Foreign != before.Foreign || now.Tensors != before.Tensors {
		t.Errorf("%d foreign bytes and %d of tensors are left", now.Foreign-before.Foreign, now.Tensors-before.Tensors)
	}
}

// TestFill describes tensors of every type and reads them back.
func TestFill(t *testing.T) {
	for dt := weir.Bool; dt < weir.StringType; dt++ {
		x, err := weir.New(dt, 2, 0, 3)
		if err != nil {
			t.Fatal(err)
		}
		y, _ := weir.New(dt, 3, 4)
		for i := range y.Bytes() {
			y.Bytes()[i] = byte(i)
		}
		for _, z := range []*weir.Tensor{x, y} {
			var d dlpack.Tensor
			shape, strides := make([]int64, 3), make([]int64, 3)
			if err := d.Fill(z, shape, strides); err != nil {
				t.Fatal(dt, err)
			}
			if len(z.Bytes()) == 0 && d.Data != nil {
				t.Errorf("%s has memory", z)
			}
			if z.Len() > 0 && (strides[0] != int64(z.Shape()[1]) || strides[1] != 1) {
				t.Errorf("the strides of %s are %v", z, strides)
			}
			back, err := d.Borrow(dlpack.Never, weir.ReadOnly)
			if err != nil {
				t.Fatal(z, err)
			}
			if back.String() != z.String() || !slices.Equal(back.Bytes(), z.Bytes()) {
				t.Errorf("%s comes back as %s", z, back)
			}
		}
		x.Close()
		y.Close()
		if err := new(dlpack.Tensor).Fill(y, make([]int64, 2), make([]int64, 2)); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("a closed tensor: %v", err)
		}
	}
	words, _ := weir.FromSlice([]string{"a"})
	if err := new(dlpack.Tensor).Fill(words, make([]int64, 1), make([]int64, 1)); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("strings: %v", err)
	}
	number, _ := weir.FromSlice([]float32{3}, []int{}...)
	var d dlpack.Tensor
	if err := d.Fill(number, nil, nil); err != nil || d.Rank != 0 || *(*float32)(d.Data) != 3 {
		t.Errorf("a number: %v, %v", d, err)
	}
	if err := d.Fill(words, nil, nil); err == nil {
		t.Error("there is no room, and no error")
	}
}
