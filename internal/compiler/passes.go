package compiler

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/pass"
)

// PassRow is one rewriting of ir: its name, as `weir dump --after` takes it, and why it stands where it does.
type PassRow struct {
	Name string
	Run  func(*ir.Module) error
	Why  string
}

// Passes are run in this order.
var Passes = []PassRow{
	{"extents", pass.Extents, "first: conditions that were met late hold for shapes that were inferred early"},
	{"marks", pass.Marks, "before what looks for patterns, which need not know of them"},
	{"absorb", pass.Absorb, "before fold, which would make a second copy of a weight that a product can read transposed"},
	{"dead-absorbed", pass.Dead, "before fold, which would compute the transposes that nothing reads any more"},
	{"fold", pass.FoldFirst, "early: what is constant need not be rewritten by anything else"},
	{"branches", pass.Branches, "after fold, which computes conditions; what a branch brings along is folded below, with what expand brings"},
	{"dead", pass.Dead, "after fold, which leaves the inputs of what it folded behind"},
	{"common", pass.Common, "before what looks for patterns, in which a value that occurs twice is computed once"},
	{"identities", pass.Identities, "after common, before what looks for patterns, which need not know of operations that do nothing"},
	{"scattered", pass.Scattered, "after identities, which leaves sums with 0 to nobody else"},
	{"factored", pass.Factored, "after common, which leaves one value of those that are the same"},
	{"scales", pass.Scales, "after fold, which makes one factor and one summand of a channel's statistics"},
	{"quantised", pass.Quantised, "after identities, before transposes, which would move axes of floats"},
	{"integers", pass.Integers, "after quantised, which leaves what is only moved as it is stored, and before what recognises patterns of floats"},
	{"transposes", pass.Transposes, "after identities, which makes one reshape of several, before attention, which sees heads split in one way"},
	{"activations", pass.Activations, "after identities"},
	{"reductions", pass.Reductions, "after identities, which keeps the axes of reductions, before attention, which begins at a softmax"},
	{"rotary", pass.Rotary, "after identities, which leaves one way to write a part of an axis"},
	{"attention", pass.Attention, "after transposes and reductions"},
	{"joined", pass.Joined, "after what recognises patterns, which models write with reshapes; before narrow, which cannot cut rows out of joined axes"},
	{"narrow", pass.Narrow, "after attention, of which only some queries may be read, and before expand"},
	{"expand", pass.Expand, "after what recognises whole operators, before lowering, which knows primitives only"},
	{"absorb-expanded", pass.Absorb, "after expand, which makes products of transposed operands"},
	{"fold-expanded", pass.Fold, "after expand, which makes constants of its own"},
	{"common-expanded", pass.Common, "after expand, which makes the same counts and masks for every layer"},
	{"identities-expanded", pass.Identities, "after expand and what recognises, which put reshapes one after another"},
	{"blocks-bytes", pass.BlocksBytes, "as blocks-allowed, for all products"},
	{"blocks-allowed", pass.BlocksAllowed, "before blocks, which takes what is left; in the same place as blocks"},
	{"blocks", pass.Blocks, "after absorb-expanded, which leaves products of transposed operands, and after fold, so that weights are constants"},
	{"dequantized", pass.Dequantized, "after integers and blocks, which read weights as they are stored, before layout, which lays weights out"},
	{"halves", pass.Halves, "after expand, which leaves products as they are computed, before layout and winograd, which then see convolutions of f32"},
	{"groups", pass.Groups, "after expand and identities-expanded, which leave reshapes one to a shape, before layout, which knows no groups"},
	{"shared", pass.Shared, "after what recognises functions, and before the last search for what is computed twice"},
	{"common-shared", pass.Common, "after groups and shared, which compute a normalisation's statistics and parts of functions for derivatives too"},
	{"layout", pass.Layout, "after expand, which leaves the operators that it knows, and after fold, so that weights are constants"},
	{"bytes", pass.Bytes, "after layout, whose convolutions it knows, before winograd, whose convolutions stay in f32"},
	{"winograd", pass.Winograd, "after layout, whose convolutions it knows"},
	{"brain-weights", pass.BrainWeights, "as brain, in its place where the machine's products of bf16 are no faster than those of f32"},
	{"brain", pass.Brain, "after winograd, whose convolutions stay in f32: they are those that take less time so than in bf16"},
	{"beside", pass.Beside, "after winograd and brain, which know weights as layout leaves them, and leave it what it is for"},
	{"transposes-layout", pass.Transposes, "after layout, whose transposes may meet others"},
	{"repeats", pass.Repeats, "after layout, which moves the axes of what is expanded"},
	{"again", pass.Again, "after what makes one value of those that are the same, and before dead-expanded, which drops what is computed again everywhere"},
	{"dead-expanded", pass.Dead, "last: lowering makes a kernel of every node that is left"},
}

// onBlocks is what runs in the place of passes for machines that run blocks of threads; nil: nothing, since the pass lays values out, or computes them, as suits registers of
// vectors, and kernels for blocks read what models have.
var onBlocks = map[string]func(*ir.Module) error{"blocks": nil, "blocks-allowed": nil, "blocks-bytes": nil, "layout": nil, "bytes": nil, "winograd": pass.WinogradForBlocks, "brain": nil,
	"brain-weights": nil, "beside": nil, "dequantized": nil, "expand": pass.ExpandForBlocks}

// optional is what runs only where an option asks for it.
var optional = map[string]func(o *Options) bool{
	"brain":          func(o *Options) bool { return o.Precision == dtype.BF16 && o.Machine.Dot.Brains > 1 },
	"brain-weights":  func(o *Options) bool { return o.Precision == dtype.BF16 && o.Machine.Dot.Brains <= 1 },
	"blocks-bytes":   func(o *Options) bool { return o.Precision == dtype.I8 && o.Machine.Dot.Bytes == 4 },
	"blocks-allowed": func(o *Options) bool { return o.Machine.Dot.Bytes == 4 },
	"bytes":          func(o *Options) bool { return o.Precision == dtype.I8 },
}

// OnRequest reports whether a pass runs only where an option asks for it: it may change results by more than rounding.
func OnRequest(pass string) bool { return optional[pass] != nil }

// needed are the passes without which nothing can be lowered. They leave every node where it is, but those that nothing reads.
var needed = map[string]bool{"expand": true, "dead-expanded": true}

// exact is what runs in the place of passes that compute by other formulas than the model's, where Options.Exact forbids that; nil: nothing.
var exact = map[string]func(*ir.Module) error{"layout": pass.LayoutExact, "winograd": nil, "scattered": nil, "factored": nil, "blocks-allowed": nil}

// NarrowCaches has a module's caches stored in bf16, before it is compiled or interpreted: see pass.Caches.
func NarrowCaches(m *ir.Module) (narrowed int, err error) { return pass.Caches(m) }

// CachesInBytes has a module's caches stored in i8, with scales that are states of their own: see pass.CachesInBytes.
func CachesInBytes(m *ir.Module) (narrowed []ir.State, err error) { return pass.CachesInBytes(m) }
