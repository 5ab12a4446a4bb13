package texts

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// randomText is a random text that lays out memory, mostly without overlap, and a way to compute its results.
type randomText struct {
	r        *rand.Rand
	lines    []string
	values   []string // in scope
	storages []string
	live     map[string]string // where live carved values lie
	count    int
	eval     map[string]func(env map[string][]float32) []float32
	order    []string // the values that every run computes, in order
}

// name returns a new name that begins with a letter.
func (g *randomText) name(letter string) string {
	g.count++
	return fmt.Sprintf("%%%s%d", letter, g.count)
}

func pick(r *rand.Rand, list []string) string { return list[r.Intn(len(list))] }

var (
	randomSizes   = []string{"4*m", "8*m", "12*m", "16*m", "64", "128", "4*m + 64", "8*m + 8"}
	randomOffsets = []string{"0", "0", "4*m", "8*m", "12*m", "64", "32", "4*m + 4", "2*m"}
)

// operand returns a value in scope, mostly one that is live.
func (g *randomText) operand() string {
	for range 8 {
		v := pick(g.r, g.values)
		if !strings.HasPrefix(v, "%t") || g.live[v] != "" || g.r.Intn(20) == 0 {
			return v
		}
	}
	return "%x"
}

// node adds an operator, carved two times out of three.
func (g *randomText) node() {
	a, b := g.operand(), g.operand()
	kind := g.r.Intn(6)
	letter, carve := "v", ""
	if len(g.storages) > 0 && g.r.Intn(3) > 0 {
		letter = "t"
		s, at := pick(g.r, g.storages), pick(g.r, randomOffsets)
		if g.r.Intn(8) > 0 { // mostly at a free offset
			for _, other := range randomOffsets {
				taken := false
				for _, place := range g.live {
					taken = taken || place == s+" at "+other
				}
				if !taken {
					at = other
					break
				}
			}
		}
		carve = s + " at " + at
	}
	out := g.name(letter)
	var text string
	var f func(env map[string][]float32) []float32
	each := func(names []string, op func(x []float32) float32) func(env map[string][]float32) []float32 {
		return func(env map[string][]float32) []float32 {
			y := make([]float32, len(env["%x"]))
			for i := range y {
				var x []float32
				for _, name := range names {
					x = append(x, env[name][i])
				}
				y[i] = op(x)
			}
			return y
		}
	}
	switch kind {
	case 0, 1:
		text, f = "neg("+a+")", each([]string{a}, func(x []float32) float32 { return -x[0] })
	case 2:
		text, f = "abs("+a+")", each([]string{a}, func(x []float32) float32 { return float32(math.Abs(float64(x[0]))) })
	case 3:
		text, f = "reshape("+a+") {shape = syms [m]}", each([]string{a}, func(x []float32) float32 { return x[0] })
	case 4: // the compiler removes it
		text, f = "sub("+a+", %zero)", each([]string{a}, func(x []float32) float32 { return x[0] })
	default:
		text, f = "add("+a+", "+b+")", each([]string{a, b}, func(x []float32) float32 { return x[0] + x[1] })
	}
	line := out + ": f32[m] = " + text
	if carve != "" {
		line += " carve " + carve
		g.live[out] = carve
	}
	g.lines = append(g.lines, line)
	g.values, g.eval[out] = append(g.values, out), f
	g.order = append(g.order, out)
}

// statement adds a random statement: a node, a storage, a release or, if deep, an if.
func (g *randomText) statement(deep bool) {
	switch k := g.r.Intn(12); {
	case k == 0 || len(g.storages) == 0 && k < 4:
		s := g.name("s")
		g.lines = append(g.lines, "storage "+s+": "+pick(g.r, randomSizes)+" bytes")
		g.storages = append(g.storages, s)
	case k < 4 && len(g.live) > 0:
		var names []string
		for _, v := range g.values {
			if g.live[v] != "" {
				names = append(names, v)
			}
		}
		if len(names) == 0 {
			return
		}
		v := pick(g.r, names)
		g.lines = append(g.lines, "release "+v)
		delete(g.live, v)
	case k == 4 && deep:
		g.branch()
	default:
		g.node()
	}
}

// branch adds an if: the values of its bodies stay inside.
func (g *randomText) branch() {
	head, out := len(g.lines), g.name("v")
	g.lines = append(g.lines, "")
	values, storages, order := len(g.values), len(g.storages), len(g.order)
	live := map[string]string{}
	for k, v := range g.live {
		live[k] = v
	}
	var results [2]string
	var inner [2][]string
	for i := range results {
		g.live = map[string]string{}
		for k, v := range live {
			g.live[k] = v
		}
		for range 1 + g.r.Intn(4) {
			g.statement(false)
		}
		results[i] = g.operand()
		inner[i] = append([]string(nil), g.order[order:]...)
		g.lines = append(g.lines, "return "+results[i])
		g.values, g.storages, g.order = g.values[:values], g.storages[:storages], g.order[:order]
		if i == 0 {
			g.lines = append(g.lines, "} region () {")
		}
	}
	g.lines = append(g.lines, "}")
	g.lines[head] = out + ": f32[m] = if(%c) region () {"
	for v := range g.live { // values that the second body released; the first should have released them too
		if live[v] == "" {
			delete(g.live, v)
		}
	}
	eval := g.eval
	g.eval[out] = func(env map[string][]float32) []float32 {
		which := 1
		if env["%c"][0] != 0 {
			which = 0
		}
		own := map[string][]float32{}
		for k, v := range env {
			own[k] = v
		}
		for _, v := range inner[which] {
			own[v] = eval[v](own)
		}
		return own[results[which]]
	}
	g.values, g.order = append(g.values, out), append(g.order, out)
}

// newRandomText returns the text of a seed.
func newRandomText(seed int64) (*randomText, string) {
	g := &randomText{r: rand.New(rand.NewSource(seed)), values: []string{"%x"}, live: map[string]string{},
		eval: map[string]func(map[string][]float32) []float32{}}
	for range 4 + g.r.Intn(12) {
		g.statement(true)
	}
	results := []string{g.operand()}
	g.lines = append(g.lines, g.name("y")+": f32[m] = neg("+results[0]+")")
	y := strings.Fields(g.lines[len(g.lines)-1])[0]
	y = strings.TrimSuffix(y, ":")
	g.order = append(g.order, y)
	last := results[0]
	g.eval[y] = func(env map[string][]float32) []float32 {
		out := make([]float32, len(env["%x"]))
		for i := range out {
			out[i] = -env[last][i]
		}
		return out
	}
	lo := g.r.Intn(10)
	hi := pick(g.r, []string{"inf", "inf", "16"})
	source := fmt.Sprintf("weir 1\nir @random {\n  dim m in [%d, %s]\n  main @main(%%x: f32[m], %%c: bool[]) {\n    "+
		"const %%zero: f32[1] = [0]\n    %s\n    return %s\n  }\n}\n", lo, hi, strings.Join(g.lines, "\n    "), y)
	return g, source
}

// FuzzMemoryText compares the verdict on a text that lays out memory with the oracle's. A text that is accepted gives
// the same results as without its layout.
func FuzzMemoryText(f *testing.F) {
	for seed := range int64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		g, source := newRandomText(seed)
		p, err := weirtest.CompileText(t, source, weir.Options{Threads: 1})
		if wrong := judge(strings.Replace(source, "    const %zero: f32[1] = [0]\n", "", 1), p, err); wrong != nil {
			t.Fatalf("%v\n%s\n%s", wrong, source, classes(p, err))
		}
		if err != nil {
			return
		}
		ran := 0
		for m := 0; m <= 40 && ran < 3; m++ {
			o := newOracle(source)
			o.dims["m"] = big.NewInt(int64(m))
			ok := int64(m) >= o.ranges["m"][0] && int64(m) <= o.ranges["m"][1]
			for _, r := range p.Requires() {
				ok = ok && o.holds(r.Condition)
			}
			if !ok {
				continue
			}
			for _, c := range []bool{false, true} {
				runRandom(t, g, p, source, m, c)
			}
			ran++
			m += 3
		}
	})
}

// runRandom runs a text, and compares its result and its memory with the expected ones.
func runRandom(t *testing.T, g *randomText, p *weir.Program, source string, m int, cond bool) {
	x := make([]float32, m)
	for i := range x {
		x[i] = float32(i) - 3.5
	}
	env := map[string][]float32{"%x": x, "%c": {0}}
	if cond {
		env["%c"] = []float32{1}
	}
	for _, v := range g.order {
		env[v] = g.eval[v](env)
	}
	in := weir.Inputs{}
	tx, err := weir.FromSlice(x, m)
	if err != nil {
		t.Fatal(err)
	}
	tc, err := weir.New(weir.Bool)
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	flag, err := weir.View[bool](tc)
	if err != nil {
		t.Fatal(err)
	}
	flag[0] = cond
	in["x"], in["c"] = tx, tc
	r, err := p.Run(context.Background(), in)
	if err != nil {
		t.Fatalf("m = %d: %v\n%s", m, err, source)
	}
	defer r.Close()
	y := g.order[len(g.order)-1]
	got, err := weir.Copy[float32](r.At(0))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(env[y]) {
		t.Fatalf("m = %d, %v: %v, want %v (%v)\n%s", m, cond, got, env[y], err, source)
	}
	seen, err := p.Measure(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Memory().PeakWith(1, weir.Dims{"m": int64(m)}, seen)
	if err != nil || m > 0 && want != seen.Peak(1) {
		t.Fatalf("m = %d: %d bytes predicted, %d measured (%v)\n%s", m, want, seen.Peak(1), err, source)
	}
}
