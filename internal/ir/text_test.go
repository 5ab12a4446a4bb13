package ir

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// toy is an operator of these tests.
type toy struct {
	name  string
	infer func(c *Inference, n *Node) error
	eval  func(e *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

func (o *toy) Name() string                      { return o.name }
func (o *toy) Infer(c *Inference, n *Node) error { return o.infer(c, n) }
func (o *toy) Eval(e *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.eval(e, n, in)
}

// init registers the operators that only these tests use.
func init() {
	Register(&toy{"copy", func(_ *Inference, n *Node) error {
		n.Result(0, n.Inputs[0].Type).Known = n.Inputs[0].Known
		return nil
	}, func(_ *Evaluation, _ *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in[:1], nil }})
	Register(&toy{"sum", func(c *Inference, n *Node) error { // adds its inputs, and skips nil inputs
		n.Result(0, n.Inputs[0].Type)
		for _, v := range n.Inputs[1:] {
			if v == nil {
				continue
			}
			for axis, e := range v.Type.Shape {
				if err := c.RequireEqual(n, e, n.Inputs[0].Type.Shape[axis], "equal extents"); err != nil {
					return err
				}
			}
		}
		return nil
	}, func(_ *Evaluation, _ *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out := in[0].Clone()
		for _, t := range in[1:] {
			for i := int64(0); t != nil && i < t.Len(); i++ {
				out.SetFloat(i, out.Float(i)+t.Float(i))
			}
		}
		return []*tensor.Tensor{out}, nil
	}})
	Register(&toy{"when", func(_ *Inference, n *Node) error { // runs region 0 if the input is true, region 1 otherwise
		if len(n.Regions) != 2 {
			return diag.Inputf("%d regions", len(n.Regions))
		}
		for i, v := range n.Regions[0].Results {
			n.Result(i, v.Type)
		}
		return nil
	}, func(e *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return e.Run(n.Regions[1-in[0].Int(0)], nil)
	}})
	// some returns the first n elements of the second input; the first input is n.
	Register(&toy{"some", func(c *Inference, n *Node) error {
		known, err := c.ElementsWithin(n.Inputs[0], "some", 0, n.Inputs[1].Type.Shape[0])
		if err != nil {
			return err
		}
		n.Result(0, Type{DType: n.Inputs[1].Type.DType, Shape: known})
		return nil
	}, func(_ *Evaluation, _ *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := in[1].Rows(0, in[0].Int(0))
		return []*tensor.Tensor{out}, err
	}})
	Register(&toy{"drop", func(*Inference, *Node) error { return nil },
		func(*Evaluation, *Node, []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil }})
}

// zeros returns a tensor of zeros, as the contents of a constant that the text does not contain.
func zeros(_ string, dt dtype.DType, shape []int64, _ int64) (*tensor.Tensor, error) {
	return tensor.New(dt, shape...)
}

// commands are the commands of the cases in testdata/*.txt.
var commands = map[string]func(source string) string{
	"parse": func(source string) string {
		m, err := Parse(source, ParseOptions{})
		if err != nil {
			return err.Error()
		}
		return m.String()
	},
	"verify": func(source string) string {
		m, err := Parse(source, ParseOptions{})
		if err == nil {
			err = Verify(m)
		}
		if err != nil {
			return err.Error()
		}
		return "well formed"
	},
}

// TestText runs the cases of testdata/*.txt. A case is a line "== command", a text, a line "--", and the result.
func TestText(t *testing.T) {
	goldentest.Run(t, *rewrite, func(t *testing.T, head, source string) string {
		run := commands[strings.Fields(head)[0]]
		if run == nil {
			t.Fatalf("%s: no such command", head)
		}
		return run(source)
	})
}

// sources returns the texts of testdata's cases.
func sources(t testing.TB) []string {
	files, _ := filepath.Glob("testdata/*.txt")
	var list []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range strings.Split(string(data), "== ")[1:] {
			_, body, _ := strings.Cut(one, "\n")
			source, _, _ := strings.Cut(body, "\n--\n")
			list = append(list, source)
		}
	}
	return list
}

// FuzzParse: no text makes the parser or the verifier panic, and a parsed module prints as a text that parses to the
// same.
func FuzzParse(f *testing.F) {
	for _, s := range sources(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		m, err := Parse(source, ParseOptions{})
		if err != nil {
			return
		}
		printed := m.String()
		again, err := Parse(printed, ParseOptions{})
		if err != nil {
			t.Fatalf("%v\nin\n%s\nprinted for\n%s", err, printed, source)
		}
		if s := again.String(); s != printed {
			t.Fatalf("%s\nprints as\n%s\nthen as\n%s", source, printed, s)
		}
		if (Verify(m) == nil) != (Verify(again) == nil) {
			t.Fatalf("%v, then %v\n%s", Verify(m), Verify(again), printed)
		}
	})
}

// TestNames: all builders of a module together give every value a unique name.
func TestNames(t *testing.T) {
	body := &Block{}
	m := &Module{Name: "m", Main: &Func{Name: "main", Body: body}}
	m.Funcs = []*Func{m.Main}
	one := tensor.Scalar(float32(1))
	first := NewBuilder(NewInference(m), body)
	first.Constant("x", one)
	first.Constant("x", one)
	second := NewBuilder(NewInference(m), body)
	a := second.Constant("x", one)
	b := second.In(body).Op("copy", nil, a)
	body.Results = []*Value{b, second.Op("copy", nil, b)}
	if err := Verify(m); err != nil {
		t.Fatalf("%v\n%s", err, m)
	}
	names := ""
	body.walk(func(v *Value) { names += v.Name + " " })
	if names != "x x.1 x.2 copy copy.1 " {
		t.Error(names)
	}
}

// TestKnownOfConstants: parsed constants of i64 and i32 have known elements, also if the text does not contain them;
// constants of u64 have none.
func TestKnownOfConstants(t *testing.T) {
	source := "weir 1\nir @m { main @f() {\n const %a: i64[2] = [3, -4]\n const %b: i32[20] data 80\n const %c: u64[1] " +
		"= [1]\n return %a, %b, %c } }"
	m, err := Parse(source, ParseOptions{Data: zeros})
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(m); err != nil {
		t.Fatal(err)
	}
	a, b, c := m.Main.Body.Consts[0], m.Main.Body.Consts[1], m.Main.Body.Consts[2]
	if len(a.Known) != 2 || !a.Known[1].Equal(sym.Const(-4)) || len(b.Known) != 20 || c.Known != nil {
		t.Errorf("%v %v %v", a.Known, b.Known, c.Known)
	}
	if _, err := Evaluate(m, nil, nil); err != nil {
		t.Error(err)
	}
}
