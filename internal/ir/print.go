package ir

import (
	"fmt"
	"sort"
	"strings"
)

// String is the type as the text has it: f32[n, 3].
func (t Type) String() string {
	axes := make([]string, len(t.Shape))
	for i, e := range t.Shape {
		axes[i] = e.String()
	}
	return fmt.Sprintf("%s[%s]", t.DType, strings.Join(axes, ", "))
}

// String is the module as text.
func (m *Module) String() string {
	var b strings.Builder
	for _, f := range m.Funcs {
		fmt.Fprintf(&b, "func @%s ", f.Name)
		printBlock(&b, f.Body, "")
		b.WriteByte('\n')
	}
	return b.String()
}

func printBlock(b *strings.Builder, block *Block, indent string) {
	b.WriteString("(")
	for i, p := range block.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%%%s: %s", p.Name, p.Type)
	}
	b.WriteString(") {\n")
	for _, c := range block.Consts {
		fmt.Fprintf(b, "%s  %%%s = const %s\n", indent, c.Name, c.Type)
	}
	for _, n := range block.Nodes {
		names := make([]string, len(n.Outputs))
		for i, v := range n.Outputs {
			names[i] = "%" + v.Name
		}
		fmt.Fprintf(b, "%s  %s = %s(", indent, strings.Join(names, ", "), n.Op.Name())
		for i, v := range n.Inputs {
			if i > 0 {
				b.WriteString(", ")
			}
			if v == nil {
				b.WriteString("_")
			} else {
				b.WriteString("%" + v.Name)
			}
		}
		b.WriteString(")")
		keys := make([]string, 0, len(n.Attrs))
		for k := range n.Attrs {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Fprintf(b, " %s=%v", k, n.Attrs[k])
		}
		for _, r := range n.Regions {
			b.WriteByte(' ')
			printBlock(b, r, indent+"  ")
		}
		for i, v := range n.Outputs {
			if i == 0 {
				b.WriteString(" : ")
			} else {
				b.WriteString(", ")
			}
			b.WriteString(v.Type.String())
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s  return", indent)
	for _, v := range block.Results {
		fmt.Fprintf(b, " %%%s", v.Name)
	}
	fmt.Fprintf(b, "\n%s}", indent)
}
