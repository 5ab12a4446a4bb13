package torch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// guardSize matches an input's extent in guards: L['d']['a'][0].size()[1] is an extent of the input d_a_0.
var guardSize = regexp.MustCompile(`L((?:\[(?:'\w+'|\d+)\])+)\.size\(\)\[(\d+)\]`)

// guardRelation matches a comparison operator of guards.
var guardRelation = regexp.MustCompile(`==|!=|<=|>=|<|>`)

// guards adds torch.export's assumptions about the inputs' sizes as conditions, because for other sizes the exported
// model could be another. A guard that cannot be parsed refuses the file.
func (g *graph) guards() error {
	for _, text := range g.program.Guards {
		cond, err := g.guard(text)
		if err == nil {
			err = g.RequireOf("", "guard", 0, cond, text)
		}
		if err != nil {
			return diag.As(err, diag.ErrUnsupported)
		}
	}
	return nil
}

// guard parses a comparison of two expressions over the inputs' extents.
func (g *graph) guard(text string) (c sym.Cond, err error) {
	refused := diag.Unsupportedf("the guard %q; comparisons of inputs' extents are read", text)
	sizes := map[string]sym.Expr{}
	named := guardSize.ReplaceAllStringFunc(text, func(size string) string {
		match := guardSize.FindStringSubmatch(size)
		path := strings.NewReplacer("][", "_", "[", "", "]", "", "'", "").Replace(match[1])
		axis, wrong := strconv.Atoi(match[2])
		v := g.values[path]
		if wrong != nil || v == nil || axis >= len(v.Type.Shape) {
			err = refused
			return "0"
		}
		word := fmt.Sprint("size", len(sizes))
		sizes[word] = v.Type.Shape[axis]
		return word
	})
	relations := guardRelation.FindAllStringIndex(named, -1)
	if err != nil || len(relations) != 1 {
		return c, refused
	}
	symbol := func(word string) (sym.Expr, error) {
		if e, ok := sizes[word]; ok {
			return e, nil
		}
		return sym.Expr{}, refused
	}
	at := relations[0]
	if c.A, err = expression(strings.TrimSpace(named[:at[0]]), symbol); err != nil {
		return c, err
	}
	if c.B, err = expression(strings.TrimSpace(named[at[1]:]), symbol); err != nil {
		return c, err
	}
	switch named[at[0]:at[1]] {
	case "==":
		c.Rel = sym.EQ
	case "!=":
		c.Rel = sym.NE
	case "<":
		c.Rel = sym.LT
	case ">":
		c.A, c.B, c.Rel = c.B, c.A, sym.LT
	case ">=":
		c.A, c.B = c.B, c.A
	}
	return c, nil
}
