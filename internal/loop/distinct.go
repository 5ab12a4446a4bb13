package loop

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
)

// Distinct returns the kernels that differ in more than name, source and work, such as those of a model's equal layers,
// and for each kernel which of them it is.
func Distinct(kernels []*Kernel) (unlike []*Kernel, which []int) {
	d := distinction{shared: map[*Stmt]int{}, alike: map[string][]int{}}
	which = make([]int, len(kernels))
	for i, k := range kernels {
		which[i] = d.place(k)
	}
	return d.unlike, which
}

// distinction compares kernels by what costs least first: storage that they share, signatures, texts.
type distinction struct {
	unlike []*Kernel
	texts  []string         // of unlike, where one was needed
	shared map[*Stmt]int    // by the place of their bodies
	alike  map[string][]int // by signature
}

func (d *distinction) place(k *Kernel) int {
	if len(k.Body) > 0 {
		if at, ok := d.shared[&k.Body[0]]; ok && k.shares(d.unlike[at]) {
			return at
		}
	}
	key := signature(k)
	for _, at := range d.alike[key] {
		if d.text(at) == bare(k) {
			return at
		}
	}
	at := len(d.unlike)
	d.unlike, d.texts = append(d.unlike, k), append(d.texts, "")
	d.alike[key] = append(d.alike[key], at)
	if len(k.Body) > 0 {
		d.shared[&k.Body[0]] = at
	}
	return at
}

func (d *distinction) text(at int) string {
	if d.texts[at] == "" {
		d.texts[at] = bare(d.unlike[at])
	}
	return d.texts[at]
}

// shares reports whether two kernels are known to be alike because they share what they are made of.
func (k *Kernel) shares(o *Kernel) bool {
	return len(k.Body) == len(o.Body) && &k.Body[0] == &o.Body[0] && slices.Equal(k.Params, o.Params) &&
		slices.Equal(k.Dims, o.Dims)
}

// bare is the kernel's text without name, source and work.
func bare(k *Kernel) string {
	b := *k
	b.Name, b.Source, b.Work = "", "", sym.Expr{}
	return b.String()
}

// signature is equal for kernels with equal texts, and seldom for others.
func signature(k *Kernel) string {
	var s strings.Builder
	integers := func(list []sym.Expr) {
		for _, e := range list {
			s.WriteByte(' ')
			s.WriteString(e.String())
		}
		s.WriteByte(';')
	}
	for _, p := range k.Params {
		s.WriteString(p.Name)
		integers(p.Shape)
		integers(p.Strides)
	}
	statements := 0
	Walk(k.Body, func(stmt Stmt) bool {
		statements++
		if f, ok := stmt.(*For); ok {
			s.WriteString(f.Var.String())
			integers([]sym.Expr{f.Extent})
		}
		return true
	})
	s.WriteString(strconv.Itoa(statements))
	return s.String()
}
