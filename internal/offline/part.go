package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/values"
)

// manifest is what a folder of results says about them: results of other inputs do not belong there.
type manifest struct {
	Model   string   `json:"model"`  // its digest
	Inputs  string   `json:"inputs"` // theirs
	Outputs []string `json:"outputs"`
	Format  string   `json:"format"`
	Part    int64    `json:"elements_per_part"`
	Options string   `json:"options"` // that change results
}

// manifestFile is the name of a manifest in a folder of results.
const manifestFile = "manifest.json"

// agree writes the manifest into a folder of results, or compares it with the one that is there.
func (m *manifest) agree(folder string) error {
	name := filepath.Join(folder, manifestFile)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	there, err := mem.ReadFile(name)
	if err != nil {
		if _, absent := os.Stat(name); !errors.Is(absent, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return diag.Inputf("%v", err).AtFile(folder).WithCause(err)
		}
		return replace(name, func(w io.Writer) error {
			_, err := w.Write(append(text, '\n'))
			return err
		})
	}
	var other manifest
	if err := json.Unmarshal(there, &other); err != nil {
		return diag.Inputf("it is no manifest: %w", err).AtFile(name)
	}
	what := ""
	switch {
	case other.Model != m.Model:
		what = "another model"
	case other.Inputs != m.Inputs:
		what = "other inputs"
	case !slices.Equal(other.Outputs, m.Outputs):
		what = fmt.Sprintf("the outputs %q, not %q", other.Outputs, m.Outputs)
	case other.Format != m.Format || other.Part != m.Part:
		what = fmt.Sprintf("parts of %d elements in the format %s, not of %d in %s", other.Part, other.Format, m.Part,
			m.Format)
	case other.Options != m.Options:
		what = fmt.Sprintf("the options %q, not %q", other.Options, m.Options)
	default:
		return nil
	}
	return diag.Inputf("the folder has results of %s", what).AtFile(name).WithFix("write into another folder")
}

// replace writes a file that is complete or absent, also after the machine has stopped.
func replace(name string, write func(w io.Writer) error) error {
	if err := mem.Replace(name, true, write); err != nil {
		return diag.As(err, diag.ErrInput).AtFile(name)
	}
	return nil
}

// part is the results of elements in a row.
type part struct {
	number  int64
	results []result
	failed  []result
}

// result is what became of an element.
type result struct {
	index  int64
	name   string
	values []values.Value
	err    error
}

// name returns the name of a part's file in a folder.
func (j *Job) name(number int64) string {
	return filepath.Join(j.Output, fmt.Sprintf("part-%06d.%s", number, j.Format))
}

// errors returns the name of the file with the errors of a part.
func (j *Job) errors(number int64) string {
	return filepath.Join(j.Output, fmt.Sprintf("part-%06d.errors.jsonl", number))
}

// write writes a part. Its errors are written first: a part that is there is complete.
func (j *Job) write(p *part) error {
	name := j.name(p.number)
	errs := j.errors(p.number)
	if len(p.failed) > 0 {
		err := replace(errs, func(w io.Writer) error {
			to := json.NewEncoder(w)
			for _, r := range p.failed {
				line := struct {
					Element int64  `json:"element"`
					Name    string `json:"name,omitempty"`
					Error   error  `json:"error"`
				}{r.index, r.name, diag.As(r.err, diag.ErrInternal)}
				if err := to.Encode(line); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	} else if err := os.Remove(errs); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try that was ended
		return diag.Inputf("%v", err).AtFile(errs).WithCause(err)
	}
	if j.Format == "jsonl" {
		return replace(name, func(w io.Writer) error { return writeLines(w, p.results) })
	}
	names, list, err := joined(p.results, j.Work.Outputs())
	if err != nil {
		return diag.As(err, diag.ErrInput).AtFile(name)
	}
	return replace(name, func(w io.Writer) error { return npy.WriteArchive(w, names, list) })
}

// writeLines writes results as lines of JSON.
func writeLines(w io.Writer, list []result) error {
	to := json.NewEncoder(w)
	for _, r := range list {
		line := struct {
			Element int64          `json:"element"`
			Name    string         `json:"name,omitempty"`
			Outputs map[string]any `json:"outputs"`
		}{r.index, r.name, map[string]any{}}
		for _, v := range r.values {
			line.Outputs[v.Name] = nested(v)
		}
		if err := to.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// nested returns a value as JSON: lists of numbers, of which NaN and infinities are strings.
func nested(v values.Value) any {
	if v.Absent {
		return nil
	}
	list := make([]any, len(v.Tensors))
	for i, t := range v.Tensors {
		elements := values.Summarise(t).WithValues(t).Values
		list[i] = nest(elements, t.Shape())
	}
	if v.Sequence {
		return list
	}
	return list[0]
}

// nest returns elements as lists of a shape.
func nest(elements []json.RawMessage, shape []int64) any {
	if len(shape) == 0 {
		return elements[0]
	}
	list := make([]any, shape[0])
	each := int64(len(elements)) / max(1, shape[0])
	for i := range list {
		list[i] = nest(elements[int64(i)*each:int64(i+1)*each], shape[1:])
	}
	return list
}

// joined returns the arrays of results: each output's rows, and for each row its element and the element's name.
func joined(list []result, outputs []string) (names []string, arrays []*tensor.Tensor, err error) {
	rows := make([][]*tensor.Tensor, len(outputs))
	var elements []int64
	var files []string
	for _, r := range list {
		n := int64(-1)
		for i, v := range r.values {
			if v.Sequence || v.Optional || v.Tensors[0].Rank() == 0 {
				return nil, nil, diag.Inputf("an output that has no rows").AtTensor(v.Name).WithFix("write --format jsonl")
			}
			t := v.Tensors[0]
			if n >= 0 && t.Shape()[0] != n {
				return nil, nil, diag.Inputf("an output of %d rows beside one of %d", t.Shape()[0], n).AtTensor(v.Name).
					WithFix("write --format jsonl")
			}
			n = t.Shape()[0]
			rows[i] = append(rows[i], t)
		}
		for range n {
			elements, files = append(elements, r.index), append(files, r.name)
		}
	}
	for i, name := range outputs {
		t, err := stacked(rows[i])
		if err != nil {
			return nil, nil, diag.As(err, diag.ErrInput).AtTensor(name)
		}
		if t != nil {
			names, arrays = append(names, name), append(arrays, t)
		}
	}
	add := func(name string, t *tensor.Tensor) {
		for slices.Contains(names, name) { // an output's
			name = "_" + name
		}
		names, arrays = append(names, name), append(arrays, t)
	}
	add("element", tensor.Of(elements...))
	if len(files) > 0 && files[0] != "" {
		add("name", tensor.Must(tensor.OverStrings([]int64{int64(len(files))}, files)))
	}
	return names, arrays, nil
}

// stacked joins arrays along their first axis; nil if there are none.
func stacked(list []*tensor.Tensor) (*tensor.Tensor, error) {
	if len(list) == 0 {
		return nil, nil
	}
	shape := slices.Clone(list[0].Shape())
	shape[0] = 0
	var text []string
	var data []byte
	for _, t := range list {
		if !slices.Equal(t.Shape()[1:], shape[1:]) {
			return nil, diag.Inputf("rows of the shapes %s and %s", tensor.ShapeString(shape[1:]),
				tensor.ShapeString(t.Shape()[1:])).WithFix("write --format jsonl")
		}
		shape[0] += t.Shape()[0]
		text, data = append(text, t.Strings()...), append(data, t.Bytes()...)
	}
	if text != nil {
		return tensor.OverStrings(shape, text)
	}
	out, err := tensor.New(list[0].DType(), shape...)
	if err != nil {
		return nil, err
	}
	copy(out.Bytes(), data)
	return out, nil
}
