package memplan_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// claim returns a problem and its solution as a plan for the validator.
func claim(p memplan.Problem, s *memplan.Solution) *validator.Plan {
	v := &validator.Plan{Dims: p.Dims, Offsets: s.Offsets, Height: s.Height, Arena: s.Arena, Bound: s.Bound,
		Weak: !s.BoundComplete}
	for _, b := range p.Buffers {
		w := validator.Buffer{Name: b.Name, Size: b.Size, Align: b.Align, First: b.First, Last: b.Last, AliasOf: -1}
		if b.Alias != nil {
			w.AliasOf, w.AliasOffset = b.Alias.Of, b.Alias.Offset
		}
		v.Buffers = append(v.Buffers, w)
	}
	for _, l := range s.Layouts {
		w := validator.Layout{When: l.When, Arena: l.Arena}
		for _, let := range l.Lets {
			w.Lets = append(w.Lets, validator.Let(let))
		}
		v.Layouts = append(v.Layouts, w)
	}
	return v
}

// expr parses an expression that a test gives as text.
func expr(t testing.TB, text string) sym.Expr {
	t.Helper()
	x, err := sym.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return x
}

func users(texts ...string) []sym.Name {
	var names []sym.Name
	for _, text := range texts {
		names = append(names, sym.User(text))
	}
	return names
}

func bind(values map[string]int64) func(sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) { v, ok := values[name.Text()]; return v, ok }
}

// recipe says how a random problem is made.
type recipe struct {
	buffers, steps int
	dims           []string
	zero           bool // dimensions may be zero
	mixed          bool // alignments differ
	aliases        bool
}

func randomProblem(random *rand.Rand, r recipe) memplan.Problem {
	p := memplan.Problem{Dims: sym.NewDims(), Steps: r.steps}
	for _, name := range r.dims {
		low := int64(1)
		if r.zero {
			low = 0
		}
		p.Dims.Set(sym.User(name), sym.Range{Min: low, Max: []int64{low, 7, 64, 1000, sym.NoMax}[random.IntN(5)]})
	}
	for i := range r.buffers {
		b := memplan.Buffer{Name: fmt.Sprint("b", i), Size: randomSize(random, r.dims)}
		b.First = random.IntN(r.steps)
		b.Last = min(r.steps-1, b.First+random.IntN(1+random.IntN(r.steps)))
		if r.mixed {
			b.Align = 1 << random.IntN(9)
		}
		if r.aliases && i > 0 && random.IntN(4) == 0 {
			b.Align = 0
			b.Alias = &memplan.Alias{Of: random.IntN(i), Offset: sym.Const(int64(random.IntN(3)) * 24)}
			of := p.Buffers[b.Alias.Of]
			b.First, b.Last = of.First, min(r.steps-1, of.Last+random.IntN(3))
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

func randomSize(random *rand.Rand, dims []string) sym.Expr {
	constant := func() sym.Expr {
		return sym.Const([]int64{0, 1, 4, 60, 64, 100, 128, 256, 1000, 4096}[random.IntN(10)])
	}
	x := constant()
	for _, name := range dims {
		switch random.IntN(4) {
		case 0:
			x = x.Add(sym.Dim(name).Mul(constant()))
		case 1:
			x = x.Mul(sym.Dim(name))
		case 2:
			x = x.Add(sym.Dim(name).Add(constant()).FloorDiv(sym.Const(int64(1 + random.IntN(4)))).Mul(sym.Const(4)))
		}
	}
	return x
}

var recipes = map[string]recipe{
	"static":        {buffers: 12, steps: 8},
	"static large":  {buffers: 120, steps: 60},
	"static mixed":  {buffers: 20, steps: 10, mixed: true, aliases: true},
	"one dimension": {buffers: 15, steps: 10, dims: []string{"n"}},
	"two":           {buffers: 12, steps: 10, dims: []string{"n", "seq.len"}, aliases: true},
	"three, mixed":  {buffers: 10, steps: 6, dims: []string{"n", "m", "k"}, mixed: true},
	"zero":          {buffers: 14, steps: 8, dims: []string{"n", "m"}, zero: true},
	"zero, mixed":   {buffers: 14, steps: 8, dims: []string{"n", "m"}, zero: true, mixed: true, aliases: true},
}

// TestRandomProblems plans random problems with every planner of allPlans, and validates each plan at many bindings.
// The evaluator, the printed formula and the certificate must agree on every byte.
func TestRandomProblems(t *testing.T) {
	rounds := uint64(25)
	if testing.Short() {
		rounds = 10
	}
	for name, r := range recipes {
		t.Run(name, func(t *testing.T) {
			layouts, reached, plans := 0, 0, 0
			for seed := range rounds {
				p := randomProblem(rand.New(rand.NewPCG(seed, 7)), r)
				for kind, s := range allPlans(t, p) {
					if _, err := validator.Verify(claim(p, s), 12); err != nil {
						t.Fatalf("seed %d, %s: %v\n%s", seed, kind, err, s.Arena)
					}
					checkNumbers(t, rand.New(rand.NewPCG(seed, 8)), p, s)
					if kind == "plan" {
						plans++
						layouts += len(s.Layouts)
						if s.Proven {
							reached++
						}
					}
				}
			}
			t.Logf("%d plans, %d layouts, %d proved equal to their bounds", plans, layouts, reached)
		})
	}
}

// allPlans returns the plans of a problem by planner: all heuristics, one or none of them, Naive and Bump. It leaves
// out planners that do not support the problem.
func allPlans(t *testing.T, p memplan.Problem) map[string]*memplan.Solution {
	t.Helper()
	all := map[string]*memplan.Solution{}
	keep := func(kind string, s *memplan.Solution, err error) {
		if err != nil && !errors.Is(err, diag.ErrUnsupported) {
			t.Fatalf("%s: %v", kind, err)
		} else if err == nil {
			all[kind] = s
		}
	}
	s, err := memplan.Plan(p, memplan.Options{})
	keep("plan", s, err)
	s, err = memplan.Plan(p, memplan.Options{Layouts: 1, Without: []string{"greedy", "exact", "local"}})
	keep("fill only", s, err)
	s, err = memplan.Plan(p, memplan.Options{Work: 1 << 20, Without: []string{"greedy", "fill", "local"}})
	keep("exact only", s, err)
	s, err = memplan.Plan(p, memplan.Options{Without: []string{"greedy", "fill", "exact", "local"}, Prefix: "n"})
	keep("nothing", s, err)
	s, err = memplan.Naive(p)
	keep("naive", s, err)
	s, err = memplan.Bump(p)
	keep("bump", s, err)
	return all
}

// checkNumbers compares the evaluator and the certificate with the formulas, at random bindings.
func checkNumbers(t *testing.T, random *rand.Rand, p memplan.Problem, s *memplan.Solution) {
	t.Helper()
	names := p.Dims.Names()
	e, err := s.Evaluator(names)
	if err != nil {
		t.Fatal(err)
	}
	printed := expr(t, s.Arena.String())
	offsets := make([]int64, len(p.Buffers))
	for range 5 {
		values, at := make([]int64, len(names)), map[string]int64{}
		for i, name := range names {
			r, _ := p.Dims.Get(name)
			values[i] = r.Min + random.Int64N(min(r.Max, 2000)-r.Min+1)
			at[name.Text()] = values[i]
		}
		arena, layout, err := e.Eval(values, offsets)
		if err != nil {
			t.Fatal(err)
		}
		want, err := printed.Eval(bind(at))
		if err != nil || want != arena {
			t.Fatalf("at %v: the evaluator has %d bytes, the formula %s is %d (%v)", at, arena, s.Arena, want, err)
		}
		c, err := s.Certify(bind(at))
		if err != nil {
			t.Fatal(err)
		}
		bound, _ := s.Bound.Eval(bind(at))
		live := int64(0)
		for _, a := range c.Alive {
			live += a.Bytes
			if b := p.Buffers[a.Buffer]; p.Buffers[a.Buffer].Alias == nil && len(p.Buffers) > 0 && b.Name != a.Name {
				t.Fatalf("%q is called %q", b.Name, a.Name)
			}
		}
		if c.Arena != arena || c.Bound < bound || s.BoundComplete && c.Bound != bound || c.Layout != layout ||
			live != c.Live || c.Live > c.Arena {
			t.Fatalf("at %v: certificate %+v, arena %d, bound %d, layout %d", at, c, arena, bound, layout)
		}
	}
}

// FuzzPlan plans and validates the problem that a seed and a recipe determine.
func FuzzPlan(f *testing.F) {
	names := slices.Sorted(maps.Keys(recipes))
	for i := range names {
		f.Add(uint64(i), byte(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind byte) {
		p := randomProblem(rand.New(rand.NewPCG(seed, 9)), recipes[names[int(kind)%len(names)]])
		s, err := memplan.Plan(p, memplan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := validator.Verify(claim(p, s), 4); err != nil {
			t.Fatal(err)
		}
		checkNumbers(t, rand.New(rand.NewPCG(seed, 8)), p, s)
	})
}

// TestValidatorRejects changes valid plans and expects the rule that each change breaks.
func TestValidatorRejects(t *testing.T) {
	seen := map[validator.Rule]int{}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		p := randomProblem(random, recipe{buffers: 10, steps: 5, dims: []string{"n"}, mixed: true, aliases: true})
		for i := range p.Buffers {
			p.Buffers[i].Size = p.Buffers[i].Size.Add(sym.Const(8)) // no empty buffers: each has a byte to overlap with
		}
		s, err := memplan.Plan(p, memplan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := bind(map[string]int64{"n": 3})
		if r, _ := p.Dims.Get(sym.User("n")); r.Max < 3 {
			at = bind(map[string]int64{"n": 1})
		}
		if err := validator.Check(claim(p, s), at); err != nil {
			t.Fatal(err)
		}
		for name, mutate := range mutations {
			v := claim(p, s)
			v.Offsets = slices.Clone(v.Offsets)
			v.Buffers = slices.Clone(v.Buffers)
			want := mutate(v, random.IntN(len(v.Buffers)), at)
			if want == nil {
				continue
			}
			err := validator.Check(v, at)
			var fault *validator.Fault
			if !errors.As(err, &fault) || !slices.Contains(want, fault.Rule) {
				t.Fatalf("seed %d, %s: %v, want one of %v", seed, name, err, want)
			}
			seen[fault.Rule]++
		}
	}
	for _, rule := range []validator.Rule{validator.Value, validator.Bounds, validator.Align, validator.Alias,
		validator.Overlap, validator.Arena, validator.Bound, validator.Choice} {
		if seen[rule] == 0 {
			t.Errorf("rule %q was never broken", rule)
		}
	}
	t.Log(seen)
}

// mutations change a plan, given a buffer, and return the rules that may catch it, or nil if the change did not
// apply.
var mutations = map[string]func(v *validator.Plan, b int, at func(sym.Name) (int64, bool)) []validator.Rule{
	"a buffer moved onto another": func(v *validator.Plan, b int, at func(sym.Name) (int64, bool)) []validator.Rule {
		for i, other := range v.Buffers {
			one := v.Buffers[b]
			if i != b && one.AliasOf < 0 && other.AliasOf < 0 && one.First <= other.Last && other.First <= one.Last {
				v.Offsets[b] = v.Offsets[i]
				return []validator.Rule{validator.Overlap, validator.Align, validator.Alias, validator.Arena, validator.Bounds}
			}
		}
		return nil
	},
	"a buffer moved out": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		if v.Buffers[b].AliasOf >= 0 {
			return nil
		}
		v.Offsets[b] = v.Offsets[b].Add(v.Height).Add(sym.Const(4096))
		return []validator.Rule{validator.Bounds, validator.Alias, validator.Align}
	},
	"a buffer below zero": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Offsets[b] = sym.Const(-4096)
		return []validator.Rule{validator.Bounds, validator.Alias}
	},
	"a byte off its alignment": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		if v.Buffers[b].Align < 2 {
			return nil
		}
		v.Offsets[b] = v.Offsets[b].Add(sym.Const(1))
		return []validator.Rule{validator.Align}
	},
	"an alias moved": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		if v.Buffers[b].AliasOf < 0 {
			return nil
		}
		v.Offsets[b] = v.Offsets[b].Add(sym.Const(1))
		return []validator.Rule{validator.Alias}
	},
	"a longer life": func(v *validator.Plan, b int, at func(sym.Name) (int64, bool)) []validator.Rule {
		v.Buffers[b].First, v.Buffers[b].Last = 0, 1000
		if err := validator.Check(v, at); err == nil {
			return nil // no other buffer uses its bytes in the longer range
		}
		return []validator.Rule{validator.Overlap, validator.Bound}
	},
	"a larger buffer": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Buffers[b].Size = v.Buffers[b].Size.Add(v.Height)
		return []validator.Rule{validator.Overlap, validator.Bounds}
	},
	"a negative size": func(v *validator.Plan, b int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Buffers[b].Size = sym.Const(-1)
		return []validator.Rule{validator.Value}
	},
	"an arena of a byte more": func(v *validator.Plan, _ int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Arena = v.Arena.Add(sym.Const(1))
		return []validator.Rule{validator.Arena}
	},
	"a height of a byte less": func(v *validator.Plan, _ int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Height = v.Height.Sub(sym.Const(1))
		return []validator.Rule{validator.Bounds}
	},
	"a bound of a byte more": func(v *validator.Plan, _ int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Bound = v.Bound.Add(sym.Const(1))
		return []validator.Rule{validator.Bound}
	},
	"no layout that holds": func(v *validator.Plan, _ int, _ func(sym.Name) (int64, bool)) []validator.Rule {
		v.Layouts = slices.Clone(v.Layouts)
		for i := range v.Layouts {
			v.Layouts[i].When = []sym.Cond{{A: sym.Const(1), Rel: sym.LE, B: sym.Const(0)}}
		}
		return []validator.Rule{validator.Choice}
	},
}

// TestProve checks that the validator proves a plan of sizes as in usual networks for all bindings, and does not prove
// the plan after a change that breaks it.
func TestProve(t *testing.T) {
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 1, Max: sym.NoMax})
	p := memplan.Problem{Dims: dims, Steps: 6, Buffers: []memplan.Buffer{
		{Name: "x", Size: expr(t, "3136*n"), First: 0, Last: 1},
		{Name: "a", Size: expr(t, "6272*n"), First: 1, Last: 3},
		{Name: "b", Size: expr(t, "100*n"), First: 2, Last: 4},
		{Name: "c", Size: expr(t, "6272*n"), First: 3, Last: 4},
		{Name: "d", Size: expr(t, "40*n"), First: 4, Last: 5},
	}}
	s, err := memplan.Plan(p, memplan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := validator.Verify(claim(p, s), 10)
	if err != nil {
		t.Fatal(err)
	}
	if proof.Class() != "proved" {
		t.Errorf("%d of %d pairs proved; open: %v\n%v", proof.Proved, proof.Pairs, proof.Open, s.Layouts)
	}
	broken := claim(p, s)
	broken.Layouts[0].Lets = slices.Clone(broken.Layouts[0].Lets)
	for i := range broken.Layouts[0].Lets {
		broken.Layouts[0].Lets[i].X = sym.Const(0) // but Of still lists the terms
	}
	if proof, err := validator.Prove(broken); err != nil || proof.Class() == "proved" {
		t.Errorf("a plan with everything at 0 is %v, %v", proof, err)
	}
}

func TestErrors(t *testing.T) {
	n := sym.Dim("n")
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 1, Max: 10})
	one := func(b memplan.Buffer) memplan.Problem {
		b.Name = "it"
		return memplan.Problem{Dims: dims, Steps: 3, Buffers: []memplan.Buffer{b, {Name: "other", Size: n, Last: 2}}}
	}
	alias := func(of int, offset sym.Expr, align int64) memplan.Problem {
		return one(memplan.Buffer{Size: n, Align: align, Alias: &memplan.Alias{Of: of, Offset: offset}})
	}
	for _, c := range []struct {
		name string
		p    memplan.Problem
		want string
	}{
		{"ends before it begins", one(memplan.Buffer{Size: n, First: 2, Last: 1}), "step 2 to step 1"},
		{"after the end", one(memplan.Buffer{Size: n, First: 2, Last: 3}), "step 3 of 3"},
		{"before the start", one(memplan.Buffer{Size: n, First: -1, Last: 1}), "step -1"},
		{"alignment", one(memplan.Buffer{Size: n, Align: 48}), "48 bytes, which is not a power of two"},
		{"negative alignment", one(memplan.Buffer{Size: n, Align: -64}), "not a power of two"},
		{"negative size", one(memplan.Buffer{Size: n.Mul(sym.Const(-1))}), "negative"},
		{"unknown dimension", one(memplan.Buffer{Size: sym.Dim("q")}), "without a range"},
		{"too large", one(memplan.Buffer{Size: sym.Const(1 << 62)}), "add up to over"},
		{"overflow", one(memplan.Buffer{Size: n.Mul(sym.Const(1 << 62))}), "add up to over"},
		{"alias of nothing", alias(7, sym.Const(0), 0), "buffer 7 of 2"},
		{"alias of itself", alias(0, sym.Const(0), 0), "alias of itself"},
		{"alias before its start", alias(1, n.Sub(sym.Const(5)), 0), "may be negative"},
		{"misaligned alias", alias(1, n, 64), "multiple of its alignment 64"},
	} {
		_, err := memplan.Plan(c.p, memplan.Options{})
		if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an input error with %q", c.name, err, c.want)
		}
	}
}

// TestNothing plans no buffers, and buffers without a byte.
func TestNothing(t *testing.T) {
	n := sym.Dim("n")
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 0})
	for _, p := range []memplan.Problem{
		{},
		{Steps: 5},
		{Steps: 2, Buffers: []memplan.Buffer{{Name: "a", Last: 1}, {Name: "b", First: 1, Last: 1}}},
		{Steps: 2, Dims: dims, Buffers: []memplan.Buffer{{Name: "a", Size: n, Last: 1},
			{Name: "b", Size: n.Mul(sym.Const(3)), Last: 1}}},
	} {
		if p.Dims == nil {
			p.Dims = sym.NewDims()
		}
		for kind, s := range allPlans(t, p) {
			if _, err := validator.Verify(claim(p, s), 1); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if c, err := s.Certify(func(sym.Name) (int64, bool) {
				return 0, true
			}); err != nil || c.Arena != 0 || c.Bound != 0 || c.Gap != 0 {
				t.Errorf("%s: %+v, %v", kind, c, err)
			}
			if _, err := s.Text(func(sym.Name) (int64, bool) { return 0, true }); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

func TestEvaluatorErrors(t *testing.T) {
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 1, Max: sym.NoMax})
	p := memplan.Problem{Dims: dims, Steps: 1, Buffers: []memplan.Buffer{
		{Name: "a", Size: expr(t, "n*64")}, {Name: "b", Size: expr(t, "n*64")}, {Name: "c", Size: expr(t, "100 - n")},
	}}
	s, err := memplan.Plan(p, memplan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Evaluator(users("n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values []int64
		want   string
	}{
		{[]int64{0}, "outside 1"}, {[]int64{1 << 60}, "overflow"}, {[]int64{101}, "is -1"}, {nil, "0 values for 1"},
		{[]int64{1 << 55}, "is -"},
	} {
		if _, _, err := e.Eval(c.values, nil); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.values, err, c.want)
		}
	}
	if _, err := s.Certify(bind(nil)); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a certificate without a value: %v", err)
	}
	if _, err := s.Evaluator(users("m")); !errors.Is(err, diag.ErrInput) {
		t.Errorf("an evaluator without n: %v", err)
	}
}

func TestEvalAllocatesNothing(t *testing.T) {
	p := randomProblem(rand.New(rand.NewPCG(1, 1)), recipe{buffers: 200, steps: 100, dims: []string{"n", "m"}})
	s, err := memplan.Plan(p, memplan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Evaluator(users("n", "m"))
	if err != nil {
		t.Fatal(err)
	}
	offsets := make([]int64, len(p.Buffers))
	values := make([]int64, 2)
	for i, name := range users("n", "m") {
		r, _ := p.Dims.Get(name)
		values[i] = r.Min
	}
	if n := testing.AllocsPerRun(10, func() { e.Eval(values, offsets) }); n != 0 {
		t.Errorf("an evaluation allocates %v times", n)
	}
}
