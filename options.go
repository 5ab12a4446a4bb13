package weir

import (
	"log/slog"
	"slices"
)

// Options say how to compile. The zero value works: the best target here, f32, as many threads as GOMAXPROCS, one run
// at a time.
type Options struct {
	Target Target
	// Device is the number of the device, of those that Devices lists for the target; 0 is the first.
	Device int
	// Limits compiles for a device of these limits: a profile's name, "minimum", "mobile", "desktop" or "gfx942", and
	// changes to it, such as "desktop,shared=32768,-float64". The program runs if the device has all of that; else, or if
	// there is no device, it has its plan and its kernels, and cannot run.
	Limits string
	// Precision is of products and convolutions of f32 with constant weights: F32 (also when zero), BF16 or I8. BF16
	// has the weights rounded, which halves their bytes, and the other operand where that is faster, and adds up in
	// f32: results differ by at most about 2⁻⁷ of the sum of the products' magnitudes for each. I8 has the weights as
	// bytes with a scale for each output channel, and the other operand quantised in each run, with a scale for each
	// row or image; sums are exact. docs/accuracy.md has the bounds, and which products stay as they are.
	Precision DType
	Threads   int   // the most workers that one run may use; 0: GOMAXPROCS
	Calls     int   // runs that may be active, or have results not closed, at once; 0: 1
	Budget    int64 // the most bytes that the whole may take; 0: no limit
	// DeviceBudget is the most bytes that the program may take of its device's memory, where Budget is of the host's; 0:
	// no limit. For neither is anything of a program for a device computed again, in pieces, or from files: it fits as it
	// is, for DeviceBudget at least with all convolutions computed directly, or is refused.
	DeviceBudget int64
	// PageFolder is where a budget has files of its own: what calls spill to, and weights that were laid out anew and
	// are paged. It should be on a disk: files on a tmpfs are memory. Empty, it is the folder for temporary files
	// (TMPDIR). A folder that does not take them is ErrInput when the program is compiled, and one without room for
	// them ErrMemory.
	PageFolder string
	// Dims narrows the named dimensions' ranges.
	Dims map[string]Range
	// CPU is the level of processor to make code for: "avx512amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni",
	// "avx2", "portable", which is plain Go, or "native", the best that this processor has (also when empty). A level
	// that it has not is ErrUnsupported, unless Cross says that the program is for another machine: then it runs
	// portably here, and WriteTo's artefact is for that level.
	CPU   string
	Cross bool
	// Exact leaves out what computes by other formulas than the model's: convolutions of 3 × 3 in tiles (Winograd),
	// whose results differ from plain sums by up to 1e-5 of Σ|x| · max|w|, over the result's own window and filter.
	// docs/accuracy.md has the bounds of everything.
	Exact bool
	// Tune times other ways to compute each kernel than the tables of the scheduler choose, and takes the fastest:
	// Program.Tuned lists them. It takes ten to twenty seconds, meanwhile the memory of two programs, and wants the
	// processor to itself. Dimensions that Dims leaves free are taken as 1 along an input's first axis and 64 along the
	// others, if they may be.
	Tune bool
	// Outputs names the tensors to give as results, any of the model's own; nil: the model's outputs.
	Outputs []string
	// States makes states of inputs, beside those that a model written as text has: it names the output that is the new
	// value of each, of the same type and shape. A run updates them in place, and wants Update for them: a cache of
	// keys or values that TensorScatter, ScatterND or GroupQueryAttention with a shared buffer writes to is not copied.
	States map[string]string
	// Cache is the type in which states of f32 that are caches are stored: F32 (also when zero) or BF16, which halves
	// their bytes. A cache is a state whose new value is the old one but for the elements that a scatter replaces. Its
	// input and output are of this type. An element is rounded once, when it is written, and what reads the cache reads
	// what is stored: each element read is off by at most 2⁻⁸ of itself. Other states stay as they are.
	//
	// I8 stores caches whose scatters replace whole vectors, along the last axis, as bytes. Each vector has a scale, of
	// f32, its greatest magnitude / 127; a vector that is taken apart into heads has one for each of them. The scales
	// of the input NAME are a state of their own, NAME.scale, of the cache's shape but for the last axis, and the
	// output's are the new value of that: Inputs lists both. An element read is off by at most the vector's greatest
	// magnitude / 254. A vector with an infinity or NaN reads as NaN.
	Cache DType
	// Layouts says how inputs lie in memory, by name, if not in row-major order: "0,2,3,1" of an image with its channels
	// side by side. A run reads such memory where it lies (see Strided); kernels that cannot read it so have one copy in
	// row-major order, in the arena: Program.Laid. What lies otherwise, also in row-major order, is copied for the run.
	// Call's tensors for such an input have the memory's shape. States and artefacts have no other layouts than they had.
	Layouts map[string]Layout
	// Private copies the weights that a program would read in the model's file, so that what becomes of the file does
	// not matter any more, but for those that a budget leaves there. Without it a run fails with ErrInput if the file's
	// size or time of modification has changed since it was loaded. See also WEIR_MAP in docs/memory.md.
	Private bool
	Logger  *slog.Logger // nil: silent

	// Stage, where not nil, is given the text of the model after each stage of the compiler. Of a constant of many
	// elements it has the size only, but after WholeStage: that text, if it is of ir, has them all, and can be loaded as a
	// model.
	Stage      func(name, text string)
	WholeStage string
}

// Dims binds named dimensions.
type Dims map[string]int64

// ones are the dimensions that Options.Dims leaves no value but 1, sorted.
func (o Options) ones() (list []string) {
	for name, r := range o.Dims {
		if r.Min == 1 && r.Max == 1 {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
