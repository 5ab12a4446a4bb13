package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/classify"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// Worker is a loaded model. Its functions may be called on any goroutine.
type Worker interface {
	// Inputs returns the names of the arrays that it reads of an element.
	Inputs() []string
	// Outputs returns the names of the outputs.
	Outputs() []string
	// Width returns the number of elements that should be in progress at once, so that they are joined into runs.
	Width() int
	// Run returns an element's outputs, whose first axis are the element's rows.
	Run(ctx context.Context, e Element) ([]values.Value, error)
}

// Tensors is the worker of a program.
type Tensors struct {
	Program *weir.Program
	Batcher *batch.Batcher // joins elements; nil: each is run alone
	Calls   int            // of the program
}

// Inputs returns the program's inputs, without states that have an initial value.
func (w *Tensors) Inputs() (names []string) {
	for _, i := range w.Program.Inputs() {
		if !i.Initial {
			names = append(names, i.Name)
		}
	}
	return names
}

// Outputs returns the program's outputs.
func (w *Tensors) Outputs() (names []string) {
	for _, o := range w.Program.Outputs() {
		names = append(names, o.Name)
	}
	return names
}

// Width returns twice the rows that fill all calls, so that the next runs can be filled too.
func (w *Tensors) Width() int {
	if w.Batcher != nil {
		return 2 * w.Batcher.MostRows() * w.Calls
	}
	return 2 * w.Calls
}

// reading has an entry for each element whose values are being read: a picture may take much more memory than what is
// read of it.
var reading = make(chan struct{}, runtime.GOMAXPROCS(0))

// Run runs the program.
func (w *Tensors) Run(ctx context.Context, e Element) (out []values.Value, err error) {
	reading <- struct{}{}
	in, err := e.inputs(w.Program.Inputs())
	<-reading
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, a := range in {
			a.(*weir.Tensor).Close()
		}
	}()
	if w.Batcher == nil {
		r, err := w.Program.Run(ctx, in)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for i, info := range w.Program.Outputs() {
			v, err := values.FromResults(r, i, info)
			if err != nil {
				return nil, err
			}
			for k, t := range v.Tensors {
				v.Tensors[k] = t.Clone()
			}
			out = append(out, v)
		}
		return out, nil
	}
	err = w.Batcher.RunWith(ctx, in, func(o weir.Outputs) error {
		for name, t := range o.All() {
			array, err := values.FromWeir(t)
			if err != nil {
				return err
			}
			out = append(out, values.Of(name, array.Clone()))
		}
		return nil
	})
	return out, err
}

// inputs reads the values of a program's inputs.
func (e *Element) inputs(infos []weir.Info) (in weir.Inputs, err error) {
	r := &values.Reader{Dims: weir.Dims{}}
	in = weir.Inputs{}
	defer func() {
		if err != nil {
			for _, a := range in {
				a.(*weir.Tensor).Close()
			}
		}
	}()
	var fields map[string]json.RawMessage
	if e.line != nil {
		if fields, err = object(e.line, infos); err != nil {
			return in, err
		}
	}
	for _, info := range infos {
		if info.Initial {
			continue
		}
		if info.Kind != weir.TensorKind {
			return in, diag.Unsupportedf("an element for the input %s", info).AtTensor(info.Name)
		}
		var t *weir.Tensor
		switch {
		case e.Arrays != nil:
			array := e.Arrays[info.Name]
			if array == nil && len(e.Arrays) == 1 && len(infos) == 1 {
				for _, array = range e.Arrays {
				}
			}
			if array == nil {
				return in, noValue(info)
			}
			t, err = r.RowOf(unfolded(array, info), info)
		case e.line != nil:
			value, ok := fields[info.Name]
			if !ok {
				return in, noValue(info)
			}
			t, err = r.Row(string(value), info)
		case e.text != nil:
			return in, diag.Inputf("a line of text for %s", info).WithFix("lines of .jsonl are tensors")
		default:
			t, err = r.RowFile(e.path, e.query, info)
		}
		if err != nil {
			return in, err
		}
		in[info.Name] = t
	}
	return in, nil
}

// unfolded gives a row that is a flat list the shape of the input's row, if the row has several axes of known extents
// and as many elements.
func unfolded(array *tensor.Tensor, info weir.Info) *tensor.Tensor {
	if array.Rank() != 2 || len(info.Shape) < 3 {
		return array
	}
	shape := []int64{array.Shape()[0]}
	for _, e := range info.Shape[1:] {
		if e.Dim != "" {
			return array
		}
		shape = append(shape, e.Size)
	}
	if row, err := array.Reshape(shape...); err == nil {
		return row
	}
	return array
}

// noValue is the error for an input without a value.
func noValue(info weir.Info) error {
	return diag.Inputf("input %s has no value", info).AtTensor(info.Name)
}

// object returns the fields of a line of JSON: an object, or the value of the only input.
func object(line []byte, infos []weir.Info) (fields map[string]json.RawMessage, err error) {
	if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("{")) && len(infos) == 1 {
		if !json.Valid(line) {
			return nil, diag.Inputf("it is not JSON")
		}
		return map[string]json.RawMessage{infos[0].Name: line}, nil
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, diag.Inputf("it is no JSON object of inputs: %w", err)
	}
	return fields, nil
}

// Texts is the worker of a model that reads texts. One of Embed and Classify is set.
type Texts struct {
	Embed    *embed.Model
	Classify *classify.Model
}

// The names of the outputs of models that read texts.
const (
	Vector   = "vector"   // f32[1, size]
	Label    = "label"    // the best label
	Scores   = "scores"   // f32[1, labels]
	Entities = "entities" // JSON
)

// The names of the arrays of texts.
const (
	first  = "text"
	second = "text_pair"
)

// Inputs returns the names of a text and of a second one.
func (w *Texts) Inputs() []string { return []string{first, second} }

// Outputs returns the names of what the model makes of texts.
func (w *Texts) Outputs() []string {
	switch {
	case w.Embed != nil:
		return []string{Vector}
	case w.Classify.PerToken():
		return []string{Entities}
	}
	return []string{Label, Scores}
}

// Width is a number of texts among which there are many of about the same number of tokens.
func (w *Texts) Width() int { return 1024 }

// Run computes the element's text.
func (w *Texts) Run(ctx context.Context, e Element) ([]values.Value, error) {
	pair, err := e.pair()
	if err != nil {
		return nil, err
	}
	switch {
	case w.Embed != nil:
		if pair.Second != "" {
			return nil, diag.Inputf("two texts for a model of vectors of single ones")
		}
		list, err := w.Embed.Embed(ctx, []string{pair.Text})
		if err != nil {
			return nil, err
		}
		return []values.Value{row(Vector, list[0])}, nil
	case w.Classify.PerToken():
		list, err := w.Classify.Tag(ctx, []string{pair.Text}, classify.Tagging{Aggregation: classify.Simple})
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(list[0])
		if err != nil {
			return nil, err
		}
		return []values.Value{word(Entities, string(text))}, nil
	}
	list, err := w.Classify.ClassifyPairs(ctx, []classify.Pair{pair}, classify.Scoring{})
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(list[0]))
	for i, name := range w.Classify.Labels() {
		for _, label := range list[0] {
			if label.Name == name {
				scores[i] = label.Score
			}
		}
	}
	return []values.Value{word(Label, list[0][0].Name), row(Scores, scores)}, nil
}

// row returns a value of one row.
func row(name string, elements []float32) values.Value {
	return values.Of(name, tensor.Must(tensor.FromSlice(elements, 1, int64(len(elements)))))
}

// word returns a value of one string.
func word(name, text string) values.Value {
	return values.Of(name, tensor.Must(tensor.OverStrings([]int64{1}, []string{text})))
}

// pair returns the element's text, or two: a line of text, a string of JSON, or an object or a row with text and
// perhaps text_pair.
func (e *Element) pair() (p classify.Pair, err error) {
	switch {
	case e.text != nil:
		return classify.Pair{Text: *e.text}, nil
	case e.Arrays != nil:
		return e.texts()
	case e.line == nil:
		data, err := mem.ReadFile(e.path)
		return classify.Pair{Text: string(data)}, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(e.line), []byte("{")) {
		var fields struct {
			Text   *string `json:"text"`
			Second string  `json:"text_pair"`
		}
		if err := json.Unmarshal(e.line, &fields); err != nil {
			return p, diag.Inputf("it is no JSON object of texts: %w", err)
		}
		if fields.Text == nil {
			return p, diag.Inputf("the object has no text").WithFix(`a line is a string, or {"text": …}`)
		}
		return classify.Pair{Text: *fields.Text, Second: fields.Second}, nil
	}
	if err := json.Unmarshal(e.line, &p.Text); err != nil {
		return p, diag.Inputf("it is no JSON string: %w", err).WithFix(`a line is a string, or {"text": …}`)
	}
	return p, nil
}

// texts returns the texts of a row: text and perhaps text_pair, or the only array.
func (e *Element) texts() (p classify.Pair, err error) {
	array := e.Arrays[first]
	if array == nil && len(e.Arrays) == 1 {
		for _, array = range e.Arrays {
		}
	}
	for _, one := range []struct {
		to    *string
		array *tensor.Tensor
	}{{&p.Text, array}, {&p.Second, e.Arrays[second]}} {
		switch {
		case one.array == nil && one.to == &p.Second:
		case one.array == nil || one.array.DType() != dtype.String || one.array.Len() != 1:
			return p, diag.Inputf("the row has no text").WithFix("texts are strings, in an array %s", first)
		default:
			*one.to = one.array.Strings()[0]
		}
	}
	return p, nil
}
