package command

import (
	"fmt"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// layoutsOf parses the flags --layout.
func layoutsOf(flags []string) (map[string]weir.Layout, error) {
	var layouts map[string]weir.Layout
	for _, l := range flags {
		in, axes, ok := strings.Cut(l, "=")
		if _, twice := layouts[in]; !ok || twice {
			return nil, usageError{fmt.Errorf("--layout %s: write INPUT=AXES, once for each input", l)}
		}
		if layouts == nil {
			layouts = map[string]weir.Layout{}
		}
		layouts[in] = weir.Layout(axes)
	}
	return layouts, nil
}

// laidRow is an input with a layout by --layout; if Copied is true, a run copies it into the arena.
type laidRow struct {
	Input  string `json:"input"`
	Layout string `json:"layout"`
	Copied bool   `json:"copied"`
	Bytes  *int64 `json:"bytes"`
}

// lay fills in the inputs' layouts, and the bytes of arguments' copies.
func (p *planned) lay(program *weir.Program, at func(weir.Size) *int64) {
	for _, d := range program.Laid() {
		p.Layouts = append(p.Layouts, laidRow{d.Input, string(d.Layout), d.Copied, at(d.Bytes)})
	}
	if copies, err := program.Memory().Copies(); err == nil {
		p.Copies = at(copies)
	}
}

// printCopies prints the fields of lay.
func (p *planned) printCopies(m *weir.Memory) {
	for _, l := range p.Layouts {
		how := "read where it lies"
		if l.Copied {
			how = "copied into row-major order, in the arena"
		}
		stdout.Printf("%-14s %s lies as %s, %s\n", "layout", l.Input, l.Layout, how)
	}
	copies, err := m.Copies()
	if err != nil || copies.String() == "0" {
		return
	}
	bytes := copies.String()
	if p.Copies != nil {
		bytes = fmt.Sprintf("%d (%s)", *p.Copies, values.FormatBytes(*p.Copies))
	}
	stdout.Printf("%-14s at most %s besides for a call, while it runs: arguments that do not lie as declared\n", "copies",
		bytes)
}
