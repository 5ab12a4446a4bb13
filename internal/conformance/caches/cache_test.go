package caches

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// cacheModel returns an imported model whose nodes write into cache, f32 [b, 3, 8, 4], at the positions in the input
// at.
func cacheModel(t *testing.T, named bool, nodes ...*wire.NodeProto) *weir.Model {
	t.Helper()
	batch := wire.Size(2)
	if named {
		batch = wire.Dim("b")
	}
	four := func(name string, rows int64) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, batch, wire.Size(3), wire.Size(rows), wire.Size(4))
	}
	outputs := []*wire.ValueInfoProto{four("present", 8), {Name: "y"}}
	g := &wire.GraphProto{Input: []*wire.ValueInfoProto{four("cache", 8), four("new", 2),
		wire.TensorValue("at", wire.Int64Type, batch)},
		Output: outputs, Node: nodes}
	opsets := []*wire.OperatorSetIDProto{{Version: 24}, {Domain: "com.microsoft", Version: 1}}
	data := (&wire.ModelProto{IRVersion: 11, OpsetImport: opsets, Graph: g}).Marshal()
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(data))
	t.Cleanup(func() { m.Close() })
	return m
}

// cacheStep returns the arguments of a step except the cache, which begins with elements of all kinds.
func cacheStep(t *testing.T, batch, at int) (cache, news, places *weir.Tensor) {
	t.Helper()
	cache, news = weirtest.Filled(t, batch, 3, 8, 4), weirtest.Filled(t, batch, 3, 2, 4)
	for i, v := range weirtest.View[float32](t, cache) {
		odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1)), v}
		weirtest.View[float32](t, cache)[i] = odd[i%4] + float32(i%3)
	}
	places = weirtest.Must[*weir.Tensor](t)(weir.New(weir.I64, batch))
	for i := range weirtest.View[int64](t, places) {
		weirtest.View[int64](t, places)[i] = int64(at + i)
	}
	t.Cleanup(func() { cache.Close(); news.Close(); places.Close() })
	return cache, news, places
}

// address returns the address of a tensor's first byte; nil if it has no elements.
func address(t *weir.Tensor) *byte {
	if data := t.Bytes(); len(data) > 0 {
		return &data[0]
	}
	return nil
}

// TestCaches runs an imported model that writes into a cache. It writes in place if the cache is donated or is a state
// by Options.States, and gives the same bits as the reference.
func TestCaches(t *testing.T) {
	scatter := func(mode string) *wire.NodeProto {
		return weirtest.NodeOf("TensorScatter cache,new,at present", wire.IntAttribute("axis", 2),
			wire.StringAttribute("mode", mode))
	}
	read := weirtest.NodeOf("Relu present y")
	for _, cpu := range []string{"native", "avx2", "portable"} {
		for _, mode := range []string{"linear", "circular"} {
			for _, named := range []bool{false, true} {
				batches := []int{2}
				if named {
					batches = []int{0, 1, 5}
				}
				m := cacheModel(t, named, scatter(mode), read)
				for _, batch := range batches {
					name := fmt.Sprintf("%s %s, batch of %d, named %v", cpu, mode, batch, named)
					t.Run(name, func(t *testing.T) { checkCache(t, m, weir.Options{CPU: cpu, Threads: 2}, batch) })
				}
			}
		}
	}
}

// checkCache runs a model with its cache lent, donated and as a state, and compares the bits and the addresses.
func checkCache(t *testing.T, m *weir.Model, o weir.Options, batch int) {
	reference := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Target: weir.Reference}))
	defer reference.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if errors.Is(err, weir.ErrUnsupported) {
		t.Skipf("no such processor: %v", err)
	}
	weirtest.Must[*weir.Program](t)(p, err)
	defer p.Close()
	o.States = map[string]string{"cache": "present"}
	updating := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	defer updating.Close()
	if s := updating.States(); len(s) != 1 || !s[0].InPlace {
		t.Fatalf("states %v", s)
	}
	state, _, _ := cacheStep(t, batch, 0)
	donated, _, _ := cacheStep(t, batch, 0)
	lent, _, _ := cacheStep(t, batch, 0)
	place := address(donated)
	for step := range 3 {
		_, news, at := cacheStep(t, batch, step)
		in := func(cache weir.Arg) weir.Inputs { return weir.Inputs{"cache": cache, "new": news, "at": at} }
		want := weirtest.Must[*weir.Results](t)(reference.Run(t.Context(), in(lent)))
		measured := weirtest.Must[weir.Measurement](t)(updating.Measure(t.Context(), in(weir.Update(state))))
		if peak := weirtest.Must[int64](t)(updating.Memory().Peak(1,
			weirtest.OfProgram(updating, weir.Dims{"b": int64(batch)}))); peak != measured.Peak(1) {
			t.Errorf("predicted %d, measured %d bytes", peak, measured.Peak(1))
		}
		updated := weirtest.Must[*weir.Results](t)(updating.Run(t.Context(), in(weir.Update(state))))
		old := donated
		given := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in(weir.Donate(old))))
		if donated = given.Get("present"); address(donated) != place {
			t.Errorf("step %d: the donated cache was copied", step)
		}
		if _, err := weir.View[float32](old); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("a donated cache can be read: %v", err)
		}
		if _, err := p.Run(t.Context(), in(old)); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("a donated cache can be given again: %v", err)
		}
		for name, got := range map[string][]byte{"present": donated.Bytes(), "y": given.Get("y").Bytes()} {
			if !bytes.Equal(got, want.Get(name).Bytes()) {
				t.Errorf("step %d: %s of a donated cache differs", step, name)
			}
		}
		if !bytes.Equal(state.Bytes(), want.Get("present").Bytes()) ||
			!bytes.Equal(updated.Get("y").Bytes(), want.Get("y").Bytes()) {
			t.Errorf("step %d: the updated cache differs", step)
		}
		copy(lent.Bytes(), want.Get("present").Bytes())
		given.Get("y").Close()
		updated.Close()
		want.Close()
	}
	donated.Close()
}

// TestCacheRead reads a cache's old value after the new one is written: such a cache is not written in place.
func TestCacheRead(t *testing.T) {
	m := cacheModel(t, false, weirtest.NodeOf("TensorScatter cache,new,at present", wire.IntAttribute("axis", 2)),
		weirtest.NodeOf("ReduceMax present top"),
		weirtest.NodeOf("Div cache,top all"), weirtest.NodeOf("ReduceMin all y"))
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{}))
	defer p.Close()
	cache, news, at := cacheStep(t, 2, 3)
	_, err := p.Run(t.Context(), weir.Inputs{"cache": weir.Donate(cache), "new": news, "at": at})
	if err == nil || cache.Bytes() == nil {
		t.Fatalf("the donated cache is read after it is written over: %v", err)
	}
	want := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"cache": cache, "new": news, "at": at}))
	defer want.Close()
	o := weir.Options{States: map[string]string{"cache": "present"}}
	updating := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	defer updating.Close()
	got := weirtest.Must[*weir.Results](t)(updating.Run(t.Context(),
		weir.Inputs{"cache": weir.Update(cache), "new": news,
			"at": at}))
	defer got.Close()
	for _, name := range []string{"present", "y"} {
		if !bytes.Equal(got.Get(name).Bytes(), want.Get(name).Bytes()) {
			t.Errorf("%s differs, with states %v", name, updating.States())
		}
	}
}

// TestCacheRefusals: positions outside a cache, and inputs that cannot be states, are ErrInput.
func TestCacheRefusals(t *testing.T) {
	m := cacheModel(t, false, weirtest.NodeOf("TensorScatter cache,new,at present", wire.IntAttribute("axis", 2)),
		weirtest.NodeOf("Relu present y"))
	for in, c := range map[string]struct{ out, words string }{
		"none": {"present", "none"}, "new": {"present", "same type and shape"}, "cache": {"absent",
			`no output "absent"`},
		"at": {"y", "new value"},
	} {
		_, err := weir.Compile(t.Context(), m, weir.Options{States: map[string]string{in: c.out}})
		if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s becomes %s: %v", in, c.out, err)
		}
	}
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m,
		weir.Options{States: map[string]string{"cache": "present"}}))
	defer p.Close()
	cache, news, at := cacheStep(t, 2, 7)
	before := bytes.Clone(cache.Bytes())
	_, err := p.Run(t.Context(), weir.Inputs{"cache": weir.Update(cache), "new": news, "at": at})
	var torn *weir.StateError
	if !errors.Is(err, weir.ErrInput) || !errors.As(err, &torn) && !bytes.Equal(before, cache.Bytes()) {
		t.Errorf("places 7 to 9 of 8: %v", err)
	}
	for _, words := range []string{"tensor cache", "outside [0, 7]", "fix: cache has the shape [2 3 8 4]"} {
		if !strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("places 7 to 9 of 8: %v: it does not say %q", err, words)
		}
	}
}

// TestGroupedCache: the caches of GroupQueryAttention are written in place if the graph declares that they keep their
// shape, or if Options.States names them.
func TestGroupedCache(t *testing.T) {
	for _, declared := range []bool{true, false} {
		cache := func(name string) *wire.ValueInfoProto {
			return wire.TensorValue(name, wire.FloatType, wire.Size(1), wire.Size(2), wire.Dim("room"), wire.Size(4))
		}
		outputs := []*wire.ValueInfoProto{{Name: "y"}, cache("k1"), cache("v1")}
		if !declared {
			outputs = []*wire.ValueInfoProto{{Name: "y"}, {Name: "k1"}, {Name: "v1"}}
		}
		node := weirtest.NodeOf("GroupQueryAttention q,k,v,k0,v0,last,total y,k1,v1", wire.IntAttribute("num_heads", 4),
			wire.IntAttribute("kv_num_heads", 2))
		node.Domain = "com.microsoft"
		row := func(name string, width int64) *wire.ValueInfoProto {
			return wire.TensorValue(name, wire.FloatType, wire.Size(1), wire.Size(1), wire.Size(width))
		}
		g := &wire.GraphProto{Output: outputs, Node: []*wire.NodeProto{node},
			Input: []*wire.ValueInfoProto{row("q", 16), row("k", 8), row("v", 8),
				cache("k0"), cache("v0"), wire.TensorValue("last", wire.Int32Type, wire.Size(1)),
				wire.TensorValue("total", wire.Int32Type)}}
		opsets := []*wire.OperatorSetIDProto{{Version: 21}, {Domain: "com.microsoft", Version: 1}}
		m := weirtest.Must[*weir.Model](t)(weir.LoadBytes((&wire.ModelProto{IRVersion: 10, OpsetImport: opsets,
			Graph: g}).Marshal()))
		defer m.Close()
		plain := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Target: weir.Reference}))
		defer plain.Close()
		o := weir.Options{States: map[string]string{"k0": "k1", "v0": "v1"}}
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		defer p.Close()
		for _, s := range p.States() {
			if !s.InPlace {
				t.Errorf("%s is copied", s.Input)
			}
		}
		k0, v0 := weirtest.Filled(t, 1, 2, 6, 4), weirtest.Filled(t, 1, 2, 6, 4)
		last, total := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int32{2},
			1)), weirtest.Must[*weir.Tensor](t)(weir.New(weir.I32))
		weirtest.View[int32](t, total)[0] = 3
		in := weir.Inputs{"q": weirtest.Filled(t, 1, 1, 16), "k": weirtest.Filled(t, 1, 1, 8),
			"v": weirtest.Filled(t, 1, 1, 8), "k0": k0, "v0": v0,
			"last": last, "total": total}
		want := weirtest.Must[*weir.Results](t)(plain.Run(t.Context(), in))
		in["k0"], in["v0"] = weir.Update(k0), weir.Update(v0)
		got := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
		if !bytes.Equal(k0.Bytes(), want.Get("k1").Bytes()) || !bytes.Equal(v0.Bytes(), want.Get("v1").Bytes()) {
			t.Errorf("the caches differ, declared %v", declared)
		}
		a, b := weirtest.View[float32](t, got.Get("y")), weirtest.View[float32](t, want.Get("y"))
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-6 {
				t.Errorf("y[%d] is %g, not %g", i, a[i], b[i])
			}
		}
		for _, c := range []interface{ Close() error }{got, want, k0, v0, last, total} {
			c.Close()
		}
		for _, name := range []string{"q", "k", "v"} {
			in[name].(*weir.Tensor).Close()
		}
	}
}
