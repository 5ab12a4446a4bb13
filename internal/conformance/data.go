package conformance

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/values"
)

// dataSet is the source of a run's arguments and expected results. A missing one is fs.ErrNotExist.
type dataSet interface {
	input(i int, info weir.Info) (values.Value, error)
	output(i int, info weir.Info) (values.Value, error)
	more(inputs int) bool // whether there is an input at index inputs
}

// sets lists the case's data sets: folders test_data_set_*, and older archives test_data_*.npz; at least one.
func (c Case) sets(p *weir.Program) ([]dataSet, error) {
	if c.ramps {
		return []dataSet{rampSet{c.files, strings.TrimSuffix(c.model, path.Ext(c.model))}}, nil
	}
	var sets []dataSet
	names, err := fs.Glob(c.files, path.Join(escaped(c.folder), "test_data_*"))
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	for _, name := range names {
		if path.Ext(name) == ".npz" {
			set, err := openArrays(c.files, name)
			if err != nil {
				return nil, err
			}
			sets = append(sets, set)
		} else if strings.HasPrefix(path.Base(name), "test_data_set") {
			sets = append(sets, fileSet{c.files, name})
		}
	}
	if len(sets) == 0 {
		return nil, diag.Inputf("it has no test data")
	}
	return sets, nil
}

// escaped returns a pattern that matches the path name alone.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`).Replace(name)
}

// fileSet is a data set of files: input_0.pb, and if there is no such file input_0.npy or, with one array, input_0.npz.
type fileSet struct {
	files fs.FS
	name  string
}

func (s fileSet) input(i int, info weir.Info) (values.Value, error) {
	return s.read("input", i, info)
}
func (s fileSet) output(i int, info weir.Info) (values.Value, error) {
	return s.read("output", i, info)
}

// more reports whether the folder has a file for input number inputs.
func (s fileSet) more(inputs int) bool {
	_, err := s.find("input", inputs)
	return err == nil
}

// find returns the file of input or output i.
func (s fileSet) find(kind string, i int) (string, error) {
	for _, ext := range []string{".pb", ".npy", ".npz"} {
		name := path.Join(s.name, fmt.Sprintf("%s_%d%s", kind, i, ext))
		if _, err := fs.Stat(s.files, name); err == nil {
			return name, nil
		}
	}
	return "", missing(fmt.Sprintf("%s_%d.pb", kind, i))
}

// missing returns the error of data that a case does not have.
func missing(name string) error {
	return diag.Inputf("the data have no %s", name).WithCause(fs.ErrNotExist)
}

// read returns input or output i, of the type that info says.
func (s fileSet) read(kind string, i int, info weir.Info) (values.Value, error) {
	name, err := s.find(kind, i)
	if err != nil {
		return values.Value{}, err
	}
	if path.Ext(name) == ".pb" {
		return read(s.files, name, info)
	}
	t, err := s.array(name)
	return values.Of(info.Name, t), err
}

// array returns the only array of a .npy or .npz file.
func (s fileSet) array(name string) (*tensor.Tensor, error) {
	if path.Ext(name) == ".npz" {
		a, err := openArrays(s.files, name)
		if err != nil {
			return nil, err
		}
		if names := a.Names(); len(names) == 1 {
			return a.Read(names[0])
		}
		return nil, diag.Inputf("%s holds %d arrays, not one", path.Base(name), len(a.Names()))
	}
	f, err := s.files.Open(name)
	if err != nil {
		return nil, diag.Inputf("%v", err).WithCause(err)
	}
	defer f.Close()
	return npy.Read(f)
}

// arraySet is a data set in one .npz. Its arrays are named input_0 and output_0, or as the model names them.
type arraySet struct{ *npy.Archive }

// openArrays opens an .npz file.
func openArrays(files fs.FS, name string) (arraySet, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return arraySet{}, diag.Inputf("%v", err).WithCause(err)
	}
	a, err := npy.Open(bytes.NewReader(data), int64(len(data)))
	return arraySet{a}, err
}

func (s arraySet) input(i int, info weir.Info) (values.Value, error) {
	return s.read("input", i, info)
}
func (s arraySet) output(i int, info weir.Info) (values.Value, error) {
	return s.read("output", i, info)
}

// more reports whether the archive has an array for input number inputs.
func (s arraySet) more(inputs int) bool {
	for _, name := range s.Names() {
		if name == fmt.Sprintf("input_%d", inputs) {
			return true
		}
	}
	return false
}

// read returns input or output i, by either name.
func (s arraySet) read(kind string, i int, info weir.Info) (values.Value, error) {
	for _, want := range []string{fmt.Sprintf("%s_%d", kind, i), info.Name} {
		for _, name := range s.Names() {
			if name == want {
				t, err := s.Read(name)
				return values.Of(info.Name, t), err
			}
		}
	}
	return values.Value{}, missing(fmt.Sprintf("array %s_%d or %s", kind, i, info.Name))
}

// rampSet is the data of ONNX's complete networks: each input is a ramp from 0 to 1, and the outputs lie beside the
// model, as MODEL_output_0.pb.
type rampSet struct {
	files fs.FS
	model string // without its extension
}

func (s rampSet) more(int) bool { return false }

func (s rampSet) output(i int, info weir.Info) (values.Value, error) {
	return read(s.files, fmt.Sprintf("%s_output_%d.pb", s.model, i), info)
}

// input returns a ramp: each element is its index divided by the number of elements, as ONNX's own runner fills it. A
// free dimension is 1.
func (s rampSet) input(_ int, info weir.Info) (values.Value, error) {
	shape := make([]int64, len(info.Shape))
	for axis, e := range info.Shape {
		if shape[axis] = e.Size; e.Dim != "" {
			shape[axis] = 1
		}
	}
	if info.DType != weir.F32 || info.Kind != weir.TensorKind {
		return values.Value{}, diag.Unsupportedf("computed data for an input of type %s", info.DType).AtTensor(info.Name)
	}
	t, err := tensor.New(info.DType, shape...)
	if err != nil {
		return values.Value{}, err
	}
	for i := range t.Len() {
		t.SetFloat(i, float64(i)/math.Max(float64(t.Len()), 1))
	}
	return values.Of(info.Name, t), nil
}

// read returns the value of an input or output from a .pb file.
func read(files fs.FS, name string, info weir.Info) (values.Value, error) {
	f, err := files.Open(name)
	if err != nil {
		return values.Value{}, diag.Inputf("%v", err).WithCause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return values.Value{}, diag.Inputf("%v", err).WithCause(err)
	}
	return values.Parse(data, info)
}
