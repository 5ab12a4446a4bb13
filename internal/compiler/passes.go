package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/target"
)

// PassRow is one pass over ir.
type PassRow struct {
	Name string // the name that weir dump --after takes
	Run  func(*ir.Module) error
	// Weighing runs instead of Run if it is not nil: the pass weighs costs of recipes on the machine.
	Weighing      func(*ir.Module, recipes.Costs) error
	Why           string   // the reason for its position in the table
	After, Before []string // passes that it must come after, and before; checked when the process starts
	// Needed: no module can be lowered without the pass. Such a pass keeps the order of the nodes that are read.
	Needed bool
	When   func(o *Options) bool // nil: always; otherwise the pass runs only if an option asks for it
	// Blocks says how the pass runs for machines that run blocks of threads, whose kernels read values as models lay
	// them out: passes that lay values out for vector registers are off. ReorderOnly says how it runs under
	// Options.ReorderOnly.
	Blocks, ReorderOnly instead
	// Choosing and ChoosingForBlocks run instead of Run if they are not nil: the pass calls choose for the algorithm of a
	// node.
	// bf16Speed is the machine's speed of bf16 products relative to f32.
	Choosing, ChoosingForBlocks func(m *ir.Module, costs recipes.Costs, bf16Speed float64,
		choose func(node string) int64) error
}

// instead replaces a pass: it does not run if off is true, and run or weighing runs in its place if it is not nil.
type instead struct {
	off      bool
	run      func(*ir.Module) error
	weighing func(*ir.Module, recipes.Costs) error
}

// Without lists the passes and steps of the schedule that do not run in this process, each one of OptionalSteps.
// WEIR_DEBUG and tests set it.
var Without []string

// Passes lists the passes in the order in which they run.
var Passes = []PassRow{
	{Name: "extents", Run: pass.Extents,
		Why: "first: conditions that were met late hold for shapes that were inferred early"},
	{Name: "marks", Run: pass.Marks, Before: []string{"absorb"},
		Why: "before the passes that look for patterns, which need not know of marks"},
	{Name: "absorb", Run: pass.Absorb, Before: []string{"fold"},
		Why: "before fold, which would make a second copy of a weight that a product can read transposed"},
	{Name: "dead-absorbed", Run: pass.Dead, After: []string{"absorb"}, Before: []string{"fold"},
		Why: "before fold, which would compute the transposes that nothing reads any more"},
	{Name: "fold", Run: pass.FoldFirst, Before: []string{"branches"},
		Why: "early: no other pass need rewrite constant values"},
	{Name: "branches", Run: pass.Branches, After: []string{"fold"}, Before: []string{"fold-expanded"},
		Why: "after fold, which computes conditions; fold-expanded folds the nodes of the branches taken"},
	{Name: "dead", Run: pass.Dead, After: []string{"fold"},
		Why: "after fold, which leaves the inputs of folded nodes"},
	{Name: "common", Run: pass.Common, Before: []string{"identities", "attention"},
		Why: "before the passes that look for patterns, in which a value that occurs twice is computed once"},
	{Name: "identities", Run: pass.Identities, After: []string{"common"}, Before: []string{"attention"},
		Why: "after common, before the passes that look for patterns, which need not know of operations that do nothing"},
	{Name: "scattered", Run: pass.Scattered, After: []string{"identities"}, ReorderOnly: instead{off: true},
		Why: "after identities, which removes sums with 0"},
	{Name: "factored", Run: pass.Factored, After: []string{"common"}, ReorderOnly: instead{off: true},
		Why: "after common, which leaves one value of those that are the same"},
	{Name: "scales", Run: pass.Scales, After: []string{"fold"},
		Why: "after fold, which makes one factor and one summand of a channel's statistics"},
	{Name: "quantised", Run: pass.Quantised, After: []string{"identities"}, Before: []string{"transposes"},
		Why: "after identities, before transposes, which would move axes of floats"},
	{Name: "integers", Run: pass.Integers, After: []string{"quantised"}, Before: []string{"activations"},
		Why: "after quantised, which moves elements as they are stored, and before the passes that recognise patterns of " +
			"floats"},
	{Name: "transposes", Run: pass.Transposes, After: []string{"identities"}, Before: []string{"attention"},
		Why: "after identities, which makes one reshape of several, before attention, which sees heads split in one way"},
	{Name: "activations", Run: pass.Activations, After: []string{"identities"},
		Why: "after identities"},
	{Name: "reductions", Run: pass.Reductions, After: []string{"identities"}, Before: []string{"attention"},
		Why: "after identities, which keeps the axes of reductions, before attention, which begins at a softmax"},
	{Name: "rotary", Run: pass.Rotary, After: []string{"identities"},
		Why: "after identities, which leaves one way to write a part of an axis"},
	{Name: "attention", Run: pass.Attention, After: []string{"transposes", "reductions"},
		Why: "after transposes and reductions"},
	{Name: "joined", Run: pass.Joined, After: []string{"attention"}, Before: []string{"narrow"},
		Why: "after the passes that recognise patterns, which models write with reshapes; before narrow, which cannot " +
			"slice rows of joined axes"},
	{Name: "narrow", Run: pass.Narrow, After: []string{"attention"}, Before: []string{"expand"},
		Why: "after attention, of which only some queries may be read, and before expand"},
	{Name: "expand", Run: pass.Expand, After: []string{"attention", "narrow"}, Needed: true,
		Blocks: instead{run: pass.ExpandForBlocks},
		Why:    "after the passes that recognise composed operators, before lowering, which knows primitives only"},
	{Name: "absorb-expanded", Run: pass.Absorb, After: []string{"expand"},
		Why: "after expand, which makes products of transposed operands"},
	{Name: "fold-expanded", Run: pass.Fold, After: []string{"expand"},
		Why: "after expand, which makes constants of its own"},
	{Name: "common-expanded", Run: pass.Common, After: []string{"expand"},
		Why: "after expand, which makes the same counts and masks for every layer"},
	{Name: "identities-expanded", Run: pass.Identities, After: []string{"expand"},
		Why: "after expand and the passes that recognise patterns, which leave reshapes in a row"},
	{Name: "blocks-bytes", Weighing: pass.BlocksBytes, After: []string{"absorb-expanded"}, Before: []string{"blocks"},
		When: func(o *Options) bool {
			return o.Precision == dtype.I8 && o.Machine.Dot.Bytes >= 4
		}, Blocks: instead{off: true},
		Why: "as blocks-allowed, for all products"},
	{Name: "blocks-allowed", Weighing: pass.BlocksAllowed, After: []string{"absorb-expanded"}, Before: []string{"blocks"},
		When: func(o *Options) bool {
			return o.Machine.Dot.Bytes >= 4
		}, Blocks: instead{off: true}, ReorderOnly: instead{off: true},
		Why: "before blocks, which takes the other products; for the same reasons as blocks"},
	{Name: "blocks", Weighing: pass.Blocks, After: []string{"absorb-expanded", "fold-expanded"},
		Blocks: instead{off: true},
		Why: "after absorb-expanded, which leaves products of transposed operands, and after fold, so that weights are " +
			"constants"},
	{Name: "dequantized", Run: pass.Dequantized, After: []string{"integers", "blocks"}, Before: []string{"layout"},
		Blocks: instead{off: true},
		Why:    "after integers and blocks, which read weights as they are stored, before layout, which lays weights out"},
	{Name: "halves", Run: pass.Halves, After: []string{"expand"}, Before: []string{"layout", "winograd"},
		Why: "after expand, which leaves products as they are computed, before layout and winograd, which then see " +
			"convolutions of f32"},
	{Name: "groups", Run: pass.Groups, After: []string{"expand", "identities-expanded"}, Before: []string{"layout"},
		Why: "after expand and identities-expanded, which leave reshapes one to a shape, before layout, which knows no " +
			"groups"},
	{Name: "shared", Run: pass.Shared, After: []string{"groups"}, Before: []string{"common-shared"},
		Why: "after the passes that recognise functions, and before the last search for values that are computed twice"},
	{Name: "common-shared", Run: pass.Common, After: []string{"groups", "shared"},
		Why: "after groups and shared, which compute a normalisation's statistics and parts of functions for " +
			"derivatives too"},
	{Name: "layout", Weighing: pass.Layout, After: []string{"expand", "fold-expanded"}, Blocks: instead{off: true},
		ReorderOnly: instead{weighing: pass.LayoutWithoutHoles},
		Why:         "after expand, which leaves the operators that it knows, and after fold, so that weights are constants"},
	{Name: "bytes", Weighing: pass.Bytes, After: []string{"layout"}, Before: []string{"winograd"},
		When: func(o *Options) bool { return o.Precision == dtype.I8 }, Blocks: instead{off: true},
		Why: "after layout, whose convolutions it knows, before winograd, whose convolutions stay in f32"},
	{Name: "winograd", Weighing: pass.Winograd, After: []string{"layout"}, Blocks: instead{run: pass.WinogradForBlocks},
		ReorderOnly: instead{off: true}, Choosing: pass.WinogradBy, ChoosingForBlocks: pass.WinogradForBlocksBy,
		Why: "after layout, whose convolutions it knows"},
	{Name: "brain-weights", Weighing: pass.BF16Weights, After: []string{"winograd"}, Before: []string{"beside"},
		When: func(o *Options) bool {
			return o.Precision == dtype.BF16 && o.Machine.Dot.BF16 <= 1
		}, Blocks: instead{off: true},
		Why: "as brain; it replaces brain if the machine's products of bf16 are no faster than its products of f32"},
	{Name: "brain", Weighing: pass.BF16, After: []string{"winograd"}, Before: []string{"beside"},
		When: func(o *Options) bool {
			return o.Precision == dtype.BF16 && o.Machine.Dot.BF16 > 1
		},
		Why: "after winograd, whose convolutions stay in f32: they take less time so than in bf16"},
	{Name: "beside", Weighing: pass.Beside, After: []string{"winograd", "brain"}, Blocks: instead{off: true},
		Why: "after winograd and brain, which read weights as layout leaves them; it takes the other convolutions"},
	{Name: "transposes-layout", Run: pass.Transposes, After: []string{"layout"},
		Why: "after layout, whose transposes may meet others"},
	{Name: "repeats", Weighing: pass.Repeats, After: []string{"layout"},
		Why: "after layout, which moves the axes of expanded values"},
	{Name: "again", Run: pass.Again, After: []string{"common-shared"}, Before: []string{"dead-expanded"},
		Why: "after common-shared, which makes one value of equal ones, and before dead-expanded, which drops values that " +
			"all readers compute again"},
	{Name: "dead-expanded", Run: pass.Dead, After: []string{"again"}, Needed: true,
		Why: "last: lowering makes a kernel of every node that is left"},
}

func init() { checkOrder(Passes) }

// checkOrder panics if a pass is not after or before the passes that it names.
func checkOrder(rows []PassRow) {
	at := map[string]int{}
	for i, p := range rows {
		if _, twice := at[p.Name]; twice {
			panic("pass " + p.Name + " is there twice")
		}
		at[p.Name] = i
	}
	index := func(name string) int {
		i, known := at[name]
		if !known {
			panic("there is no pass " + name)
		}
		return i
	}
	for i, p := range rows {
		for _, other := range p.After {
			if index(other) >= i {
				panic("pass " + p.Name + " must come after " + other)
			}
		}
		for _, other := range p.Before {
			if index(other) <= i {
				panic("pass " + p.Name + " must come before " + other)
			}
		}
	}
}

// runs returns the function that runs a pass with these options; nil if it does not run.
func (p *PassRow) runs(o *Options, blocks bool) func(*ir.Module) error {
	if p.When != nil && !p.When(o) {
		return nil
	}
	run, weighing := p.Run, p.Weighing
	for _, other := range []struct {
		instead
		holds bool
	}{{p.Blocks, blocks}, {p.ReorderOnly, o.ReorderOnly}} {
		switch {
		case !other.holds:
		case other.off:
			return nil
		case other.run != nil || other.weighing != nil:
			run, weighing = other.run, other.weighing
		}
	}
	if weighing != nil {
		return func(m *ir.Module) error { return weighing(m, recipes.CostsOn(o.Machine)) }
	}
	return run
}

// RunFor runs a pass that no option asks for, as for a machine with vector registers.
func (p *PassRow) RunFor(machine target.Machine, m *ir.Module) error {
	return p.runs(&Options{Machine: machine}, false)(m)
}

// OptionalSteps returns the names of the passes, and of the steps of the schedule, that can be left out.
func OptionalSteps() (names []string) {
	for _, p := range Passes {
		if !p.Needed {
			names = append(names, p.Name)
		}
	}
	return append(names, schedule.OptionalSteps()...)
}

// OnRequest reports whether a pass runs only if an option asks for it, since it may change results by more than
// rounding.
func OnRequest(pass string) bool {
	return slices.ContainsFunc(Passes, func(p PassRow) bool { return p.Name == pass && p.When != nil })
}

// NarrowCaches stores a module's caches in bf16; see pass.Caches. Call it before the module is compiled or interpreted.
func NarrowCaches(m *ir.Module) (narrowed int, err error) { return pass.Caches(m) }

// CachesInBytes stores a module's caches in i8, with scales in additional states; see pass.CachesInBytes.
func CachesInBytes(m *ir.Module) (narrowed []ir.State, err error) { return pass.CachesInBytes(m) }
