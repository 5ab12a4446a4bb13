package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// leastDelay is the smallest part of the estimated time that Delays names.
const leastDelay = 0.15

// delay is a part of a kernel's estimated time.
type delay struct {
	share float64
	why   string
}

// kinds are the kinds of delay that the estimate knows a cost of. Each is the part of the time that is gone if its cost
// is none.
var kinds = []struct {
	why string
	off func(c *coster)
}{
	{"functions of many instructions", func(c *coster) { c.function = 0 }},
	{"elements that are not adjacent", func(c *coster) { c.strided, c.smallStride = 0, 0 }},
	{"elements at indices that differ irregularly from lane to lane", func(c *coster) { c.odd = 0 }},
	{"quotients and remainders of indices", func(c *coster) { c.quotient, c.stripQuotient = 0, 0 }},
	{"sums across the lanes, one for each short row", func(c *coster) { c.across = 0 }},
	{"rows that do not fill the lanes", func(c *coster) { c.whole = true }},
	{"operations outside of lanes", func(c *coster) { c.scalar = 0 }},
}

// Delays returns why a scheduled kernel may take much longer than its arithmetic and its bytes, for dimensions whose
// ranges are their sizes: the parts of the estimated time, largest first, with their shares in percent. It returns
// nothing for kernels that run on blocks of threads, and for those that never run.
func Delays(k *loop.Kernel, machine target.Machine, sizes *sym.Dims) (reasons []string) {
	if neverRuns(k) || forBlocks(k) {
		return nil
	}
	s := &scheduler{module: &loop.Module{Dims: sizes}, machine: machine, dims: sizes, free: k.Dims}
	estimate := func(change func(c *coster)) float64 {
		c := s.coster(k)
		if change != nil {
			change(c)
		}
		return c.of(k.Body)
	}
	total := estimate(nil)
	if total <= 0 || math.IsInf(total, 0) {
		return []string{"hardly any work"}
	}
	rest, list := 1.0, []delay{}
	add := func(share float64, why string) {
		list, rest = append(list, delay{share, why}), rest-share
	}
	for _, kind := range kinds {
		why := kind.why
		if names := expensiveIn(k.Body); why == kinds[0].why && names != nil {
			why += ": " + strings.Join(names, ", ")
		}
		add(1-estimate(kind.off)/total, why)
	}
	if shape := s.largestProduct(k); shape != "" {
		add(1-estimate(func(c *coster) { c.product, c.operand, c.group, c.sum = 0, 0, 0, 0 })/total, shape)
	}
	list = append(list, delay{rest, "reads, writes and simple operations of single elements"})
	slices.SortStableFunc(list, func(a, b delay) int { return cmp.Compare(b.share, a.share) })
	for i, d := range list {
		if i == 0 || d.share >= leastDelay {
			reasons = append(reasons, fmt.Sprintf("%.0f %%: %s", 100*min(d.share, 1), d.why))
		}
	}
	return reasons
}

// expensiveIn returns the names of the functions of many instructions in a body, sorted.
func expensiveIn(body []loop.Stmt) (names []string) {
	loop.WalkValues(body, func(e loop.Expr) {
		if u, ok := e.(*loop.Unary); ok && expensive[u.Op] && !slices.Contains(names, u.Op.String()) {
			names = append(names, u.Op.String())
		}
	})
	slices.Sort(names)
	return names
}

// fewSums is the number of vectors of sums from which on additions do not wait for each other: two units that take four
// cycles for an addition.
const fewSums = 8

// largestProduct describes the shape of the product with the most multiplications, and what about it takes longer than
// its arithmetic; empty if there is no product. A product in a branch that is taken seldom comes last.
func (s *scheduler) largestProduct(k *loop.Kernel) (shape string) {
	most, rare, seldom := 0.0, "", inRareBranches(k.Body)
	for _, a := range loop.Accesses(k.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Tile != &c.C {
			continue
		}
		work := s.guess(c.M) * s.guess(c.N) * s.guess(c.K)
		for _, f := range a.Loops {
			work *= max(s.trips(k, f), 1)
		}
		switch {
		case seldom[c]:
			rare = "if the data take a branch for rare cases, " + s.productShape(k, c, a.Loops)
		case shape == "" || work > most:
			most, shape = work, s.productShape(k, c, a.Loops)
		}
	}
	if shape != "" && rare != "" {
		return shape + "; " + rare
	}
	return shape + rare
}

// productShape describes a product inside loops.
func (s *scheduler) productShape(k *loop.Kernel, c *loop.Contract, loops []*loop.For) string {
	m, n, depth := s.guess(c.M), s.guess(c.N), s.guess(c.K)
	lanes := max(float64(s.machine.VectorBytes)*8/float64(s.coster(k).shapes[c.C.Buffer].DType.Bits()), 1)
	var why []string
	if sums := m * math.Ceil(n/lanes); sums < fewSums {
		why = append(why, counted(sums, "vector")+" of sums, whose additions wait for each other")
	}
	if m < fewReaders {
		why = append(why, "an element of the right operand is read for "+counted(m, "product"))
	}
	if !slices.ContainsFunc(k.Params, func(p *loop.Param) bool { return p.Name == c.B.Buffer }) {
		why = append(why, "the right operand is copied first")
	}
	if depth < shortSteps {
		why = append(why, "their sums are begun and stored after few steps")
	}
	steps := 1.0
	for _, f := range loops {
		if f.Kind == loop.Serial && slices.Contains(declared(f.Body), c.C.Buffer) {
			steps *= max(s.trips(k, f), 1)
		}
	}
	if steps > 1 {
		why = append(why, fmt.Sprintf("repeated %.0f times, one after the other", steps))
	}
	shape := fmt.Sprintf("products of %s, %s and %s", counted(m, "row"), counted(n, "column"), counted(depth, "step"))
	if why == nil {
		why = []string{"fast if the operands are near and nothing else runs on the machine"}
	}
	return shape + " (" + strings.Join(why, ", ") + ")"
}

// inRareBranches returns the products in branches that the data decide, and that estimates take to be rare.
func inRareBranches(body []loop.Stmt) map[*loop.Contract]bool {
	rare := map[*loop.Contract]bool{}
	loop.Walk(body, func(stmt loop.Stmt) bool {
		if w, ok := stmt.(*loop.When); ok && loop.ReadsMemory(w.Cond) {
			loop.Walk(w.Then, func(inner loop.Stmt) bool {
				if c, ok := inner.(*loop.Contract); ok {
					rare[c] = true
				}
				return true
			})
		}
		return true
	})
	return rare
}

// counted returns a number with a noun.
func counted(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%.0f %ss", n, noun)
}

// shortSteps is the number of steps below which beginning and storing sums takes a large part of a product's time, and
// fewReaders the number of rows below which reading the right operand does.
const (
	shortSteps = 16
	fewReaders = 4
)
