package program

import (
	"github.com/weirml/weir/internal/diag"
)

// Verify checks that steps name what exists, that a carved tensor is used only between its carve and its release, and that none is carved
// or released twice.
func (p *Program) Verify() error {
	v := &verifier{p: p, live: map[int]bool{}}
	for _, out := range p.Outputs {
		if err := v.index(out.Tensor); err != nil {
			return err
		}
	}
	return v.steps(p.Steps)
}

type verifier struct {
	p    *Program
	live map[int]bool
}

func (v *verifier) index(t int) error {
	if t < 0 || t >= len(v.p.Tensors) {
		return diag.Inputf("there is no tensor %d", t)
	}
	return nil
}

// use checks that a tensor may be read or written now.
func (v *verifier) use(tensors ...int) error {
	for _, t := range tensors {
		if t == -1 {
			continue
		}
		for at := t; ; at = v.p.Tensors[at].Of {
			if err := v.index(at); err != nil {
				return err
			}
			if v.p.Tensors[at].Place == Carved && !v.live[at] {
				return diag.Inputf("%s is used while it is not carved", v.p.Tensors[at].Name).AtTensor(v.p.Tensors[at].Name)
			}
			if v.p.Tensors[at].Place != Part {
				break
			}
		}
	}
	return nil
}

func (v *verifier) steps(steps []Step) error {
	for _, step := range steps {
		if err := v.step(step); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) step(step Step) error {
	switch s := step.(type) {
	case *Carve:
		if err := v.index(s.Tensor); err != nil {
			return err
		}
		if v.live[s.Tensor] {
			return diag.Inputf("%s is carved twice", v.p.Tensors[s.Tensor].Name)
		}
		v.live[s.Tensor] = true
	case *Release:
		for _, t := range s.Tensors {
			if !v.live[t] {
				return diag.Inputf("tensor %d is released while it is not carved", t)
			}
			delete(v.live, t)
		}
	case *Launch:
		return v.use(s.Args...)
	case *Host:
		return v.use(append(append([]int{}, s.In...), s.Out...)...)
	case *Bind:
		return v.use(s.From)
	case *If:
		if err := v.use(s.Cond); err != nil {
			return err
		}
		if err := v.steps(s.Then); err != nil {
			return err
		}
		return v.steps(s.Else)
	case *Loop:
		if err := v.use(s.Trip, s.Cond, s.Index); err != nil {
			return err
		}
		return v.steps(s.Body)
	case *Copy:
		return v.use(s.To, s.From)
	}
	return nil
}
