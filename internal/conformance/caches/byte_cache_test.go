package caches

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// headsModel returns a model of GroupQueryAttention of heads over groups of size elements, with caches of room entries;
// an extent of 0 is a named dimension.
func headsModel(t *testing.T, heads, groups, size, news, room int64) *weir.Model {
	t.Helper()
	extent := func(name string, n int64) *wire.Dimension {
		if n == 0 {
			return wire.Dim(name)
		}
		return wire.Size(n)
	}
	cache := func(name string) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, wire.Size(1), wire.Size(groups), extent("room", room),
			wire.Size(size))
	}
	row := func(name string, width int64) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, wire.Size(1), extent("news", news), wire.Size(width))
	}
	node := weirtest.NodeOf("GroupQueryAttention q,k,v,k0,v0,last,total y,k1,v1", wire.IntAttribute("num_heads", heads),
		wire.IntAttribute("kv_num_heads", groups))
	node.Domain = "com.microsoft"
	g := &wire.GraphProto{Output: []*wire.ValueInfoProto{{Name: "y"}, {Name: "k1"}, {Name: "v1"}},
		Node: []*wire.NodeProto{node},
		Input: []*wire.ValueInfoProto{row("q", heads*size), row("k", groups*size), row("v", groups*size), cache("k0"),
			cache("v0"),
			wire.TensorValue("last", wire.Int32Type, wire.Size(1)), wire.TensorValue("total", wire.Int32Type)}}
	opsets := []*wire.OperatorSetIDProto{{Version: 21}, {Domain: "com.microsoft", Version: 1}}
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes((&wire.ModelProto{IRVersion: 10, OpsetImport: opsets,
		Graph: g}).Marshal()))
	t.Cleanup(func() { m.Close() })
	return m
}

// inBytes quantises a vector to bytes, and returns its scale.
func inBytes(x []float32) (q []int8, scale float32) {
	for _, v := range x {
		if v != v {
			scale = v
		} else if a := float32(math.Abs(float64(v))); a > scale {
			scale = a
		}
	}
	scale /= 127
	for _, v := range x {
		y := float64(v / scale)
		if !(math.Abs(y) < math.Inf(1)) {
			y = 0
		}
		q = append(q, int8(math.RoundToEven(max(-127, min(127, y)))))
	}
	return q, scale
}

// oddRows changes vectors into several kinds: zeros, one huge channel, subnormal numbers, and one whose elements are
// nearly all equal.
func oddRows(x []float32, size, kinds int) {
	for r := 0; r*size < len(x); r++ {
		row := x[r*size : (r+1)*size]
		for i := range row {
			switch r % kinds {
			case 1:
				row[i] = 0
			case 2:
				if row[i] *= 1e-3; i == r%size {
					row[i] = 300
				}
			case 3:
				row[i] *= 1e-41
			case 4:
				row[i] = 1 + row[i]/1e4
			case 5:
				row[i] = math.Float32frombits(uint32(1 + i%200))
			}
		}
	}
}

// TestByteCaches compares caches in bytes with caches of f32 at every level, with sizes named and known, for many new
// entries and for one. The bytes are the f32 quantised once; their scales are states; results keep within the bound of
// docs/accuracy.md; the measured bytes are the predicted ones.
func TestByteCaches(t *testing.T) {
	for _, cpu := range []string{"native", "avx2", "portable", "reference"} {
		for _, c := range []struct{ heads, groups, size, news, room int64 }{{4, 2, 16, 0, 0}, {3, 3, 20, 0, 333},
			{8, 1, 64, 1, 640}, {2, 2, 17, 9, 40}} {
			t.Run(fmt.Sprintf("%s %v", cpu, c), func(t *testing.T) {
				steps := []int{120, 1, 1, 7, 1}
				if cpu == "reference" || c.room == 40 {
					steps = []int{9, 9, 9}
				}
				if c.news > 0 {
					steps = slices.Repeat([]int{int(c.news)}, 4)
				}
				h := &byteCaches{T: t, size: int(c.size), heads: int(c.heads), groups: int(c.groups), room: int(c.room),
					reference: cpu == "reference"}
				if c.room == 0 {
					h.room = 200
				}
				h.compile(headsModel(t, c.heads, c.groups, c.size, c.news, c.room), cpu)
				at := 0
				for _, news := range steps {
					h.step(at, news)
					at += news
				}
			})
		}
	}
}

// byteCaches is a model with caches of f32 and of bytes, side by side.
type byteCaches struct {
	*testing.T
	size, heads, groups, room int
	reference                 bool
	plain, narrow             *weir.Program
	wide, bytes               weir.Inputs // the states of each
	k, v                      []float32   // the caches' elements in f32
}

// compile compiles the model with caches of f32 and of bytes, and makes their states.
func (h *byteCaches) compile(m *weir.Model, cpu string) {
	o := weir.Options{CPU: cpu, Threads: 2, States: map[string]string{"k0": "k1", "v0": "v1"}}
	if h.reference {
		o.CPU, o.Target = "", weir.Reference
	}
	plain, err := weir.Compile(h.Context(), m, o)
	if errors.Is(err, weir.ErrUnsupported) {
		h.Skipf("no such processor: %v", err)
	}
	h.plain = weirtest.Must[*weir.Program](h.T)(plain, err)
	h.Cleanup(func() { h.plain.Close() })
	o.Cache = weir.I8
	h.narrow = weirtest.Must[*weir.Program](h.T)(weir.Compile(h.Context(), m, o))
	h.Cleanup(func() { h.narrow.Close() })
	h.states()
	tensor := func(dt weir.DType, size int) *weir.Tensor {
		x := weirtest.Must[*weir.Tensor](h.T)(weir.New(dt, 1, h.groups, h.room, size))
		h.Cleanup(func() { x.Close() })
		return x
	}
	k, v := tensor(weir.F32, h.size), tensor(weir.F32, h.size)
	h.k, h.v = weirtest.View[float32](h.T, k), weirtest.View[float32](h.T, v)
	h.wide = weir.Inputs{"k0": weir.Update(k), "v0": weir.Update(v)}
	h.bytes = weir.Inputs{}
	for _, name := range []string{"k0", "v0"} {
		h.bytes[name], h.bytes[name+".scale"] = weir.Update(tensor(weir.I8, h.size)), weir.Update(tensor(weir.F32, 1))
	}
}

// states checks that each state of bytes has one of scales, and that both are updated in place.
func (h *byteCaches) states() {
	h.Helper()
	total, dims := int64(0), weir.Dims{"room": int64(h.room)}
	var names []string
	for _, s := range h.narrow.States() {
		names = append(names, s.Input+" "+s.Output)
		total += weirtest.Must[int64](h.T)(s.Bytes.At(dims))
		if s.InPlace == h.reference {
			h.Errorf("%s in place: %v", s.Input, s.InPlace)
		}
	}
	slices.Sort(names)
	if want := "k0 k1,k0.scale k1.scale,v0 v1,v0.scale v1.scale"; strings.Join(names, ",") != want {
		h.Errorf("states %v", names)
	}
	if want := int64(2 * h.groups * h.room * (h.size + 4)); total != want {
		h.Errorf("states of %d bytes, not %d", total, want)
	}
}

// step runs both programs on the same new entries at a position, and compares results, caches and certificate.
func (h *byteCaches) step(at, news int) {
	in := grouped(h.T, at, news, h.heads*h.size, h.groups*h.size)
	oddRows(weirtest.View[float32](h.T, in["k"].(*weir.Tensor)), h.size, 7)
	oddRows(weirtest.View[float32](h.T, in["v"].(*weir.Tensor)), h.size, 6)
	run := func(p *weir.Program, states weir.Inputs) *weir.Results {
		for name, s := range states {
			in[name] = s
		}
		return weirtest.Must[*weir.Results](h.T)(p.Run(h.Context(), in))
	}
	want := run(h.plain, h.wide)
	defer want.Close()
	got := run(h.narrow, h.bytes)
	defer got.Close()
	h.stored("k", got, h.k)
	h.stored("v", got, h.v)
	q := weirtest.View[float32](h.T, in["q"].(*weir.Tensor))
	y, exact := weirtest.View[float32](h.T, got.Get("y")),
		weirtest.View[float32](h.T, want.Get("y"))
	differs := false
	for row := range news {
		for head := range h.heads {
			from := (row*h.heads + head) * h.size
			bounds := h.bound(q[from:from+h.size], head/(h.heads/h.groups), at+row+1)
			for e, bound := range bounds {
				d := math.Abs(float64(y[from+e]) - float64(exact[from+e]))
				if differs = differs || d > 0; !(d <= bound) {
					h.Fatalf("query %d, head %d: %g, and %g in f32: the bound is %g", at+row, head, y[from+e],
						exact[from+e], bound)
				}
			}
		}
	}
	if !differs {
		h.Error("results are those of caches in f32")
	}
	if h.reference {
		return
	}
	measured := weirtest.Must[weir.Measurement](h.T)(h.narrow.Measure(h.Context(), in))
	dims := weirtest.OfProgram(h.narrow, weir.Dims{"room": int64(h.room), "news": int64(news)})
	if peak := weirtest.Must[int64](h.T)(h.narrow.Memory().Peak(1, dims)); peak != measured.Peak(1) {
		h.Errorf("predicted %d, measured %d bytes", peak, measured.Peak(1))
	}
	arena := weirtest.Must[int64](h.T)(h.narrow.Memory().Arena.At(dims))
	if news == 1 && arena >= int64(h.groups*h.room*h.size) && h.size > 32 {
		h.Errorf("an arena of %d bytes holds a copy of a cache", arena)
	}
}

// stored checks that a cache's bytes and scales are those of the quantised vectors of f32.
func (h *byteCaches) stored(name string, got *weir.Results, x []float32) {
	h.Helper()
	bytes, scales := got.Get(name+"1").Bytes(), weirtest.View[float32](h.T, got.Get(name+"1.scale"))
	for i, scale := range scales {
		q, want := inBytes(x[i*h.size : (i+1)*h.size])
		if scale != want {
			h.Fatalf("vector %d of %s has the scale %g, not %g", i, name, scale, want)
		}
		for j, b := range q {
			if int8(bytes[i*h.size+j]) != b {
				h.Fatalf("vector %d of %s has %d at %d, not %d", i, name, int8(bytes[i*h.size+j]), j, b)
			}
		}
	}
}

// bound returns docs/accuracy.md's bound for the results of a query that sees so many keys, plus the rounding of sums
// in f32.
func (h *byteCaches) bound(q []float32, group, keys int) []float64 {
	const u, least = 0x1p-24, 0x1p-142
	row := func(x []float32, j int) []float32 {
		return x[(group*h.room+j)*h.size:][:h.size]
	}
	half := func(x []float32) float64 { // the largest error of an element
		most := 0.
		for _, v := range x {
			most = max(most, math.Abs(float64(v)))
		}
		return most/254*(1+0x1p-15) + least
	}
	scale, off, top := 1/math.Sqrt(float64(h.size)), 0., math.Inf(-1)
	scores := make([]float64, keys)
	for j := range scores {
		sum, all := 0., 0.
		k := row(h.k, j)
		for d, x := range q {
			sum += float64(x) * float64(k[d]) * scale
			all += math.Abs(float64(x)) * (half(k) + float64(h.size+4)*u*math.Abs(float64(k[d]))) * scale
		}
		scores[j], off, top = sum, max(off, all), max(top, sum)
	}
	total := 0.
	for j, s := range scores {
		scores[j] = math.Exp(s - top)
		total += scores[j]
	}
	out := make([]float64, h.size)
	grown := math.Exp(2 * off)
	for j, s := range scores {
		p, v := s/total, row(h.v, j)
		for e := range out {
			out[e] += p*math.Abs(float64(v[e]))*(grown-1+float64(4*keys+64)*u) + p*grown*half(v)
		}
	}
	return out
}

// TestByteCachesNotFinite stores a vector with an infinity or NaN, which reads as NaN: every result of a query that
// sees it is NaN, in values and in keys, and no other result is.
func TestByteCachesNotFinite(t *testing.T) {
	m := headsModel(t, 2, 2, 16, 0, 0)
	for _, cpu := range []string{"native", "avx2", "portable", "reference"} {
		for _, name := range []string{"k", "v"} {
			for _, wrong := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				t.Run(fmt.Sprint(cpu, " ", name, " ", wrong), func(t *testing.T) {
					h := &byteCaches{T: t, size: 16, heads: 2, groups: 2, room: 30, reference: cpu == "reference"}
					h.compile(m, cpu)
					in := grouped(t, 0, 9, 32, 32)
					weirtest.View[float32](t, in[name].(*weir.Tensor))[5*32+3] = wrong // head 0 at position 5
					for state, x := range h.bytes {
						in[state] = x
					}
					got := weirtest.Must[*weir.Results](t)(h.narrow.Run(t.Context(), in))
					defer got.Close()
					for i, y := range weirtest.View[float32](t, got.Get("y")) {
						row, head := i/32, i/16%2
						// A weight of 0 times a value that is NaN is NaN, as in f32; keys are masked before they are
						// weighed.
						touched := head == 0 && (row >= 5 || name == "v" && y != y)
						if touched != (y != y) || math.IsInf(float64(y), 0) {
							t.Errorf("query %d, head %d has %g", row, head, y)
						}
					}
					at := 5
					scale := weirtest.View[float32](t, got.Get(name+"1.scale"))[at]
					if !math.IsNaN(float64(scale)) && !math.IsInf(float64(scale), 1) {
						t.Errorf("the scale is %g", scale)
					}
					if q := got.Get(name + "1").Bytes()[at*16 : at*16+16]; !bytes.Equal(q, make([]byte, 16)) {
						t.Errorf("bytes %v", q)
					}
				})
			}
		}
	}
}

// TestByteCachesKept: an artefact has the states of its program; a cache goes on from a copy; a donated one is refused,
// since it is a state.
func TestByteCachesKept(t *testing.T) {
	h := &byteCaches{T: t, size: 16, heads: 4, groups: 2, room: 50}
	h.compile(headsModel(t, 4, 2, 16, 0, 0), "native")
	h.step(0, 20)
	var saved bytes.Buffer
	weirtest.Must[int64](t)(h.narrow.WriteTo(&saved))
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(saved.Bytes()))
	defer m.Close()
	h.narrow = weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Threads: 1}))
	defer h.narrow.Close()
	h.states()
	h.step(20, 1)
	if _, err := weir.Compile(t.Context(), m, weir.Options{Cache: weir.I8}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("an artefact with other caches: %v", err)
	}
	in := grouped(t, 49, 2, 64, 32) // there is no room for the second
	for name, s := range h.bytes {
		in[name] = s
	}
	var torn *weir.StateError
	if _, err := h.narrow.Run(t.Context(), in); !errors.Is(err, weir.ErrInput) || errors.As(err, &torn) &&
		len(torn.States) == 0 {
		t.Errorf("beyond the end: %v", err)
	}
	in["k0.scale"] = weirtest.Filled(t, 1, 2, 50, 1)
	if _, err := h.narrow.Run(t.Context(), in); !errors.Is(err, weir.ErrInput) ||
		!strings.Contains(err.Error(), "k0.scale") {
		t.Errorf("scales that are lent: %v", err)
	}
}

// TestByteScatters: a cache whose heads lie in one axis has a scale for each; another reader of a cache reads the
// stored values; a state that is not written by whole vectors, or that is not a cache, is not quantised.
func TestByteScatters(t *testing.T) {
	const text = `weir 1
ir @m {
  dim n in [1, 64]
  main @main(%x: f32[2, 2, 12], %at: i64[2], %cache: f32[2, n, 12], %row: i64[3, 1], %z: f32[3, 5], %nd: f32[n, 5],
	%single: f32[2, 3], %any: i64[2, 3], %whole: f32[n, 3]) {
    state %cache -> %present
    state %nd -> %nd2
    state %whole -> %whole2
    %i: i64[2, 1] = reshape(%at) {shape = syms [2, 1]}
    %e: i64[2, 2, 12] = expand(%i) {shape = syms [2, 2, 12]}
    %present: f32[2, n, 12] = scatter_elements(%cache, %e, %x) {axis = int 1, reduction = string "none"}
    %heads: f32[2, n, 3, 4] = reshape(%present) {shape = syms [2, n, 3, 4]}
    %y: f32[2, n, 3, 4] = neg(%heads)
    %nd2: f32[n, 5] = scatter_nd(%nd, %row, %z) {reduction = string "none"}
    %y2: f32[n, 5] = neg(%nd2)
    %whole2: f32[n, 3] = scatter_elements(%whole, %any, %single) {axis = int 0, reduction = string "none"}
    return %present, %nd2, %whole2, %y, %y2
  }
}
`
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(text)))
	defer m.Close()
	for _, target := range []weir.Target{weir.CPU, weir.Portable, weir.Reference} {
		t.Run(string(target), func(t *testing.T) {
			p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m,
				weir.Options{Target: target, Cache: weir.I8}))
			defer p.Close()
			shapes := map[string]string{}
			for _, info := range p.Inputs() {
				shapes[info.Name] = info.String()
			}
			for name, want := range map[string]string{"cache": "i8", "cache.scale": "f32[2,n,3]", "nd": "i8",
				"nd.scale": "f32[n,1]", "whole": "f32"} {
				if !strings.Contains(shapes[name], want) {
					t.Errorf("%s is %s, not %s", name, shapes[name], want)
				}
			}
			if shapes["whole.scale"] != "" {
				t.Error("a state whose vectors are written in part has scales")
			}
			closed := func(x *weir.Tensor) *weir.Tensor {
				t.Cleanup(func() { x.Close() })
				return x
			}
			zeros := func(dt weir.DType, shape ...int) *weir.Tensor {
				return closed(weirtest.Must[*weir.Tensor](t)(weir.New(dt, shape...)))
			}
			in := weir.Inputs{
				"at":  weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{3, 1}, 2)),
				"row": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{0, 4, -1}, 3, 1)),
				"any": zeros(weir.I64, 2, 3), "single": closed(weirtest.Filled(t, 2, 3)),
				"x": closed(weirtest.Filled(t, 2, 2, 12)), "z": closed(weirtest.Filled(t, 3, 5)),
			}
			x, z := weirtest.View[float32](t, in["x"].(*weir.Tensor)),
				weirtest.View[float32](t, in["z"].(*weir.Tensor))
			oddRows(x, 4, 6)
			oddRows(z, 5, 3)
			for name, shape := range map[string][]int{"cache": {2, 6, 12}, "nd": {6, 5}} {
				in[name] = weir.Update(zeros(weir.I8, shape...))
				shape = slices.Clone(shape)
				if shape[len(shape)-1] = 1; name == "cache" {
					shape[2] = 3
				}
				in[name+".scale"] = weir.Update(zeros(weir.F32, shape...))
			}
			in["whole"] = weir.Update(zeros(weir.F32, 6, 3))
			got := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
			defer got.Close()
			check := func(name string, at int, x []float32) {
				t.Helper()
				y := weirtest.View[float32](t, got.Get(name))[at:]
				q, scale := inBytes(x)
				for i := range x {
					if want := -float32(q[i]) * scale; y[i] != want {
						t.Errorf("%s[%d] is %g, not %g", name, at+i, y[i], want)
					}
				}
			}
			for b := range 2 {
				for s := range 2 {
					for head := range 3 {
						check("y", ((b*6+[]int{3, 1}[s])*3+head)*4, x[((b*2+s)*3+head)*4:][:4])
					}
				}
			}
			for s, at := range []int{0, 4, 5} {
				check("y2", at*5, z[s*5:][:5])
			}
		})
	}
}
