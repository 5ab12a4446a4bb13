package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
)

// apiCall is a call of the API, and the call that must come before it.
type apiCall struct {
	name   string
	covers string // the function in api.txt that it calls, if that is not its name
	after  string
	once   bool // it is the same for every model
	ends   bool // its context can end it
	own    bool // it needs a program of its own
	keeps  bool // after a failure, memory may stay with the program: that of a call
	spares bool // if memory is refused, it may do without
	do     func(s *stand, ctx context.Context) error
	cannot func(s *stand) bool
}

var apiCalls = []apiCall{
	{name: "Load", do: func(s *stand, _ context.Context) (err error) {
		s.model, err = weir.Load(s.path)
		return err
	}},
	{name: "LoadContext", ends: true, do: func(s *stand, ctx context.Context) (err error) {
		s.model, err = weir.LoadContext(ctx, s.path)
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
			return nil // refused with the input's name, which other tests check
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
			if err == nil && len(plan.Actual.Outside)+len(plan.Actual.Short) > 0 {
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
				return weir.ErrMemory // its error has no other type
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
	{name: "Call.Bind and Run", covers: "Call.Bind Call.Run", after: "NewCall", ends: true, cannot: composite,
		keeps: true,
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
	{name: "Call.Close", after: "Call.Run", cannot: composite, keeps: true,
		do: func(s *stand, _ context.Context) error {
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
	// tests whether machine code is allowed
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

// tell calls the functions that only return facts, in Go's memory.
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

// notSwept are the functions of the API that no call above covers, and the reason.
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
	"Memory.Call":          "it computes",
	"Program.Rows":         "what the compiler found is kept",
	"Program.Trim":         "it releases",
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

// TestSweptAPI compares the list of swept calls with api.txt: every function of the package is swept, or has a reason.
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
	for _, m := range regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?(\w+)`).FindAllStringSubmatch(string(text),
		-1) {
		name := strings.TrimPrefix(m[1]+"."+m[2], ".")
		exported[name] = true
		switch why := notSwept[name]; {
		case !covered[name] && why == "":
			t.Errorf("%s is called by no sweep: let one of apiCalls cover it, or say in notSwept why it takes nothing",
				name)
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

// new returns a tensor that drop closes.
func (s *stand) new(dt weir.DType, shape []int) (*weir.Tensor, error) {
	x, err := weir.New(dt, shape...)
	if err == nil {
		s.tensors = append(s.tensors, x)
	}
	return x, err
}

// runParting runs the program on copies of the inputs, each passed as part returns it.
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

// donatable returns inputs that may all be donated at once.
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

// notToBind reports whether some output cannot be bound, since the data decide its size.
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

// seen returns the binding of the inputs, with a value for dimensions that the data decide.
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

// composite reports whether an input or output is not one tensor of numbers; then the program does not have calls.
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
