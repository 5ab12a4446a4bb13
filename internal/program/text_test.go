package program

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// commands are the commands of the cases in testdata/*.txt.
var commands = map[string]func(source string) string{
	"parse": func(source string) string {
		p, err := Parse(source, ParseOptions{Data: make([]byte, 4096)})
		if err != nil {
			return err.Error()
		}
		return p.String()
	},
	"verify": func(source string) string {
		p, err := Parse(source, ParseOptions{})
		if err != nil {
			return err.Error()
		}
		conditions, err := p.Check()
		if err != nil {
			return err.Error()
		}
		var lines []string
		for _, c := range conditions {
			lines = append(lines, fmt.Sprintf("%v %s: %s", map[bool]string{true: "proved ", false: "checked"}[c.Proved], c.From,
				c.Cond))
		}
		lines = append(lines, "well formed")
		if err := p.Verify(); err != nil {
			lines = append(lines, "but "+err.Error())
		}
		return strings.Join(lines, "\n")
	},
	// run gives every input of type f32 the numbers 1, 2, …, and others zeros; extents that are not fixed are 3.
	"run": func(source string) string {
		p, err := Parse(source, ParseOptions{})
		if err == nil {
			err = p.Verify()
		}
		if err != nil {
			return "verify: " + err.Error()
		}
		return interpreted(p)
	},
	// dare runs a program that the verifier refuses.
	"dare": func(source string) string {
		p, err := Parse(source, ParseOptions{})
		if err != nil {
			return err.Error()
		}
		if p.Verify() == nil {
			return "well formed"
		}
		return interpreted(p)
	},
}

// interpreted returns a program's results, or its error, for the inputs of "run".
func interpreted(p *Program) string {
	var err error
	var in []*tensor.Tensor
	for _, port := range p.Inputs {
		at := &p.Tensors[port.Tensor]
		shape := make([]int64, len(at.Shape))
		for i, e := range at.Shape {
			if shape[i], err = e.Eval(func(sym.Name) (int64, bool) { return 3, true }); err != nil {
				return err.Error()
			}
		}
		x := tensor.Must(tensor.New(at.DType, shape...))
		for i := int64(0); i < x.Len() && at.DType == dtype.F32; i++ {
			x.SetFloat(i, float64(i+1))
		}
		in = append(in, x)
	}
	out, err := testInterpreter.Run(p, in)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(out)
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

// FuzzParse: no text makes the parser, the verifier or the interpreter panic, and a program that parses prints as a
// text that parses to the same program.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, one := range strings.Split(string(data), "== ")[1:] {
			_, body, _ := strings.Cut(one, "\n")
			source, _, _ := strings.Cut(body, "\n--\n")
			f.Add(source)
		}
	}
	files, _ = filepath.Glob("testdata/proofs/*.weir")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Parse(source, ParseOptions{})
		if err != nil {
			return
		}
		printed := p.String()
		again, err := Parse(printed, ParseOptions{})
		if err != nil {
			t.Fatalf("%v\nin\n%s\nprinted for\n%s", err, printed, source)
		}
		if s := again.String(); s != printed {
			t.Fatalf("%s\nprints as\n%s\nthen as\n%s", source, printed, s)
		}
		if (p.Verify() == nil) != (again.Verify() == nil) {
			t.Fatalf("%v, then %v\n%s", p.Verify(), again.Verify(), printed)
		}
	})
}

// TestData: a program whose weights are in a data section is parsed from its text and that section to an equal program.
// A section that is too short, and weights without contents, are errors.
func TestData(t *testing.T) {
	source := "weir 1 program @p { plan { } tensor %a: u8[100] constant tensor %b: f32[20] constant tensor %c: f32[2] " +
		"constant\n" +
		"weight \"a\" %a data 100 at 0 weight \"b\" %b data 80 at 128 weight \"c\" %c = [1, 2] body { } }"
	section := make([]byte, 208)
	for i := range section {
		section[i] = byte(i)
	}
	p, err := Parse(source, ParseOptions{Data: section})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	pieces, size := p.Data()
	if size != 208 || len(pieces) != 2 || pieces[1].Offset != 128 || pieces[1].Data[0] != 128 {
		t.Fatalf("%d bytes, %v", size, pieces)
	}
	again := make([]byte, size)
	for _, piece := range pieces {
		copy(again[piece.Offset:], piece.Data)
	}
	q, err := Parse(p.String(), ParseOptions{Data: again})
	if err != nil || !Equal(p, q) {
		t.Fatalf("%v\n%s\n%s", err, p, q)
	}
	if _, err := Parse(source, ParseOptions{Data: section[:207]}); err == nil {
		t.Error("a data section that is too short")
	}
	if q, err = Parse(source, ParseOptions{}); err != nil || q.Verify() == nil {
		t.Errorf("weights without contents: %v", err)
	}
}
