package compiler

import "github.com/weirml/weir/internal/loop"

// span is a range of step numbers, both ends included.
type span struct{ first, last int }

// fork is an If: its own number, and the numbers of its two bodies. An empty body has last before first.
type fork struct{ whole, then, otherwise span }

// within reports whether s lies inside o.
func (s span) within(o span) bool { return s.first >= o.first && s.last <= o.last }

// meets reports whether s and o share a number.
func (s span) meets(o span) bool { return s.first <= o.last && s.last >= o.first }

// timeline numbers the steps of a module, bodies in place, and tells for each root buffer the steps it is alive in.
// The bodies of an If follow one another, so what lives in one alone may share space with what lives in the other.
type timeline struct {
	steps int
	alive map[*loop.Buffer]*span
	loops []span // outer ones before inner ones
	forks []fork
	at    map[loop.Step]span
}

func lifetimes(m *loop.Module) *timeline {
	t := &timeline{alive: map[*loop.Buffer]*span{}, at: map[loop.Step]span{}}
	t.walk(m.Body)
	for _, life := range t.alive {
		for grown := true; grown; {
			before := *life
			for _, body := range t.loops {
				// What is alive before or after a loop, and is mentioned in it, is alive through every iteration.
				if life.meets(body) && (life.first <= body.first || life.last >= body.last) {
					life.first, life.last = min(life.first, body.first), max(life.last, body.last)
				}
			}
			for _, f := range t.forks {
				// What is not one branch's alone is alive through both.
				if life.meets(f.whole) && !life.within(f.then) && !life.within(f.otherwise) && life.last > f.whole.first {
					life.first, life.last = min(life.first, f.whole.first), max(life.last, f.whole.last)
				}
			}
			grown = before != *life
		}
	}
	return t
}

func (t *timeline) touch(b *loop.Buffer, step int) {
	b = b.Root()
	if s := t.alive[b]; s != nil {
		s.first, s.last = min(s.first, step), max(s.last, step)
		return
	}
	t.alive[b] = &span{step, step}
}

func (t *timeline) walk(steps []loop.Step) {
	for _, step := range steps {
		first := t.steps
		t.steps++
		switch s := step.(type) {
		case *loop.If:
			t.touch(s.Cond, first)
			t.walk(s.Then)
			middle := t.steps
			t.walk(s.Else)
			t.forks = append(t.forks, fork{span{first, t.steps - 1}, span{first + 1, middle - 1}, span{middle, t.steps - 1}})
		case *loop.Loop:
			own := len(t.loops)
			t.loops = append(t.loops, span{first: first})
			t.walk(s.Body)
			last := t.steps
			t.steps++
			t.loops[own].last = last
			for _, b := range []*loop.Buffer{s.Trip, s.Cond, s.Index} {
				if b != nil {
					t.touch(b, first)
					t.touch(b, last)
				}
			}
		default:
			loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) { t.touch(b, first) })
		}
		t.at[step] = span{first, t.steps - 1}
	}
}
