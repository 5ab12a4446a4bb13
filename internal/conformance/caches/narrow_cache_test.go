package caches

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// groupedModel returns a model of GroupQueryAttention of 4 heads over 2 heads of keys, which are states of room
// entries.
func groupedModel(t *testing.T) *weir.Model {
	t.Helper()
	cache := func(name string) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, wire.Size(1), wire.Size(2), wire.Dim("room"), wire.Size(16))
	}
	row := func(name string, width int64) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, wire.Size(1), wire.Dim("news"), wire.Size(width))
	}
	node := weirtest.NodeOf("GroupQueryAttention q,k,v,k0,v0,last,total y,k1,v1", wire.IntAttribute("num_heads", 4),
		wire.IntAttribute("kv_num_heads", 2))
	node.Domain = "com.microsoft"
	g := &wire.GraphProto{Output: []*wire.ValueInfoProto{{Name: "y"}, {Name: "k1"}, {Name: "v1"}},
		Node: []*wire.NodeProto{node},
		Input: []*wire.ValueInfoProto{row("q", 64), row("k", 32), row("v", 32), cache("k0"), cache("v0"),
			wire.TensorValue("last", wire.Int32Type, wire.Size(1)), wire.TensorValue("total", wire.Int32Type)}}
	opsets := []*wire.OperatorSetIDProto{{Version: 21}, {Domain: "com.microsoft", Version: 1}}
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes((&wire.ModelProto{IRVersion: 10, OpsetImport: opsets,
		Graph: g}).Marshal()))
	t.Cleanup(func() { m.Close() })
	return m
}

// toBF16 rounds x to bf16, to nearest and ties to even.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// TestNarrowCaches: caches in bf16 take half the bytes, hold the values of caches of f32, rounded once, and are never
// widened entirely. Results differ by no more than the rounding explains, at every level, for many new entries and for
// one.
func TestNarrowCaches(t *testing.T) {
	m := groupedModel(t)
	states := map[string]string{"k0": "k1", "v0": "v1"}
	for _, cpu := range []string{"native", "avx2", "portable", "reference"} {
		t.Run(cpu, func(t *testing.T) {
			o, room, first := weir.Options{CPU: cpu, Threads: 2, States: states}, 640, 500
			if cpu == "reference" {
				o.CPU, o.Target, room, first = "", weir.Reference, 16, 12
			}
			plain, err := weir.Compile(t.Context(), m, o)
			if errors.Is(err, weir.ErrUnsupported) {
				t.Skipf("no such processor: %v", err)
			}
			weirtest.Must[*weir.Program](t)(plain, err)
			defer plain.Close()
			o.Cache = weir.BF16
			p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
			defer p.Close()
			for i, s := range p.States() {
				narrow, wide := weirtest.Must[int64](t)(s.Bytes.At(weir.Dims{"room": int64(room)})),
					weirtest.Must[int64](t)(plain.States()[i].Bytes.At(weir.Dims{"room": int64(room)}))
				if s.InPlace == (cpu == "reference") || 2*narrow != wide {
					t.Errorf("%s: %d bytes, in place %v; %d bytes in f32", s.Input, narrow, s.InPlace, wide)
				}
			}
			cache := func(dt weir.DType) weir.Inputs {
				k, v := weirtest.Must[*weir.Tensor](t)(weir.New(dt, 1, 2, room,
					16)), weirtest.Must[*weir.Tensor](t)(weir.New(dt, 1, 2, room, 16))
				t.Cleanup(func() { k.Close(); v.Close() })
				return weir.Inputs{"k0": weir.Update(k), "v0": weir.Update(v), "k": k, "v": v}
			}
			wide, narrow := cache(weir.F32), cache(weir.BF16)
			for at, news := 0, first; at < first+3; at, news = at+news, 1 {
				in := grouped(t, at, news, 64, 32)
				step := func(p *weir.Program, states weir.Inputs) *weir.Results {
					in["k0"], in["v0"] = states["k0"], states["v0"]
					return weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
				}
				want, got := step(plain, wide), step(p, narrow)
				for _, name := range []string{"k", "v"} {
					x, y := weirtest.View[float32](t, wide[name].(*weir.Tensor)), narrow[name].(*weir.Tensor).Bytes()
					for i := range x {
						if stored := uint16(y[2*i]) | uint16(y[2*i+1])<<8; stored != toBF16(x[i]) {
							t.Fatalf("%s[%d] is %#x, and f32 has %g", name, i, stored, x[i])
						}
					}
				}
				// Values are below 2 and scores below 4: each value is off by 2⁻⁸ of itself, and each weight by twice
				// 2⁻⁸ of the sum of |q·k|.
				a, b := weirtest.View[float32](t, got.Get("y")), weirtest.View[float32](t, want.Get("y"))
				worst := 0.0
				for i := range a {
					worst = max(worst, math.Abs(float64(a[i]-b[i])))
				}
				if !(worst <= 0.02) || worst == 0 {
					t.Errorf("from %d, %d new: results differ by %g", at, news, worst)
				}
				got.Close()
				want.Close()
				if o.Target == weir.Reference {
					continue
				}
				measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
				dims := weir.Dims{"room": int64(room), "news": int64(news)}
				if peak := weirtest.Must[int64](t)(p.Memory().Peak(1, dims)); peak != measured.Peak(1) {
					t.Errorf("predicted %d, measured %d bytes", peak, measured.Peak(1))
				}
				if arena := weirtest.Must[int64](t)(p.Memory().Arena.At(dims)); news == 1 && arena >= int64(2*room*16*2) {
					t.Errorf("an arena of %d bytes holds a copy of a cache", arena)
				}
			}
		})
	}
}

// grouped is the arguments of groupedModel but for its states: news entries after the first at, of queries and keys of
// so many elements.
func grouped(t *testing.T, at, news, query, key int) weir.Inputs {
	t.Helper()
	in := weir.Inputs{"last": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int32{int32(at + news - 1)}, 1)),
		"total": weirtest.Must[*weir.Tensor](t)(weir.New(weir.I32))}
	weirtest.View[int32](t, in["total"].(*weir.Tensor))[0] = int32(at + news)
	for name, width := range map[string]int{"q": query, "k": key, "v": key} {
		x := weirtest.Must[*weir.Tensor](t)(weir.New(weir.F32, 1, news, width))
		for i := range weirtest.View[float32](t, x) {
			weirtest.View[float32](t, x)[i] = float32(math.Sin(float64(i*7+len(name)*at+int(name[0]))) * 1.3)
		}
		in[name] = x
	}
	t.Cleanup(func() {
		for _, x := range in {
			if x, is := x.(*weir.Tensor); is {
				x.Close()
			}
		}
	})
	return in
}

// TestNarrowScatters: a cache that a model reshapes, transposes and writes several times stays narrow, and its readers
// read the stored values. A state that is not a cache is not narrowed.
func TestNarrowScatters(t *testing.T) {
	const text = `weir 1
ir @m {
  dim n in [1, 64]
  main @main(%x: f32[2, 3], %at: i64[2, 3], %cache: f32[3, n], %sum: f32[2, 3]) {
    state %cache -> %present
    state %sum -> %total
    const %one: i64[] = [1]
    %t: f32[n, 3] = transpose(%cache) {perm = ints [1, 0]}
    %a: f32[n, 3] = scatter_elements(%t, %at, %x) {axis = int 0, reduction = string "none"}
    %r: f32[n, 1, 3] = reshape(%a) {shape = syms [n, 1, 3]}
    %f: f32[n, 3] = reshape(%r) {shape = syms [n, 3]}
    %y: f32[n, 3] = exp(%a)
    %neg: f32[2, 3] = neg(%x)
    %next: i64[2, 3] = add(%at, %one)
    %b: f32[n, 3] = scatter_elements(%f, %next, %neg) {axis = int 0, reduction = string "none"}
    %present: f32[3, n] = transpose(%b) {perm = ints [1, 0]}
    %total: f32[2, 3] = add(%sum, %x)
    return %present, %total, %y
  }
}
`
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(text)))
	defer m.Close()
	for _, target := range []weir.Target{weir.CPU, weir.Portable, weir.Reference} {
		t.Run(string(target), func(t *testing.T) {
			p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m,
				weir.Options{Target: target, Cache: weir.BF16}))
			defer p.Close()
			for _, info := range append(p.Inputs(), p.Outputs()...) {
				narrow := info.Name == "cache" || info.Name == "present"
				if narrow != (info.DType == weir.BF16) {
					t.Errorf("%v", info)
				}
			}
			x, at := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{1.001, 2.002, 3.003, -4.004, 5.005, 6.006},
				2, 3)),
				weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{0, 0, 1, 3, 3, 3}, 2, 3))
			cache, sum := weirtest.Must[*weir.Tensor](t)(weir.New(weir.BF16, 3,
				5)), weirtest.Must[*weir.Tensor](t)(weir.New(weir.F32, 2, 3))
			for _, c := range []*weir.Tensor{x, at, cache, sum} {
				defer c.Close()
			}
			got := weirtest.Must[*weir.Results](t)(p.Run(t.Context(),
				weir.Inputs{"x": x, "at": at, "cache": weir.Update(cache),
					"sum": weir.Update(sum)}))
			defer got.Close()
			y := weirtest.View[float32](t, got.Get("y"))
			for i, v := range []float32{1.001, 2.002, 3.003, -4.004, 5.005, 6.006} {
				row, col := []int{0, 0, 1, 3, 3, 3}[i], i%3
				stored := math.Float32frombits(uint32(toBF16(v)) << 16)
				if want := math.Exp(float64(stored)); math.Abs(float64(y[row*3+col])-want) > 1e-5*want {
					t.Errorf("y[%d, %d] is %g; exp of the stored %g is %g", row, col, y[row*3+col], stored, want)
				}
				data := cache.Bytes()
				for next, want := range map[int]uint16{row + 1: toBF16(-v)} {
					if at := 2 * (col*5 + next); uint16(data[at])|uint16(data[at+1])<<8 != want {
						t.Errorf("the cache has %#x at row %d, column %d, not %#x",
							uint16(data[at])|uint16(data[at+1])<<8, next, col,
							want)
					}
				}
			}
		})
	}
}

// TestNarrowCacheRefusals: states that cannot be narrow are refused, with a fix.
func TestNarrowCacheRefusals(t *testing.T) {
	m := groupedModel(t)
	for _, c := range []struct {
		o     weir.Options
		kind  error
		words string
	}{
		{weir.Options{Cache: weir.BF16}, weir.ErrInput, "--state"},
		{weir.Options{Cache: weir.F64}, weir.ErrUnsupported, "i8"},
	} {
		if _, err := weir.Compile(t.Context(), m, c.o); !errors.Is(err, c.kind) ||
			!strings.Contains(fmt.Sprintf("%+v", err), c.words) {
			t.Errorf("%v: %v", c.o, err)
		}
	}
	o := weir.Options{Cache: weir.BF16, States: map[string]string{"k0": "k1", "v0": "v1"}}
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	defer p.Close()
	in := grouped(t, 0, 1, 64, 32)
	k0, v0 := weirtest.Filled(t, 1, 2, 8, 16), weirtest.Filled(t, 1, 2, 8, 16)
	defer k0.Close()
	defer v0.Close()
	in["k0"], in["v0"] = weir.Update(k0), weir.Update(v0)
	if _, err := p.Run(t.Context(), in); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "bf16") {
		t.Errorf("caches of f32: %v", err)
	}
}
