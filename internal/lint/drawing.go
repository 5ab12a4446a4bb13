package lint

import (
	"fmt"
	"slices"
	"strings"
)

// The lines in ARCHITECTURE.md that enclose the drawing.
const (
	drawingBegins = "<!-- generated from internal/lint/floors.go: go test ./internal/lint -rewrite -->"
	drawingEnds   = "<!-- end of the generated part -->"
)

// Draw returns the rules as a drawing: the rooms from the top floor down, their purposes, and the rooms that each may
// import.
func Draw() string {
	var b strings.Builder
	order := slices.Clone(rooms)
	slices.SortStableFunc(order, func(x, y Room) int { return y.Floor - x.Floor })
	widest := 0
	for _, r := range order {
		widest = max(widest, len([]rune(r.Name)))
	}
	b.WriteString("A room imports only the rooms after its arrow, and those of floor 0.\n\n```\n")
	rule := func(left, middle string) {
		fmt.Fprintf(&b, "%s%s%s\n", left, strings.Repeat("─", 5), middle+strings.Repeat("─", widest+64))
	}
	rule("┌", "┬")
	floor := order[0].Floor
	for i, r := range order {
		label := ""
		if i == 0 || r.Floor != floor {
			label = fmt.Sprint(r.Floor)
		}
		if i > 0 && r.Floor != floor {
			rule("├", "┼")
		}
		floor = r.Floor
		lines := wrap(arrows(r), 58)
		fmt.Fprintf(&b, "│ %3s │ %-*s %s\n", label, widest, r.Name, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "│     │ %-*s    %s\n", widest, "", line)
		}
	}
	rule("└", "┴")
	b.WriteString("```\n\n| room | for |\n|---|---|\n")
	for _, r := range order {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, r.Purpose)
	}
	return b.String()
}

// arrows returns the rooms that a room may import.
func arrows(r Room) string {
	var to []string
	for _, entry := range r.May {
		if entry == below {
			entry = "everything below"
		}
		to = append(to, entry)
	}
	text := "─▶ " + strings.Join(to, ", ")
	if len(to) == 0 {
		text = "   floor 0 only"
		if r.Floor == 0 {
			text = "   the standard library only"
		}
	}
	if len(r.Modules) > 0 {
		text += " + " + strings.Join(r.Modules, ", ")
	}
	return text
}

// wrap breaks a string at spaces into lines of at most so many runes.
func wrap(text string, width int) []string {
	var lines []string
	for len([]rune(text)) > width {
		cut := strings.LastIndex(string([]rune(text)[:width]), " ")
		if cut <= 0 {
			break
		}
		lines = append(lines, text[:cut])
		text = text[cut+1:]
	}
	return append(lines, text)
}
