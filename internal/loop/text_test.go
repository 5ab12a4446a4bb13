package loop

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/sym"

	"github.com/weirml/weir/internal/text/goldentest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// commands are the commands of the cases in testdata/*.txt. Each gets the case's arguments and its text.
var commands = map[string]func(args map[string]string, source string) string{
	"kernel": func(_ map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		return k.String()
	},
	"verify": func(args map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		unproved, err := Verify(k, rangesOf(k, args))
		if err != nil {
			return err.Error()
		}
		if unproved == nil {
			return "proved"
		}
		var lines []string
		for _, u := range unproved {
			lines = append(lines, "unproved: "+u.String())
		}
		return strings.Join(lines, "\n")
	},
	"cost": func(args map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		c, dims := CostOf(k), rangesOf(k, args)
		return fmt.Sprintf("operations %s\nread %s\nwritten %s\nfootprint %s\nscratch %s", dims.Simplify(c.Operations),
			dims.Simplify(c.Read),
			dims.Simplify(c.Written), dims.Simplify(c.Footprint), dims.Simplify(Scratch(k)))
	},
	"accesses": func(_ map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		shapes := map[string]*Param{}
		for _, p := range k.Params {
			shapes[p.Name] = p
		}
		var lines []string
		for _, a := range Accesses(k.Body) {
			line := "read"
			if a.Write {
				line = "write"
			}
			line += " %" + a.Buffer + formatIndex(a.Index)
			if p := shapes[a.Buffer]; p != nil {
				line += " at " + p.Offset(a.Index).String()
			}
			for _, l := range a.Loops {
				line += " " + l.Var.String()
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	},
	// substitute n=2*k replaces a dimension by an expression.
	"substitute": func(args map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		values := map[sym.Name]sym.Expr{}
		for name, text := range args {
			e, err := sym.Parse(text)
			if err != nil {
				return err.Error()
			}
			values[symbolOf(name)] = e
		}
		before := k.String()
		c := (&Rewrite{Integer: substitution(values)}).Kernel(k)
		c.Dims = FreeDims(c)
		if Text(c.Body) != Text(Substitute(k.Body, values)) || k.String() != before {
			return "Substitute differs, or changed its argument"
		}
		return c.String()
	},
	// rename a=b changes names of integers.
	"rename": func(args map[string]string, source string) string {
		k, err := ParseKernel(source)
		if err != nil {
			return err.Error()
		}
		names := map[sym.Name]sym.Name{}
		for from, to := range args {
			names[symbolOf(from)] = symbolOf(to)
		}
		c := Renaming(names).Kernel(k)
		c.Dims = FreeDims(c)
		if Text(c.Body) != Text(Rename(k.Body, names)) {
			return "Rename differs"
		}
		return c.String()
	},
	"module": func(_ map[string]string, source string) string {
		m, err := Parse(source, ParseOptions{})
		if err != nil {
			return err.Error()
		}
		return m.String()
	},
	"verifymodule": func(_ map[string]string, source string) string {
		m, err := Parse(source, ParseOptions{})
		if err != nil {
			return err.Error()
		}
		unproved, err := VerifyModule(m)
		if err != nil {
			return err.Error()
		}
		return strings.Join(append([]string{"well formed"}, unproved...), "\n")
	},
}

// symbolOf returns the name that a text writes in this form.
func symbolOf(text string) sym.Name {
	name, _ := sym.ParseName(text)
	return name
}

// rangesOf returns the ranges of a kernel's dimensions from arguments like n=1..8 and m=4..; without one a dimension is
// 0 or more.
func rangesOf(k *Kernel, args map[string]string) *sym.Dims {
	dims := sym.NewDims()
	for _, name := range k.Dims {
		r := sym.Range{Min: 0, Max: sym.NoMax}
		if low, high, ok := strings.Cut(args[name.Text()], ".."); ok {
			r.Min, _ = strconv.ParseInt(low, 10, 64)
			if high != "" {
				r.Max, _ = strconv.ParseInt(high, 10, 64)
			}
		}
		dims.Set(name, r)
	}
	return dims
}

// TestText runs the cases of testdata/*.txt. A case is a line "== command arguments", a text, a line "--", and the
// result.
func TestText(t *testing.T) {
	goldentest.Run(t, *rewrite, func(t *testing.T, head, source string) string {
		words := strings.Fields(head)
		args := map[string]string{}
		for _, w := range words[1:] {
			name, v, _ := strings.Cut(w, "=")
			args[name] = v
		}
		run := commands[words[0]]
		if run == nil {
			t.Fatalf("%s: no such command", head)
		}
		return run(args, source)
	})
}
