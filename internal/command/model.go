package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// modelFlags are the settings of every command that compiles a model.
type modelFlags struct {
	c            *cli
	dims         []string
	threads      int
	calls        int
	target       string
	device       int
	limits       string
	cpu          string
	precision    string
	cache        string
	budget       int64
	deviceBudget int64
	folder       string
	states       []string
	layouts      []string
	exact        bool
	tune         bool
	stage        func(name, text string)
	plans        bool // prints the sizes that fit the budget itself
	fixes        bool // compiles for the bound sizes only
}

// register adds the flags to a command.
func (f *modelFlags) register(cmd *cobra.Command, c *cli) {
	f.registerServed(cmd, c)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", "",
		"cpu, vulkan or reference (default WEIR_TARGET, else cpu, or the target of a compiled model)")
	flags.Var(from(&f.device, 0, 0), "device", "for --target vulkan, the device's number in the list of weir env")
	flags.StringVar(&f.limits, "limits", "",
		"for --target vulkan, assume a device with these limits, which need not be present: minimum, mobile, desktop, "+
			"gfx942, and changes such as shared=32768,-float64")
	flags.StringVar(&f.cache, "cache", "f32", "f32, bf16 or int8: the type in which f32 states that are caches are stored")
	flags.StringArrayVar(&f.states, "state", nil,
		"INPUT=OUTPUT: runs update this input, such as a cache, in place; the output is its new value (repeatable)")
	flags.StringArrayVar(&f.layouts, "layout", nil,
		"NAME=AXES: the order of an input's axes in memory, from the outermost to the innermost, such as x=0,2,3,1; an "+
			"axis with - is reversed, one with * has stride 0 (repeatable)")
	flags.BoolVar(&f.exact, "exact", false,
		"do not use faster formulas than the model's if their results differ by more than the order of sums explains")
	flags.BoolVar(&f.tune, "tune", false,
		"time alternatives to the tables' choices for each kernel, for ten to twenty seconds, and take the fastest; --dim "+
			"NAME=SIZE..SIZE binds a dimension for this")
	flags.Var(&size{to: &f.deviceBudget}, "device-budget",
		"for --target vulkan, the most memory that the program may take on the device")
}

// registerRuns adds the flags that models of all kinds have: of runs, and of the code that is made for them.
func (f *modelFlags) registerRuns(cmd *cobra.Command, c *cli) {
	f.c = c
	flags := cmd.Flags()
	flags.Var(from(&f.threads, 0, 0), "threads", "workers that one run may use (default WEIR_THREADS, else GOMAXPROCS)")
	flags.Var(from(&f.calls, 1, 1), "calls", "runs that may be active at once")
	flags.StringVar(&f.cpu, "cpu", "",
		"native, avx512amx, avx512bf16, avx512vnni, avx512, avxvnni, avx2, bf16, i8mm, dotprod, neon or portable "+
			"(default WEIR_CPU, else native)")
	flags.StringVar(&f.precision, "precision", "f32",
		"f32, or bf16 or int8: the type of products with weights, which take half or a quarter of the bytes in bf16 or int8")
}

// registerServed adds the flags for models that weir-serve runs, which has no others.
func (f *modelFlags) registerServed(cmd *cobra.Command, c *cli) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.dims, "dim", nil,
		"NAME=SIZE binds a named dimension, NAME=MIN..MAX compiles for a range of it, and NAME=SIZE..SIZE for that size "+
			"only (repeatable)")
	f.registerRuns(cmd, c)
	flags.Var(&size{to: &f.budget}, "budget",
		"the most memory that the program may take, such as 512MiB or 8.27MiB, rounded up to a whole byte; for --target "+
			"vulkan, on the host")
	flags.StringVar(&f.folder, "page-folder", "",
		"the folder for a budget's files: spilled tensors and paged weights (default TMPDIR)")
}

// options returns the flags as Options; bound has the dimensions with one value.
func (f *modelFlags) options() (o weir.Options, bound weir.Dims, err error) {
	bound = weir.Dims{}
	o.Dims = map[string]weir.Range{}
	given := map[string]bool{}
	for _, d := range f.dims {
		name, value, ok := strings.Cut(d, "=")
		low, high, isRange := strings.Cut(value, "..")
		if !isRange {
			high = low
		}
		lo, err1 := strconv.ParseInt(low, 10, 64)
		hi, err2 := strconv.ParseInt(high, 10, 64)
		if !ok || name == "" || err1 != nil || err2 != nil || hi < lo {
			return o, nil, usageError{fmt.Errorf("--dim %s: write NAME=SIZE or NAME=MIN..MAX, in whole numbers", d)}
		}
		if given[name] {
			return o, nil, usageError{fmt.Errorf("--dim %s: %s is given twice", d, name)}
		}
		given[name] = true
		if isRange {
			o.Dims[name] = weir.Range{Min: lo, Max: hi}
		}
		if lo == hi {
			bound[name] = lo
		}
	}
	for _, s := range f.states {
		in, out, ok := strings.Cut(s, "=")
		if !ok || o.States[in] != "" {
			return o, nil, usageError{fmt.Errorf("--state %s: write INPUT=OUTPUT, once for each input", s)}
		}
		if o.States == nil {
			o.States = map[string]string{}
		}
		o.States[in] = out
	}
	if o.Layouts, err = layoutsOf(f.layouts); err != nil {
		return o, nil, err
	}
	if o.Threads, err = setting(f.threads, "WEIR_THREADS"); err != nil {
		return o, nil, err
	}
	o.Calls = f.calls
	name := first(f.target, os.Getenv("WEIR_TARGET"))
	switch name {
	case "reference":
		o.Target = weir.Reference
	case "": // cpu, or the artefact's target
		o.CPU = first(f.cpu, os.Getenv("WEIR_CPU"))
	case "cpu":
		o.Target, o.CPU = weir.CPU, first(f.cpu, os.Getenv("WEIR_CPU"))
	case "vulkan":
		o.Target = weir.Vulkan
	default:
		return o, nil, diag.Unsupportedf("target %s; cpu, vulkan and reference are supported", name)
	}
	o.Device, o.Limits = f.device, f.limits
	switch f.precision {
	case "f32":
	case "bf16":
		o.Precision = weir.BF16
	case "int8":
		o.Precision = weir.I8
	default:
		return o, nil, diag.Unsupportedf("--precision %s; f32, bf16 and int8 are supported", f.precision)
	}
	switch f.cache {
	case "f32", "": // empty: the command has no caches
	case "bf16":
		o.Cache = weir.BF16
	case "int8":
		o.Cache = weir.I8
	default:
		return o, nil, diag.Unsupportedf("--cache %s; f32, bf16 and int8 are supported", f.cache)
	}
	o.Budget, o.DeviceBudget = f.budget, f.deviceBudget
	o.PageFolder = f.folder
	o.Stage, o.Exact, o.Tune = f.stage, f.exact, f.tune
	if f.c.verbose {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o, bound, nil
}

// first returns the first string that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// setting returns a number from a flag, else from the environment, else 0.
func setting(flag int, variable string) (int, error) {
	if flag != 0 || os.Getenv(variable) == "" {
		return flag, nil
	}
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 1 {
		return 0, usageError{fmt.Errorf("%s=%s is no number of threads", variable, os.Getenv(variable))}
	}
	return n, nil
}

// loaded is a model and the program compiled from it.
type loaded struct {
	model             *weir.Model
	program           *weir.Program
	load, compileTime time.Duration
}

// Close closes the program and the model.
func (l *loaded) Close() {
	if l.program != nil {
		// Nothing runs at this point. Objects that an error or an interrupt left open end with the process.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		l.program.CloseContext(ended)
	}
	l.model.Close()
}

// load opens a model. The error for an unsupported format names the format.
func load(path string) (*weir.Model, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".mlir":
		return nil, diag.Unsupportedf("%s files; .onnx, .pt2 and .weir are supported", filepath.Ext(path)).AtFile(path)
	}
	m, err := weir.Load(path)
	if e, ok := err.(*weir.Error); ok && e.Fix == "" && strings.Contains(e.Detail, "not an ONNX model") {
		return nil, e.WithFix("a MODEL is an .onnx file, a .pt2 file of torch.export, an artefact of weir compile, or a " +
			"text that begins with weir 1")
	}
	if err != nil {
		if _, absent := os.Stat(path); errors.Is(absent, fs.ErrNotExist) {
			return nil, missingError{err}
		}
	}
	return m, err
}

// compile loads and compiles a model, with a progress bar for long steps.
func (f *modelFlags) compile(ctx context.Context, path string, adjust func(o *weir.Options, m *weir.Model)) (*loaded,
	weir.Dims, error) {
	o, bound, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	budget := o.Budget
	if budget > 0 || f.fixes {
		// The compiler gets the dimensions that are bound here as free ones.
		for name, size := range bound {
			o.Dims[name] = weir.Range{Min: size, Max: size}
		}
	}
	begin := time.Now()
	m, err := load(path)
	if err != nil {
		return nil, nil, err
	}
	if adjust != nil {
		adjust(&o, m)
	}
	l := &loaded{model: m, load: time.Since(begin)}
	begin = time.Now()
	bar := f.c.progress(0, "compiling "+shortened(filepath.Base(path), nameColumns))
	if o.Logger == nil {
		o.Logger = bar.logger()
	}
	l.program, err = weir.Compile(ctx, m, o)
	bar.finish()
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	l.compileTime = time.Since(begin)
	if f.device != 0 && l.program.Target() != weir.Vulkan {
		l.Close()
		return nil, nil, usageError{fmt.Errorf("--device %d: the model is compiled for %s; add --target vulkan", f.device,
			l.program.Target())}
	}
	if err := f.checkBound(l.program, bound, budget); err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, bound, nil
}

// unknownDim returns the error for a dimension that the model does not have, with the names of those that it has.
func unknownDim(name string, names []string) error {
	e := diag.Inputf("the model has no dimension %q", name).AtDim(name)
	if len(names) == 0 {
		return e.WithFix("leave --dim out: all of its sizes are fixed")
	}
	return e.WithFix("its dimensions are %s", strings.Join(names, ", "))
}

// checkBound checks the dimensions that --dim binds, and the budget at them.
func (f *modelFlags) checkBound(p *weir.Program, bound weir.Dims, budget int64) error {
	known := map[string]weir.Dimension{}
	var names []string
	for _, d := range slices.Concat(p.Dims(), p.Decided()) {
		known[d.Name] = d
		names = append(names, d.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		size := bound[name]
		if d, ok := known[name]; !ok {
			return unknownDim(name, names)
		} else if slices.ContainsFunc(p.Decided(), func(o weir.Dimension) bool {
			return o.Name == name
		}) && (size < d.Min || size > d.Max) {
			return diag.Inputf("%d is outside %d to %d", size, d.Min, d.Max).AtDim(name)
		}
	}
	if err := p.Check(bound); err != nil {
		return err
	}
	if budget <= 0 || len(bound) == 0 || f.plans {
		return nil
	}
	peak, err := p.Memory().Peak(f.calls, bound)
	if err != nil {
		if peak, err = p.Memory().Max(f.calls); err != nil {
			return &weir.Error{Kind: weir.ErrBudget, Detail: "the peak has no bound", Fix: "bind all dimensions with --dim"}
		}
	}
	if peak > budget {
		return &weir.Error{Kind: weir.ErrBudget, Detail: fmt.Sprintf("the peak is %d bytes, %d are allowed", peak, budget),
			Fix: fmt.Sprintf("a budget of %d bytes works", peak)}
	}
	return nil
}
