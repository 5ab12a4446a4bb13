package weir

import (
	"log/slog"

	"github.com/weirml/weir/internal/sym"
)

// Options say how to compile. The zero value works: the best target on this machine, f32, GOMAXPROCS threads, one run
// at a time.
type Options struct {
	Target Target
	// Device is the index of the device in the list that Devices returns for the target.
	Device int
	// Limits compiles for a device with these limits: the name of a profile ("minimum", "mobile", "desktop" or "gfx942")
	// and changes to it, such as "desktop,shared=32768,-float64". If the device lacks any of them, or there is no device,
	// the program has a plan and kernels, but cannot run.
	Limits string
	// Precision is the precision of products and convolutions of f32 with constant weights: F32 (also when zero), BF16 or
	// I8. BF16 rounds the weights, which halves their bytes, rounds the other operand if that is faster, and sums in f32:
	// each result differs by at most about 2⁻⁷ of the sum of the products' magnitudes. I8 stores the weights as bytes
	// with a scale for each output channel, and quantises the other operand in each run, with a scale for each row or
	// image; sums are exact. docs/accuracy.md has the bounds, and the products that keep f32.
	Precision DType
	Threads   int   // the most workers that one run may use; 0: GOMAXPROCS
	Calls     int   // runs that may be active, or have results not closed, at once; 0: 1
	Budget    int64 // the most bytes that the program may take; 0: no limit
	// DeviceBudget is the most bytes that the program may take of its device's memory; Budget limits the host's memory.
	// 0: no limit. A program for a device is never split into pieces, recomputed, spilled or paged to fit a budget: it
	// fits as it is, or, for DeviceBudget, with all convolutions computed directly, or it is refused.
	DeviceBudget int64
	// PageFolder is the folder of the files that a budget needs: spilled tensors, and paged weights in a new layout. It
	// should be on a disk: files on a tmpfs are memory. If empty, it is the folder for temporary files (TMPDIR). A folder
	// that cannot hold files is ErrInput when the program is compiled; a folder without enough room is ErrMemory.
	PageFolder string
	// Dims narrows the named dimensions' ranges.
	Dims map[string]Range
	// CPU is the level of instructions to generate code for: "avx512amx", "avx512bf16", "avx512vnni", "avx512",
	// "avxvnni" or "avx2", on arm64 "bf16", "i8mm", "dotprod" or "neon", "portable" (no machine code), or "native", the
	// best level of this processor (also when empty). A level that this processor does not have is ErrUnsupported, unless
	// Cross is set: then the program runs as portable code here, and WriteTo's artefact is for that level.
	CPU   string
	Cross bool
	// Exact excludes algorithms that compute by other formulas than the model's: convolutions of 3 × 3 in tiles
	// (Winograd), whose results differ from direct sums by up to 1e-5 of Σ|x| · max|w|, over the result's own window and
	// filter. On a device it also excludes cooperative matrices of floats. docs/accuracy.md has all bounds.
	Exact bool
	// Tune times alternatives to the kernels that the scheduler's tables choose, and takes the fastest: Program.Tuned
	// lists them. It takes ten to twenty seconds and the memory of two programs, and needs an otherwise idle processor.
	// Dimensions that Dims leaves open are 1 along an input's first axis and 64 along the others, if these sizes are
	// allowed.
	Tune bool
	// Outputs names the tensors to return, any of the model's tensors; nil: the model's outputs.
	Outputs []string
	// States makes states of inputs, in addition to those of a model written as text: it maps an input to the output that
	// is its new value, of the same type and shape. A run updates states in place, and requires Update for them: a cache
	// of keys or values that TensorScatter, ScatterND or GroupQueryAttention with a shared buffer writes to is not
	// copied.
	States map[string]string
	// Cache is the storage type of f32 states that are caches: F32 (also when zero), I8, or BF16, which halves
	// their bytes. A cache is a state whose new value is the old one except for elements that a scatter replaces. Its
	// input and output are of this type. An element is rounded once, when it is written, and readers of the cache get
	// the stored value: its relative error is at most 2⁻⁸. Other states keep their type.
	//
	// I8 stores caches whose scatters replace entire vectors, along the last axis, as bytes. Each vector has a scale, of
	// f32, its greatest magnitude / 127; a vector that is split into heads has a scale for each head. The scales
	// of the input NAME are a separate state, NAME.scale, of the cache's shape without the last axis, and the
	// output's scales are its new value: Inputs lists both. The error of an element is at most the vector's greatest
	// magnitude / 254. A vector with an infinity or NaN reads as NaN.
	Cache DType
	// Layouts gives the order in memory of inputs that are not in row-major order, by name: "0,2,3,1" for an image with
	// adjacent channels. A run reads such memory in place (see Strided); if a kernel cannot, the arena holds a copy in
	// row-major order: see Program.Laid. An argument in another layout, row-major order included, is copied for the run.
	// Call's tensors for such an input have the shape of the memory. States have no layouts, and those of an artefact are
	// fixed.
	Layouts map[string]Layout
	// Private copies the weights that a program would read from the mapping of the model's file, so that later changes of
	// the file do not matter; weights that a budget leaves in the file are excepted. Without Private, a run fails with
	// ErrInput if the file's size or modification time has changed since it was loaded. See also WEIR_MAP in
	// docs/memory.md.
	Private bool
	Logger  *slog.Logger // nil: silent
	// Account is asked before the program takes memory, and told when it has returned it; nil: none.
	Account Account

	// Stage, if not nil, gets the text of the model after each stage of the compiler. The text of a large constant is its
	// size, except after stage WholeStage: that text has all elements and, if it is of ir, can be loaded as a model.
	Stage      func(name, text string)
	WholeStage string
}

// Dims binds named dimensions to sizes.
type Dims map[string]int64

// layouts returns Layouts as the compiler takes them.
func (o Options) layouts() map[string]string {
	list := map[string]string{}
	for input, l := range o.Layouts {
		list[input] = string(l)
	}
	return list
}

// ranges returns Dims as the compiler takes them.
func (o Options) ranges() map[string]sym.Range {
	list := map[string]sym.Range{}
	for dim, r := range o.Dims {
		list[dim] = sym.Range{Min: r.Min, Max: r.Max}
	}
	return list
}
