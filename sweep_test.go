package weir_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// swept is a model of the sweeps.
type swept struct {
	name    string // of testdata/onnx, or of what write makes
	options weir.Options
	write   func(t *testing.T, path string) // makes the file, if it is none of testdata
	inputs  func(t *testing.T, m *weir.Model) weir.Inputs
	compare bool    // it is compared with the reference too, which takes but a moment
	budget  float64 // where not 0, how far between the smallest budget that works and the unconstrained peak
	tune    bool    // it is tuned too: there is something to choose, and compiling it takes a moment
}

// sweptModels cover what takes memory in ways of its own: files beside the model, weights that are copied, packed,
// computed, paged; loops and branches; sizes that data decide, bounded and not; texts and sequences; what a budget
// makes a program do; artefacts and text.
var sweptModels = []swept{
	{name: "digits", write: copyOf("examples/digits/data/digits.onnx"), inputs: drawn(2)},
	{name: "artefact", write: writeArtefact, inputs: drawn(2)},
	{name: "text", write: writeText, inputs: drawn(5)},
	{name: "late", write: writeLate, inputs: countsTo(3000)},
	{name: "long_skips", budget: 0.001, inputs: drawn(2)},
	{name: "training_step", budget: 0.3, inputs: drawn(64)},
	{name: "tied_table", budget: 0.001, inputs: drawn(4)},
	{name: "external_data", compare: true},
	{name: "unaligned_weights"},
	{name: "typed_weights"},
	{name: "tied_embedding_int8", compare: true},
	{name: "conv_kinds"},
	{name: "lstm_bidirectional"},
	{name: "attention_two_dims"},
	{name: "kv_cache", tune: true},
	{name: "if_in_loop", compare: true},
	{name: "loop_dynamic_trips"},
	{name: "loop_scan_outputs"},
	{name: "nonzero_use", compare: true},
	{name: "compress_unique"},
	{name: "sequences", compare: true},
	{name: "texts", compare: true},
	{name: "optionals"},
}

// stand is a model on its way to results, as far as it has come.
type stand struct {
	t       *testing.T
	path    string
	options weir.Options
	in      weir.Inputs
	want    []string // the outputs
	shapes  [][]int  // theirs, where they are tensors
	tune    bool
	compare bool
	bytes   bool // it can be loaded from bytes: else the model keeps files open, once it has read them, until it is closed

	// what calls that leave it as it is have in common; poisoning has it keep no memory of one for the next
	shared *weir.Program

	model   *weir.Model
	program *weir.Program
	call    *weir.Call
	results *weir.Results
	own     bool // another program than the shared one is needed
	ran     bool // the call
	tensors []*weir.Tensor
}

// drop gives everything back.
func (s *stand) drop() {
	s.t.Helper()
	var all []error
	if s.results != nil {
		all = append(all, s.results.Close())
	}
	if s.call != nil {
		all = append(all, s.call.Close())
	}
	if s.program != nil && s.program != s.shared {
		all = append(all, s.program.Close())
	}
	if s.model != nil {
		all = append(all, s.model.Close())
	}
	for _, x := range s.tensors {
		all = append(all, x.Close())
	}
	if err := errors.Join(all...); err != nil {
		s.t.Errorf("closing: %v", err)
	}
	s.model, s.program, s.call, s.results, s.ran, s.tensors = nil, nil, nil, nil, false, nil
}

// right checks results that there are.
func (s *stand) right() {
	s.t.Helper()
	if s.results != nil {
		if got := allContents(s.t, s.program, s.results); !slices.Equal(got, s.want) {
			s.t.Errorf("the results are\n%.300s, not\n%.300s", got, s.want)
		}
	}
	if s.ran {
		for i, info := range s.program.Outputs() {
			if x := s.call.Output(info.Name); !strings.Contains(s.want[i], fmt.Sprintf(" %s %x", x, x.Bytes())) {
				s.t.Errorf("output %s of the call is not what a run gives", info.Name)
			}
		}
	}
}

// floats are the results that are f32.
func (s *stand) floats() (list [][]float32) {
	for i, info := range s.program.Outputs() {
		if info.DType != weir.F32 {
			continue
		}
		numbers, err := weir.Copy[float32](s.results.At(i))
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, numbers)
	}
	return list
}

func allContents(t *testing.T, p *weir.Program, r *weir.Results) (list []string) {
	t.Helper()
	for i, info := range p.Outputs() {
		list = append(list, contents(t, r, i, info))
	}
	return list
}

// apiCall is a call of the API, and the one that must come before it.
type apiCall struct {
	name   string
	covers string // what of the API it calls, as sweptAPI lists it, if that is not its name
	after  string
	once   bool // it is the same for every model
	ends   bool // it heeds a context
	own    bool // it needs a program of its own
	keeps  bool // what it took may stay with the program when it fails: the memory of a call
	spares bool // it does without what it is refused, where it can
	do     func(s *stand, ctx context.Context) error
	cannot func(s *stand) bool
}

var apiCalls = []apiCall{
	{name: "Load", do: func(s *stand, _ context.Context) (err error) {
		s.model, err = weir.Load(s.path)
		return err
	}},
	{name: "LoadFS", do: func(s *stand, _ context.Context) (err error) {
		s.model, err = weir.LoadFS(os.DirFS(filepath.Dir(s.path)), filepath.Base(s.path))
		return err
	}},
	{name: "LoadFS of readers", covers: "LoadFS", do: func(s *stand, _ context.Context) (err error) {
		s.model, err = weir.LoadFS(refusing{os.DirFS(filepath.Dir(s.path))}, filepath.Base(s.path))
		return err
	}},
	{name: "LoadBytes", cannot: func(s *stand) bool { return !s.bytes }, do: func(s *stand, _ context.Context) error {
		data, err := os.ReadFile(s.path)
		if err == nil {
			s.model, err = weir.LoadBytes(data)
		}
		return err
	}},
	{name: "Compile", after: "Load", ends: true, do: func(s *stand, ctx context.Context) (err error) {
		s.program, err = weir.Compile(ctx, s.model, s.options)
		return err
	}},
	{name: "Compile from readers", covers: "Compile", after: "LoadFS of readers", cannot: func(s *stand) bool {
		return s.bytes
	}, do: func(s *stand, ctx context.Context) (err error) {
		s.program, err = weir.Compile(ctx, s.model, s.options)
		return err
	}},
	{name: "WriteTo", covers: "Program.WriteTo", after: "Compile", do: func(s *stand, _ context.Context) error {
		_, err := s.program.WriteTo(refusing{})
		if errors.Is(err, weir.ErrUnsupported) {
			return nil // refused by name, which other tests are about
		}
		return err
	}},
	{name: "Run", covers: "Program.Run", after: "Compile", ends: true, keeps: true,
		do: func(s *stand, ctx context.Context) (err error) {
			s.results, err = s.program.Run(ctx, s.in)
			return err
		}},
	{name: "Run, consuming", covers: "Consume", after: "Compile", ends: true, keeps: true, cannot: composite,
		do: func(s *stand, ctx context.Context) error {
			return s.runParting(ctx, func(_ string, x *weir.Tensor) weir.Arg { return weir.Consume(x) })
		}},
	{name: "Run, donating", covers: "Donate", after: "Compile", ends: true, keeps: true, cannot: givesNothing,
		do: func(s *stand, ctx context.Context) error {
			donated := donatable(s.program)
			return s.runParting(ctx, func(name string, x *weir.Tensor) weir.Arg {
				if slices.Contains(donated, name) {
					return weir.Donate(x)
				}
				return x
			})
		}},
	{name: "Results.Detach", after: "Run", keeps: true, do: func(s *stand, _ context.Context) error {
		return s.results.Detach()
	}},
	{name: "Results.Close", after: "Run", keeps: true, do: func(s *stand, _ context.Context) error {
		defer func() { s.results = nil }()
		return s.results.Close()
	}},
	{name: "Measure", covers: "Program.Measure", after: "Compile", ends: true,
		do: func(s *stand, ctx context.Context) error {
			_, err := s.program.Measure(ctx, s.in)
			return err
		}},
	{name: "Profile", covers: "Program.Profile", after: "Compile", ends: true, keeps: true,
		do: func(s *stand, ctx context.Context) error {
			_, err := s.program.Profile(ctx, s.in, 1)
			return err
		}},
	{name: "Plan", covers: "Program.Plan", after: "Compile", do: func(s *stand, _ context.Context) error {
		d, err := s.seen()
		if err == nil {
			_, err = s.program.Plan(d)
		}
		return err
	}},
	{name: "Observe", covers: "Program.Observe", after: "Compile", ends: true,
		do: func(s *stand, ctx context.Context) error {
			plan, err := s.program.Observe(ctx, s.in)
			if err == nil && !plan.Actual.Equal {
				err = fmt.Errorf("the run was not as planned: %+v", plan.Actual)
			}
			return err
		}},
	{name: "NewCall", covers: "Program.NewCall Program.Bind", after: "Compile", cannot: composite,
		do: func(s *stand, _ context.Context) error {
			d, err := s.program.Bind(s.in)
			if err == nil {
				s.call, err = s.program.NewCall(d)
			}
			return err
		}},
	{name: "Call.Input", after: "NewCall", cannot: composite, keeps: true, do: func(s *stand, _ context.Context) error {
		for _, info := range s.program.Inputs() {
			x := s.call.Input(info.Name)
			if x == nil {
				return weir.ErrMemory // that is all it says
			}
			if !slices.Contains(s.tensors, x) {
				s.tensors = append(s.tensors, x)
			}
			from, ok := s.in[info.Name].(*weir.Tensor)
			if !ok || copy(x.Bytes(), from.Bytes()) != len(from.Bytes()) {
				return fmt.Errorf("the tensor for %s is %s", info.Name, x)
			}
		}
		return nil
	}},
	{name: "Call.Run", covers: "Call.Run Call.Output", after: "Call.Input", ends: true, cannot: composite, keeps: true,
		do: func(s *stand, ctx context.Context) error {
			err := s.call.Run(ctx)
			s.ran = err == nil
			return err
		}},
	{name: "Call.Bind and Run", covers: "Call.Bind Call.Run", after: "NewCall", ends: true, cannot: composite, keeps: true,
		do: func(s *stand, ctx context.Context) error {
			for name, x := range s.in {
				if err := s.call.Bind(name, x); err != nil {
					return err
				}
			}
			err := s.call.Run(ctx)
			s.ran = err == nil
			return err
		}},
	{name: "Call.Bind of outputs", covers: "Call.Bind", after: "NewCall", ends: true, cannot: notToBind, keeps: true,
		do: func(s *stand, ctx context.Context) error {
			for i, info := range s.program.Outputs() {
				x, err := s.new(info.DType, s.shapes[i])
				if err == nil {
					err = s.call.Bind(info.Name, x)
				}
				if err != nil {
					return err
				}
			}
			for name, x := range s.in {
				if err := s.call.Bind(name, x); err != nil {
					return err
				}
			}
			err := s.call.Run(ctx)
			s.ran = err == nil
			return err
		}},
	{name: "Compare", covers: "Model.Compare Program.Compare", after: "Load", ends: true, cannot: func(s *stand) bool {
		return !s.compare
	}, do: func(s *stand, ctx context.Context) error {
		d, err := s.model.Compare(ctx, s.in, 1e-3, 1e-3)
		if d != nil {
			return errors.New(d.String())
		}
		if errors.Is(err, weir.ErrUnsupported) {
			return nil
		}
		return err
	}},
	{name: "WriteHeapProfile", covers: "Program.WriteHeapProfile WriteHeapProfile", after: "Run",
		do: func(s *stand, _ context.Context) error {
			if err := s.program.WriteHeapProfile(refusing{}); err != nil {
				return err
			}
			return weir.WriteHeapProfile(refusing{})
		}},
	{name: "Copy", covers: "Copy View Results.All Results.At Results.Get Results.Sequence Tensor.Bytes Tensor.DType " +
		"Tensor.Len Tensor.Shape Tensor.String", after: "Run", do: func(s *stand, _ context.Context) error {
		_ = allContents(s.t, s.program, s.results)
		return nil
	}},
	{name: "New", covers: "New Tensor.Close", once: true, do: func(s *stand, _ context.Context) error {
		for range 3 {
			if _, err := s.new(weir.F32, []int{100}); err != nil {
				return err
			}
		}
		return nil
	}, keeps: true},
	{name: "Program.Close", after: "Compile", own: true, do: func(s *stand, _ context.Context) error {
		defer func() { s.program = nil }()
		return s.program.Close()
	}},
	{name: "Call.Close", after: "Call.Run", cannot: composite, keeps: true, do: func(s *stand, _ context.Context) error {
		defer func() { s.call, s.ran = nil, false }()
		return s.call.Close()
	}},
	{name: "Model.Close", after: "Load", do: func(s *stand, _ context.Context) error {
		defer func() { s.model = nil }()
		return s.model.Close()
	}},
	{name: "Trim and SetLimit", covers: "SizeClasses Trim SetLimit Usage", once: true,
		do: func(s *stand, _ context.Context) error {
			weir.Trim()
			_ = weir.SizeClasses()
			before := weir.SetLimit(weir.Usage().Current + 1<<40)
			weir.SetLimit(before)
			return nil
		}},
	// it tries whether machine code is allowed
	{name: "HostProcessor", once: true, spares: true, do: func(s *stand, _ context.Context) error {
		_ = weir.HostProcessor()
		return nil
	}},
	{name: "Compile, tuning", covers: "Compile", after: "Load", ends: true, spares: true, cannot: func(s *stand) bool {
		return !s.tune
	}, do: func(s *stand, ctx context.Context) (err error) {
		o := s.options
		o.Tune = true
		s.program, err = weir.Compile(ctx, s.model, o)
		return err
	}},
	{name: "telling of a model", covers: "Model.Describe Model.Inputs Model.Metadata Model.Outputs Extent.String " +
		"Info.String", after: "Load", do: func(s *stand, _ context.Context) error {
		_, _ = s.model.Describe(), s.model.Metadata()
		for _, info := range slices.Concat(s.model.Inputs(), s.model.Outputs()) {
			_ = info.String()
		}
		return nil
	}},
	{name: "telling", covers: "Foreign FromSlice Scalar Memory.Donating Memory.Formula Memory.Binding " +
		"Memory.LargestStep Memory.Max Memory.Peak Memory.PeakAt Memory.String " +
		"Program.Bind Program.CPU Program.Decided Program.Dims Program.Inputs Program.ValueRange Program.Memory " +
		"Program.Operations Program.Outputs " +
		"Program.Proved Program.Requires Program.Savings Program.Stats Program.Target Program.Tuned Saving.String Sequence " +
		"Size.At Size.Dims Size.Max Size.String",
		after: "Run", do: (*stand).tell},
}

// tell calls what only tells something. What it takes is Go's.
func (s *stand) tell(context.Context) error {
	p := s.program
	_, _, _, _, _, _, _, _ = p.CPU(), p.Decided(), p.Dims(), p.Operations(), p.Proved(), p.Requires(), p.Tuned(),
		p.Target()
	for _, saving := range p.Savings() {
		_ = saving.String()
	}
	memory := p.Memory()
	d, err := s.seen()
	if err != nil {
		return err
	}
	for _, info := range p.Inputs() {
		_ = info.String()
		_, _, _ = p.ValueRange(info.Name, d)
	}
	_, _, _ = memory.String(), p.Stats(), donatable(p)
	peak := memory.Formula(2)
	_, _, _ = peak.String(), peak.Dims(), weir.Sequence()
	_, _ = peak.Max()
	_, _ = memory.Max(1)
	if _, err := peak.At(d); err != nil {
		return err
	}
	if _, err := memory.Peak(1, d); err != nil {
		return err
	}
	if _, _, err := memory.PeakAt(d); err != nil {
		return err
	}
	if _, _, err := memory.LargestStep(d); err != nil {
		return err
	}
	data := []float32{1, 2}
	lent, err := weir.Foreign(weir.F32, unsafe.Pointer(&data[0]), weir.ReadOnly, func() {}, 2)
	if err != nil {
		return err
	}
	lent.Close()
	weir.Scalar(float32(1))
	_, err = weir.FromSlice(data)
	return err
}

// notSwept are the functions of the API that no call above is about, and why.
var notSwept = map[string]string{
	"Holders":              "it is called with every error of the sweep",
	"Memory.Asked":         "it computes, which TestLimit is about",
	"Memory.Limit":         "likewise",
	"Memory.LimitAt":       "likewise",
	"Asked.Total":          "likewise",
	"PageFolder":           "it is a name",
	"Memory.PageFolder":    "it is a name",
	"Memory.Of":            "it computes, which TestApartCertified of arrays is about",
	"Memory.PeakWith":      "it computes with a Measurement and takes nothing, which TestPredicted is about",
	"Tensor.Floats":        "it converts to Go's memory",
	"Tensor.SetFloats":     "it converts in place",
	"Tensor.Fixed":         "it is a field",
	"Roofline.ReadAll":     "it is a look into a list",
	"Measurement.Peak":     "it is a sum",
	"Probe":                "it takes a block at a time, which its room's TestRefused refuses",
	"Difference.Save":      "there must be a kernel that computes wrongly first: TestCompare makes one",
	"Difference.String":    "likewise",
	"Update":               "only a text has states: TestStateFaults",
	"Program.States":       "it is a list",
	"Program.Initial":      "only a .pt2 file has first values: TestTorchStates",
	"StateError.Error":     "it is a line",
	"StateError.Unwrap":    "it is a field",
	"Program.CloseContext": "it gives back, as Close does: TestCloseContext",
	"Program.Check":        "it computes",
	"Program.Laid":         "it is a list",
	"LayoutOf":             "it computes",
	"Strided":              "it describes memory, and takes nothing before a run: TestStridedCopies refuses that",
	"Memory.Copies":        "it computes",
	"Program.Checks":       "it is a list",
	"Program.Kernels":      "it is a list",

	"Devices":               "it asks the driver, which the tests of device/vulkan refuse call by call",
	"DeviceMemory.Formula":  "it computes",
	"Program.DeviceKernels": "it is a list",
	"Program.OnHost":        "it is a list",
}

// TestSweptAPI holds the list of swept calls against api.txt: every function of the package is swept, or says why not.
func TestSweptAPI(t *testing.T) {
	document, err := os.ReadFile("docs/robustness.md")
	if says := fmt.Sprintf("| %d models and every function", len(sweptModels)); err != nil ||
		!strings.Contains(string(document), says) {
		t.Errorf("docs/robustness.md lacks %q, %v", says, err)
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, c := range apiCalls {
		for _, name := range strings.Fields(cmp.Or(c.covers, c.name)) {
			covered[name] = true
		}
	}
	exported := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		name := strings.TrimPrefix(m[1]+"."+m[2], ".")
		exported[name] = true
		switch why := notSwept[name]; {
		case !covered[name] && why == "":
			t.Errorf("%s is called by no sweep: let one of apiCalls cover it, or say in notSwept why it takes nothing", name)
		case covered[name] && why != "":
			t.Errorf("%s is swept, and said not to be", name)
		}
	}
	for name := range covered {
		if !exported[name] {
			t.Errorf("a call covers %s, which there is not", name)
		}
	}
	for name := range notSwept {
		if !exported[name] {
			t.Errorf("%s is said not to be swept, and is not there", name)
		}
	}
}

// new is a tensor that drop closes.
func (s *stand) new(dt weir.DType, shape []int) (*weir.Tensor, error) {
	x, err := weir.New(dt, shape...)
	if err == nil {
		s.tensors = append(s.tensors, x)
	}
	return x, err
}

// runParting runs the program on copies of the inputs, given as part says.
func (s *stand) runParting(ctx context.Context, part func(name string, x *weir.Tensor) weir.Arg) (err error) {
	in := weir.Inputs{}
	for name, a := range s.in {
		from := a.(*weir.Tensor)
		x, err := s.new(from.DType(), from.Shape())
		if err != nil {
			return err
		}
		copy(x.Bytes(), from.Bytes())
		in[name] = part(name, x)
	}
	s.results, err = s.program.Run(ctx, in)
	return err
}

// donatable are inputs that may all be donated at once.
func donatable(p *weir.Program) (names []string) {
	for _, info := range p.Inputs() {
		if _, err := p.Memory().Donating(append(slices.Clone(names), info.Name)...); err == nil {
			names = append(names, info.Name)
		}
	}
	return names
}

// givesNothing reports whether no input can be donated.
func givesNothing(s *stand) bool { return composite(s) || len(donatable(s.shared)) == 0 }

// notToBind reports whether some output cannot be given its place: data decide how large it is.
func notToBind(s *stand) bool {
	if composite(s) {
		return true
	}
	var names []string
	for _, info := range s.shared.Outputs() {
		names = append(names, info.Name)
	}
	_, err := s.shared.Memory().Binding(names...)
	return err != nil
}

// seen is the binding of the inputs, with one for what data decide and nothing bounds.
func (s *stand) seen() (weir.Dims, error) {
	d, err := s.program.Bind(s.in)
	if err != nil {
		return nil, err
	}
	for _, dim := range s.program.Decided() {
		d[dim.Name] = max(1, dim.Min)
	}
	return d, nil
}

// composite reports whether an input or output is not one tensor of numbers: then there are no calls.
func composite(s *stand) bool {
	m, err := weir.Load(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer m.Close()
	for _, info := range slices.Concat(m.Inputs(), m.Outputs()) {
		if info.Kind != weir.TensorKind || info.DType == weir.StringType {
			return true
		}
	}
	return false
}

// upTo does what must come before a call.
func (s *stand) upTo(name string) {
	s.t.Helper()
	if name == "" {
		return
	}
	if name == "Compile" && s.shared != nil && !s.own {
		s.program = s.shared
		return
	}
	i := slices.IndexFunc(apiCalls, func(c apiCall) bool { return c.name == name })
	s.upTo(apiCalls[i].after)
	if err := apiCalls[i].do(s, context.Background()); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// held is what the process holds that must not grow.
type held struct {
	totals mem.Totals
	files  int
}

func holds() held {
	h := held{totals: mem.Usage()}
	t := &h.totals
	t.Peak, t.MappedPeak, t.AllPeak, t.MappedAllPeak, t.SpilledPeak = [mem.Kinds]int64{}, [mem.Kinds]int64{}, 0, 0, 0
	// Of a mapped file there is less after a compilation; the files themselves are counted in blocks.
	t.All, t.MappedAll = t.All-t.Current[mem.File], t.MappedAll-t.MappedCurrent[mem.File]
	t.Current[mem.File], t.MappedCurrent[mem.File] = 0, 0
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(list)
	}
	return h
}

// prepare makes a stand for a model: its file, its options, its inputs, and what it computes.
func (w *swept) prepare(t *testing.T) *stand {
	s := &stand{t: t, path: filepath.Join("testdata/onnx", w.name, "model.onnx"), options: w.options, tune: w.tune,
		compare: w.compare}
	if w.write != nil {
		s.path = filepath.Join(t.TempDir(), w.name)
		w.write(t, s.path)
	}
	s.bytes = w.name != "external_data"
	s.options.Threads = 2
	s.upTo("Load")
	if w.inputs != nil {
		s.in = w.inputs(t, s.model)
	} else {
		sets, _ := filepath.Glob(filepath.Join(filepath.Dir(s.path), "test_data_set_*"))
		s.in = weir.Inputs{}
		for i, info := range s.model.Inputs() {
			s.in[info.Name] = stored(t, filepath.Join(sets[0], fmt.Sprintf("input_%d.pb", i)), info)
		}
	}
	s.drop()
	s.upTo("Run")
	s.want = allContents(t, s.program, s.results)
	for i := range s.program.Outputs() {
		var shape []int
		if x := s.results.At(i); x != nil {
			shape = x.Shape()
		}
		s.shapes = append(s.shapes, shape)
	}
	if w.budget > 0 {
		d, err := s.program.Bind(s.in)
		if err != nil {
			t.Fatal(err)
		}
		s.options.Dims = map[string]weir.Range{}
		for name, v := range d {
			s.options.Dims[name] = weir.Range{Min: v, Max: v}
		}
		peak, err := s.program.Memory().Peak(1, d)
		if err != nil {
			t.Fatal(err)
		}
		least := smallest(t, s.model, s.options)
		s.options.Budget = least + int64(w.budget*float64(peak-least))
		free := s.floats()
		s.drop()
		s.upTo("Run")
		if !slices.Equal(allContents(t, s.program, s.results), s.want) && sameResults(s.floats(), free, s.program.Savings()) {
			s.want = allContents(t, s.program, s.results) // sums over the batch have another order
		}
		if s.right(); len(s.program.Savings()) == 0 {
			t.Error("the budget asks for nothing")
		}
	}
	s.drop()
	s.upTo("Compile")
	s.shared = s.program
	s.drop()
	t.Cleanup(func() { s.shared.Close() })
	return s
}

// TestFaultSweep refuses the first, the second, … taking of every call of the API alone, and some with all that come
// after them. The call returns a typed error, nothing leaks, and the same call then does what it should.
func TestFaultSweep(t *testing.T) {
	if !under(t, "poison") {
		return
	}
	if len(sweptModels) < 20 {
		t.Fatalf("%d models", len(sweptModels))
	}
	weir.HurryTuning(t)
	for i, w := range sweptModels {
		t.Run(w.name, func(t *testing.T) {
			s := w.prepare(t)
			goroutines := runtime.NumGoroutine()
			for _, c := range apiCalls {
				if s.skips(&c, i) {
					continue
				}
				refused, narrower := 0, 0
				sweep := func(last func(k int64) int64, next func(k int64) int64) {
					for k := int64(1); ; k = next(k) {
						failed, done := s.refuse(&c, k, last(k))
						if t.Failed() {
							t.Fatalf("%s, with taking %d to %d refused", c.name, k, last(k))
						}
						if done {
							return
						}
						if refused++; !failed {
							narrower++
						}
					}
				}
				sweep(func(k int64) int64 { return k }, func(k int64) int64 { return k + 1 })
				if refused > 0 {
					sweep(func(int64) int64 { return math.MaxInt64 }, func(k int64) int64 { return k + 1 + k/3 })
				}
				t.Logf("%-20s %-22s %3d refused, %3d errors, %3d done with less", w.name, c.name, refused, refused-narrower,
					narrower)
			}
			settled(t, goroutines)
		})
	}
}

// under runs the test in a process of its own with these words in WEIR_DEBUG, and reports whether this is that one.
func under(t *testing.T, words string) bool {
	words = "WEIR_DEBUG=" + words
	if slices.Contains(os.Environ(), words) {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$",
		"-test.v")
	cmd.Env = append(os.Environ(), words)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, row, ok := strings.Cut(line, "_test.go:"); ok {
			t.Log(strings.TrimSpace(row[strings.Index(row, " "):]))
		}
	}
	return false
}

// skips reports whether a call is not swept with this model, the i-th. It also forgets the addresses that poisoning
// keeps: thousands of them make every look at the process's mappings long.
func (s *stand) skips(c *apiCall, i int) bool {
	mem.SetPoison(mem.SetPoison(false))
	return c.once && i > 0 || c.cannot != nil && c.cannot(s)
}

// attempt does a call in trouble, which check is told the outcome of, then, where it failed, again without; it checks
// what is held after each, and what the call computed.
func (s *stand) attempt(c *apiCall, inTrouble func() error) error {
	s.t.Helper()
	before := holds()
	s.own = c.own
	s.upTo(c.after)
	just := holds()
	err := inTrouble()
	if err != nil {
		if now := holds(); now != just && !c.keeps && s.bytes {
			s.t.Errorf("a call that failed (%v) left\n%+v, before there was\n%+v", err, now, just)
		}
		if err := c.do(s, context.Background()); err != nil {
			s.t.Errorf("the same call later: %v", err)
		}
	}
	s.right()
	s.drop()
	if now := holds(); now != before {
		s.t.Errorf("after %v there are\n%+v, before there was\n%+v", err, now, before)
	}
	return err
}

// refuse does a call with the takings first to last refused. It reports whether the call failed, and whether there was
// nothing to refuse.
func (s *stand) refuse(c *apiCall, first, last int64) (failed, done bool) {
	s.t.Helper()
	err := s.attempt(c, func() error {
		faults := mem.Fail(first, last)
		err := c.do(s, context.Background())
		faults.Restore()
		count := int64(0)
		for k := range mem.Taking(mem.Takings) {
			count += faults.Refused(k)
		}
		done = count == 0
		var typed *weir.Error
		switch {
		case err == nil && count > faults.Refused(mem.Worker)+faults.Refused(mem.Access) && !c.spares:
			s.t.Errorf("%d were refused, and there was no error", count)
		case err != nil && count == 0:
			s.t.Errorf("nothing was refused: %v", err)
		case errors.Is(err, errReader): // the caller's own
		// without machine code other memory is needed
		case errors.Is(err, weir.ErrBudget) && count == faults.Refused(mem.Access):
		case err != nil && !errors.Is(err, weir.ErrMemory), err != nil && err != weir.ErrMemory && !errors.As(err, &typed):
			s.t.Errorf("the error is %v", err)
		}
		for _, h := range weir.Holders(err) {
			if h.Bytes < 0 || h.Kind == "" {
				s.t.Errorf("%v holds %+v", err, h)
			}
		}
		return err
	})
	return err != nil, done
}

// TestCancelSweep ends the context of every call that has one the first, the second, … time it is looked at: the error
// is the context's, nothing leaks, and the same call then does what it should.
func TestCancelSweep(t *testing.T) {
	if !under(t, "poison") {
		return
	}
	weir.HurryTuning(t)
	for i, w := range sweptModels {
		t.Run(w.name, func(t *testing.T) {
			s := w.prepare(t)
			goroutines := runtime.NumGoroutine()
			for _, c := range apiCalls {
				if !c.ends || s.skips(&c, i) {
					continue
				}
				ended := 0
				for n := 1; ; n += 1 + n/3 {
					done := s.cancel(&c, n)
					if t.Failed() {
						t.Fatalf("%s, with a context that ends when it is looked at for the %d. time", c.name, n)
					}
					if done {
						break
					}
					ended++
				}
				if ended == 0 {
					t.Errorf("%s never looks at its context", c.name)
				}
				t.Logf("%-20s %-22s %3d ended", w.name, c.name, ended)
			}
			settled(t, goroutines)
		})
	}
}

// cancel does a call with a context that ends when it is looked at for the n-th time. It reports whether the context
// did not end.
func (s *stand) cancel(c *apiCall, n int) (done bool) {
	s.t.Helper()
	s.attempt(c, func() error {
		ctx := &countdown{left: n, done: make(chan struct{})}
		err := c.do(s, ctx)
		done = !ctx.ended()
		if err != nil && (done || !errors.Is(err, context.Canceled)) {
			s.t.Errorf("ended is %v, the error %v", !done, err)
		}
		return err
	})
	return done
}

// settled checks that there are no more goroutines than before, but for the pool's, which stay.
func settled(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		now := runtime.NumGoroutine()
		if now <= before+runtime.GOMAXPROCS(0) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%d goroutines before, %d after", before, now)
			return
		}
	}
}

// countdown is a context that ends when it is looked at often enough.
type countdown struct {
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (c *countdown) look() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
	return c.left <= 0
}

func (c *countdown) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= 0
}

func (c *countdown) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *countdown) Value(any) any               { return nil }

func (c *countdown) Done() <-chan struct{} {
	c.look()
	return c.done
}

func (c *countdown) Err() error {
	if c.look() {
		return context.Canceled
	}
	return nil
}

// errReader is what the caller's own readers and writers fail with.
var errReader = errors.New("the caller's own reader or writer failed")

// refusing is a file system, and a writer, that fail when a taking is to be refused.
type refusing struct{ fs.FS }

func (r refusing) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if mem.Failing(mem.Opening) {
		f.Close()
		return nil, errReader
	}
	return refusingFile{f}, nil
}

func (r refusing) Write(p []byte) (int, error) {
	if mem.Failing(mem.Room) {
		return len(p) / 2, errReader
	}
	return len(p), nil
}

type refusingFile struct{ fs.File }

func (f refusingFile) Read(p []byte) (int, error) {
	if mem.Failing(mem.Room) {
		return 0, errReader
	}
	return f.File.Read(p)
}

func (f refusingFile) Stat() (fs.FileInfo, error) {
	if mem.Failing(mem.Room) {
		return nil, errReader
	}
	return f.File.Stat()
}

func copyOf(path string) func(*testing.T, string) {
	return func(t *testing.T, to string) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeArtefact(t *testing.T, path string) {
	m := must[*weir.Model](t)(weir.LoadBytes(digits(t)))
	defer m.Close()
	p, file := artefactOf(t, m)
	defer p.Close()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeText writes a model as text that lays out its own memory.
func writeText(t *testing.T, path string) {
	if err := os.WriteFile(path, []byte(story("[0, inf]", "64")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeLate writes a model of squares whose sizes nothing bounds.
func writeLate(t *testing.T, path string) {
	number := func(name string, v float32) *wire.TensorProto { return wire.FromTensor(name, tensor.Scalar(v)) }
	g := &wire.GraphProto{Initializer: []*wire.TensorProto{number("zero", 0), number("one", 1)},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("limit", wire.DataTypeOf(weir.F32), wire.Size(1))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.DataTypeOf(weir.F32), &wire.Dimension{Param: "n"})},
		Node: []*wire.NodeProto{nodeOf("Range zero,limit,one r"), nodeOf("Mul r,r s"), nodeOf("Add s,r t"),
			nodeOf("CumSum t,axis u"), nodeOf("Softmax u y")}}
	g.Initializer = append(g.Initializer, wire.FromTensor("axis", tensor.Scalar(int64(0))))
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}
	if err := os.WriteFile(path, m.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func countsTo(n float32) func(*testing.T, *weir.Model) weir.Inputs {
	return func(t *testing.T, _ *weir.Model) weir.Inputs {
		return weir.Inputs{"limit": must[*weir.Tensor](t)(weir.FromSlice([]float32{n}))}
	}
}

// drawn draws inputs whose free dimensions are n.
func drawn(n int64) func(*testing.T, *weir.Model) weir.Inputs {
	return func(t *testing.T, m *weir.Model) weir.Inputs {
		in, drop := random(t, m, n)
		t.Cleanup(drop)
		return in
	}
}
