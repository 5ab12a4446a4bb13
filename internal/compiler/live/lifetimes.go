// Package live holds facts about the buffers of a scheduled module: when they are live, how many bytes they have, and
// which may lie in each other's place.
package live

import "github.com/weirml/weir/internal/loop"

// Span is a range of step numbers, both ends included.
type Span struct{ First, Last int }

// fork is an If: its own number, and the numbers of its two bodies. An empty body has last before first.
type fork struct{ whole, then, otherwise Span }

// within reports whether s lies inside o.
func (s Span) within(o Span) bool { return s.First >= o.First && s.Last <= o.Last }

// Meets reports whether s and o share a number.
func (s Span) Meets(o Span) bool { return s.First <= o.Last && s.Last >= o.First }

// Timeline numbers the steps of a module, bodies in place, and tells for each root buffer the steps it is alive in.
// The bodies of an If follow one another, so what lives in one alone may share space with what lives in the other.
type Timeline struct {
	Steps int
	Alive map[*loop.Buffer]*Span
	loops []Span // outer ones before inner ones
	forks []fork
	At    map[loop.Step]Span
}

// Ranges finds the live ranges of a module's root buffers.
func Ranges(m *loop.Module) *Timeline {
	t := &Timeline{Alive: map[*loop.Buffer]*Span{}, At: map[loop.Step]Span{}}
	t.walk(m.Body)
	for _, life := range t.Alive {
		for grown := true; grown; {
			before := *life
			for _, body := range t.loops {
				// What is alive before or after a loop, and is mentioned in it, is alive through every iteration.
				if life.Meets(body) && (life.First <= body.First || life.Last >= body.Last) {
					life.First, life.Last = min(life.First, body.First), max(life.Last, body.Last)
				}
			}
			for _, f := range t.forks {
				// What is not one branch's alone is alive through both.
				if life.Meets(f.whole) && !life.within(f.then) && !life.within(f.otherwise) && life.Last > f.whole.First {
					life.First, life.Last = min(life.First, f.whole.First), max(life.Last, f.whole.Last)
				}
			}
			grown = before != *life
		}
	}
	return t
}

func (t *Timeline) touch(b *loop.Buffer, step int) {
	b = b.Root()
	if s := t.Alive[b]; s != nil {
		s.First, s.Last = min(s.First, step), max(s.Last, step)
		return
	}
	t.Alive[b] = &Span{step, step}
}

func (t *Timeline) walk(steps []loop.Step) {
	for _, step := range steps {
		first := t.Steps
		t.Steps++
		switch s := step.(type) {
		case *loop.If:
			t.touch(s.Cond, first)
			t.walk(s.Then)
			middle := t.Steps
			t.walk(s.Else)
			t.forks = append(t.forks, fork{Span{first, t.Steps - 1}, Span{first + 1, middle - 1}, Span{middle, t.Steps - 1}})
		case *loop.Loop:
			own := len(t.loops)
			t.loops = append(t.loops, Span{First: first})
			t.walk(s.Body)
			last := t.Steps
			t.Steps++
			t.loops[own].Last = last
			for _, b := range []*loop.Buffer{s.Trip, s.Cond, s.Index} {
				if b != nil {
					t.touch(b, first)
					t.touch(b, last)
				}
			}
		default:
			loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) { t.touch(b, first) })
		}
		t.At[step] = Span{first, t.Steps - 1}
	}
}

// Replaces reports whether an output that replaces a state may be written where that lies.
func (t *Timeline) Replaces(m *loop.Module, out *loop.Buffer) bool {
	return t.after(m, out.State, out)
}

// after reports whether an output is first written after an input was last read, or by a step that may write it over
// that input.
func (t *Timeline) after(m *loop.Module, in, out *loop.Buffer) bool {
	life := t.Alive[out]
	if life == nil {
		return false
	}
	last := -1
	if read := t.Alive[in]; read != nil {
		last = t.whole(*read).Last
	}
	first := t.whole(*life).First
	return first > last || first == last && t.writesOver(m.Body, in, out)
}

// whole is a span with every loop and branch that it meets: they may go round, or be left out.
func (t *Timeline) whole(s Span) Span {
	for _, body := range t.loops {
		if s.Meets(body) {
			s = Span{min(s.First, body.First), max(s.Last, body.Last)}
		}
	}
	for _, f := range t.forks {
		if s.Meets(f.whole) {
			s = Span{min(s.First, f.whole.First), max(s.Last, f.whole.Last)}
		}
	}
	return s
}

// writesOver reports whether the step that last reads an input may write an output in its place.
func (t *Timeline) writesOver(steps []loop.Step, in, out *loop.Buffer) bool {
	for _, step := range steps {
		if at := t.At[step]; at.First != t.Alive[in].Last || at.First != at.Last {
			continue
		}
		return Updates(step, in, out)
	}
	return false
}
