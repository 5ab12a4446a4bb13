package loop

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
)

// Distinct returns the kernels that differ in more than name, source and work, and for each kernel its index among
// them. A model's equal layers thus share a kernel.
func Distinct(kernels []*Kernel) (unlike []*Kernel, which []int) {
	if len(kernels) == 1 {
		return []*Kernel{kernels[0]}, []int{0}
	}
	d := distinction{shared: map[*Stmt]int{}, alike: map[string][]int{}}
	which = make([]int, len(kernels))
	for i, k := range kernels {
		which[i] = d.indexOf(k)
	}
	return d.unlike, which
}

// distinction compares kernels by the cheapest means first: shared storage, signatures, printed texts.
type distinction struct {
	unlike []*Kernel
	texts  []string         // printed texts of unlike; "" if not needed so far
	shared map[*Stmt]int    // indices in unlike, by the address of the body
	alike  map[string][]int // indices in unlike, by signature
}

// indexOf returns the index in unlike of the kernel that equals k, and adds k if there is none.
func (d *distinction) indexOf(k *Kernel) int {
	if len(k.Body) > 0 {
		if at, ok := d.shared[&k.Body[0]]; ok && k.shares(d.unlike[at]) {
			return at
		}
	}
	key := signature(k)
	for _, at := range d.alike[key] {
		if d.text(at) == anonymous(k) {
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

// text returns the printed text of a kernel of unlike.
func (d *distinction) text(at int) string {
	if d.texts[at] == "" {
		d.texts[at] = anonymous(d.unlike[at])
	}
	return d.texts[at]
}

// shares reports whether two kernels are known to be alike because they share their body, parameters and dimensions.
func (k *Kernel) shares(o *Kernel) bool {
	return len(k.Body) == len(o.Body) && &k.Body[0] == &o.Body[0] && slices.Equal(k.Params, o.Params) &&
		slices.Equal(k.Dims, o.Dims)
}

// anonymous returns the kernel's text without name, source and work.
func anonymous(k *Kernel) string {
	b := *k
	b.Name, b.Source, b.Work = "", "", sym.Expr{}
	return b.String()
}

// signature returns the same string for kernels with equal texts, and seldom for others.
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
