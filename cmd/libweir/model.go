//go:build cgo

package main

// #include "bridge.h"
import "C"

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/importer/torch"
	"github.com/weirml/weir/internal/planpage"
)

// model is a model held by its handle and by the programs compiled from it: the last holder closes it.
type model struct {
	*weir.Model
	holders holders
}

// addModel makes a handle of a model, which the handle owns.
func addModel(m *weir.Model) C.uint64_t {
	held := &model{Model: m}
	held.holders.Store(1)
	return add(held)
}

// drop ends a hold. The last one closes the model.
func (m *model) drop() error {
	if m.holders.Add(-1) > 0 {
		return nil
	}
	return m.Close()
}

// program is a program with slots for its runs.
type program struct {
	*weir.Program
	model   *model
	inputs  []weir.Info
	outputs []weir.Info
	states  []bool        // by output: whether it is the new value of a state, in the state's memory
	slots   chan struct{} // one for each run that is active
}

// close closes the program, and ends its hold on the model.
func (p *program) close() error { return errors.Join(p.Program.Close(), p.model.drop()) }

// goLoad implements weir_load.
//
//export goLoad
func goLoad(path *C.char, handle *C.uint64_t) *C.char {
	return edge(func() error {
		m, err := weir.Load(C.GoString(path))
		if err == nil {
			*handle = addModel(m)
		}
		return err
	})
}

// goLoadBytes implements weir_load_bytes.
//
//export goLoadBytes
func goLoadBytes(data unsafe.Pointer, size C.size_t, handle *C.uint64_t) *C.char {
	return edge(func() error {
		m, err := weir.LoadBytes(bytes.Clone(unsafe.Slice((*byte)(data), size)))
		if err == nil {
			*handle = addModel(m)
		}
		return err
	})
}

// options are the options of weir_compile as JSON.
type options struct {
	Budget     int64               `json:"budget"`
	Calls      int                 `json:"calls"`
	Threads    int                 `json:"threads"`
	Target     string              `json:"target"`
	Precision  string              `json:"precision"`
	Cache      string              `json:"cache"`
	CPU        string              `json:"cpu"`
	PageFolder string              `json:"page_folder"`
	Outputs    []string            `json:"outputs"`
	States     map[string]string   `json:"states"`
	Dims       map[string][2]int64 `json:"dims"`
	Exact      bool                `json:"exact"`
	Tune       bool                `json:"tune"`
	Layouts    map[string]laidOut  `json:"layouts"`
}

// laidOut is a layout: its text, or the extents and strides of an example.
type laidOut struct {
	Text    weir.Layout `json:"text"`
	Shape   []int       `json:"shape"`
	Strides []int       `json:"strides"`
}

// layout returns the layout, or an error that names the input.
func (l laidOut) layout(input string) (weir.Layout, error) {
	if l.Shape == nil && l.Strides == nil {
		return l.Text, nil
	}
	layout, err := weir.LayoutOf(l.Shape, l.Strides)
	var e *weir.Error
	if errors.As(err, &e) {
		return "", e.AtTensor(input)
	}
	return layout, err
}

// readOptions sets o to the options in a JSON text; NULL changes nothing.
func readOptions(text *C.char, o any) error {
	if text == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(C.GoString(text))))
	d.DisallowUnknownFields()
	if err := d.Decode(o); err != nil {
		return fault(weir.ErrInput, "weir.h lists the options", "the options: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fault(weir.ErrInput, "", "something follows the options")
	}
	return nil
}

// compile returns the options as weir.Compile takes them.
func (o *options) compile() (weir.Options, error) {
	w := weir.Options{Target: weir.Target(o.Target), Threads: o.Threads, Calls: o.Calls, Budget: o.Budget,
		PageFolder: o.PageFolder, CPU: o.CPU,
		Outputs: o.Outputs, States: o.States, Exact: o.Exact, Tune: o.Tune, Dims: map[string]weir.Range{}}
	if len(o.Outputs) == 0 {
		w.Outputs = nil // all
	}
	for name, l := range o.Layouts {
		layout, err := l.layout(name)
		if err != nil {
			return w, err
		}
		if w.Layouts == nil {
			w.Layouts = map[string]weir.Layout{}
		}
		w.Layouts[name] = layout
	}
	for name, r := range o.Dims {
		w.Dims[name] = weir.Range{Min: r[0], Max: r[1]}
	}
	for _, named := range []struct {
		name string
		to   *weir.DType
	}{{o.Precision, &w.Precision}, {o.Cache, &w.Cache}} {
		if named.name != "" {
			if err := named.to.UnmarshalText([]byte(named.name)); err != nil {
				return w, fault(weir.ErrInput, "", "%v", err)
			}
		}
	}
	return w, nil
}

// goCompile implements weir_compile.
//
//export goCompile
func goCompile(handle C.uint64_t, text *C.char, poll C.weir_poll, out *C.uint64_t) *C.char {
	return edge(func() error {
		m, err := find[*model](handle, "model")
		if err != nil {
			return err
		}
		var asked options
		if err := readOptions(text, &asked); err != nil {
			return err
		}
		o, err := asked.compile()
		if err != nil {
			return err
		}
		if !m.holders.hold() {
			return fault(weir.ErrClosed, "", "the model is closed")
		}
		var p *weir.Program
		err = polled(poll, func(ctx context.Context) (err error) {
			p, err = weir.Compile(ctx, m.Model, o)
			return err
		})
		if err != nil {
			return errors.Join(err, m.drop())
		}
		made := &program{Program: p, model: m, inputs: p.Inputs(), outputs: p.Outputs(),
			slots: make(chan struct{}, max(1, o.Calls))}
		for _, o := range made.outputs {
			made.states = append(made.states, slices.ContainsFunc(made.inputs, func(in weir.Info) bool {
				return in.State == o.Name
			}))
		}
		*out = add(made)
		return nil
	})
}

// port is an input or output in weir_describe's JSON.
type port struct {
	Name    string `json:"name"`
	DType   string `json:"dtype"`
	Shape   []any  `json:"shape"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Initial bool   `json:"initial"`
	Layout  string `json:"layout"`
}

// kindNames are the names of kinds of ports.
var kindNames = map[weir.Kind]string{weir.TensorKind: "tensor", weir.SequenceKind: "sequence",
	weir.OptionalKind: "optional", weir.OptionalSequenceKind: "optional sequence"}

// portsOf converts inputs or outputs for weir_describe.
func portsOf(infos []weir.Info) []port {
	list := []port{}
	for _, i := range infos {
		p := port{Name: i.Name, DType: i.DType.String(), Shape: []any{}, Kind: kindNames[i.Kind], State: i.State,
			Initial: i.Initial, Layout: string(i.Layout)}
		for _, e := range i.Shape {
			if e.Dim != "" {
				p.Shape = append(p.Shape, e.Dim)
			} else {
				p.Shape = append(p.Shape, e.Size)
			}
		}
		list = append(list, p)
	}
	return list
}

// dimension is a dimension in weir_describe's JSON; Max is nil if it has no upper bound. Joined says why its rows are
// not proved to be independent; "" if they are.
type dimension struct {
	Name   string `json:"name"`
	Min    int64  `json:"min"`
	Max    *int64 `json:"max"`
	Joined string `json:"joined"`
}

// dimensionsOf converts dimensions of a program for weir_describe.
func dimensionsOf(p *weir.Program, list []weir.Dimension) []dimension {
	out := []dimension{}
	for _, d := range list {
		told := dimension{Name: d.Name, Min: d.Min}
		if err := p.Rows(d.Name); err != nil {
			told.Joined = err.Error()
		}
		if d.Max != weir.Unbounded {
			told.Max = &d.Max
		}
		out = append(out, told)
	}
	return out
}

// goDescribe implements weir_describe.
//
//export goDescribe
func goDescribe(handle C.uint64_t, text **C.char) *C.char {
	return edge(func() error {
		if m, err := find[*model](handle, "model"); err == nil {
			*text = textOf(map[string]any{"inputs": portsOf(m.Inputs()), "outputs": portsOf(m.Outputs()),
				"metadata": m.Metadata()})
			return nil
		}
		if m, err := find[*embed.Model](handle, "embedder"); err == nil {
			*text = textOf(describe(m))
			return nil
		}
		p, err := find[*program](handle, "model, program or embedder")
		if err != nil {
			return err
		}
		requires := []string{}
		for _, c := range p.Requires() {
			requires = append(requires, c.Condition)
		}
		*text = textOf(map[string]any{"inputs": portsOf(p.inputs), "outputs": portsOf(p.outputs),
			"dims":    dimensionsOf(p.Program, p.Dims()),
			"decided": dimensionsOf(p.Program, p.Decided()), "requires": requires, "target": p.Target(), "cpu": p.CPU(),
			"savings": append([]weir.Saving{}, p.Savings()...)})
		return nil
	})
}

// goMemory implements weir_memory.
//
//export goMemory
func goMemory(handle C.uint64_t, calls C.int32_t, dims *C.char, text **C.char) *C.char {
	return edge(func() error {
		p, err := find[*program](handle, "program")
		if err != nil {
			return err
		}
		if calls < 1 {
			return fault(weir.ErrInput, "", "%d calls; there is at least one", calls)
		}
		m := p.Memory()
		bound, err := dimsOf(dims)
		if err != nil {
			return err
		}
		copies, err := m.Copies()
		if err != nil {
			return err
		}
		told := map[string]any{"copies": copies.String(), "peak_formula": m.Formula(int(calls)).String(),
			"workers": m.Workers, "proven": m.Proven, "report": m.String()}
		for name, size := range map[string]weir.Size{"weights": m.Weights, "code": m.Code, "arena": m.Arena,
			"outputs": m.Outputs, "scratch": m.Scratch, "lower_bound": m.LowerBound} {
			told[name+"_formula"] = size.String()
		}
		if dims != nil {
			peak, err := m.Peak(int(calls), bound)
			if err != nil {
				return err
			}
			told["peak_bytes"] = peak
			if told["copies_bytes"], err = copies.At(bound); err != nil {
				return err
			}
		}
		*text = textOf(told)
		return nil
	})
}

// dimsOf reads the sizes of dimensions from a JSON object; NULL binds none.
func dimsOf(text *C.char) (weir.Dims, error) {
	bound := weir.Dims{}
	if text != nil {
		if err := json.Unmarshal([]byte(C.GoString(text)), &bound); err != nil {
			return nil, fault(weir.ErrInput, "", "the dimensions are no JSON object of whole numbers: %v", err)
		}
	}
	return bound, nil
}

// goPlanPage implements weir_plan_page.
//
//export goPlanPage
func goPlanPage(handle C.uint64_t, title, dims *C.char, html **C.char) *C.char {
	return edge(func() error {
		p, err := find[*program](handle, "program")
		if err != nil {
			return err
		}
		bound, err := dimsOf(dims)
		if err != nil {
			return err
		}
		known := append(p.Dims(), p.Decided()...)
		for name := range bound {
			if !slices.ContainsFunc(known, func(d weir.Dimension) bool { return d.Name == name }) {
				return &weir.Error{Kind: weir.ErrInput, Dim: name, Detail: fmt.Sprintf("the program has no dimension %q", name)}
			}
		}
		d, notes := planpage.FreeDims(p.Program, bound, "")
		plan, err := p.Plan(d)
		if err != nil {
			return err
		}
		name := C.GoString(title)
		var page bytes.Buffer
		if err := planpage.Write(&page, name,
			planpage.Data{Plans: []planpage.Plan{planpage.NewPlan(name, p.Program, plan, notes)}}); err != nil {
			return err
		}
		*html = C.CString(page.String())
		return nil
	})
}

// goOperators implements weir_operators.
//
//export goOperators
func goOperators(text **C.char) *C.char {
	return edge(func() error {
		*text = textOf(torch.Compiled())
		return nil
	})
}

// goSave implements weir_save.
//
//export goSave
func goSave(handle C.uint64_t, path *C.char) *C.char {
	return edge(func() error {
		p, err := find[*program](handle, "program")
		if err != nil {
			return err
		}
		return writeWhole(C.GoString(path), p.Program)
	})
}

// writeWhole writes a file atomically: the path has either all of it or its previous content.
func writeWhole(path string, from io.WriterTo) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = from.WriteTo(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
