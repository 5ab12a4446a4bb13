// Package live holds facts about the buffers of a scheduled module: their live ranges, their sizes in bytes, and which
// of them may share storage.
package live

import "github.com/weirml/weir/internal/loop"

// Interval is a range of step numbers, both ends included.
type Interval struct{ First, Last int }

// fork holds the intervals of an If and of its two bodies. An empty body has Last before First.
type fork struct{ all, then, otherwise Interval }

// within reports whether s lies inside o.
func (s Interval) within(o Interval) bool { return s.First >= o.First && s.Last <= o.Last }

// Meets reports whether s and o share a number.
func (s Interval) Meets(o Interval) bool { return s.First <= o.Last && s.Last >= o.First }

// Timeline numbers the steps of a module, with bodies in sequence, and holds the live range of each root buffer. The
// bodies of an If have different numbers, so buffers that are live in one body only may share space with those of the
// other.
type Timeline struct {
	Steps int
	Alive map[*loop.Buffer]*Interval
	loops []Interval // outer ones before inner ones
	forks []fork
	At    map[loop.Step]Interval
}

// Ranges computes the live ranges of a module's root buffers.
func Ranges(m *loop.Module) *Timeline {
	t := &Timeline{Alive: map[*loop.Buffer]*Interval{}, At: map[loop.Step]Interval{}}
	t.walk(m.Body)
	for _, life := range t.Alive {
		for grown := true; grown; {
			before := *life
			for _, body := range t.loops {
				// A buffer that is live before or after a loop, and used in it, is live through every iteration.
				if life.Meets(body) && (life.First <= body.First || life.Last >= body.Last) {
					life.First, life.Last = min(life.First, body.First), max(life.Last, body.Last)
				}
			}
			for _, f := range t.forks {
				// A buffer that is not live in one branch only is live through both.
				if life.Meets(f.all) && !life.within(f.then) && !life.within(f.otherwise) && life.Last > f.all.First {
					life.First, life.Last = min(life.First, f.all.First), max(life.Last, f.all.Last)
				}
			}
			grown = before != *life
		}
	}
	return t
}

// touch extends the live range of a buffer's root to a step.
func (t *Timeline) touch(b *loop.Buffer, step int) {
	b = b.Root()
	if s := t.Alive[b]; s != nil {
		s.First, s.Last = min(s.First, step), max(s.Last, step)
		return
	}
	t.Alive[b] = &Interval{step, step}
}

// walk numbers steps and extends the live ranges of their buffers.
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
			t.forks = append(t.forks, fork{Interval{first, t.Steps - 1}, Interval{first + 1, middle - 1},
				Interval{middle, t.Steps - 1}})
		case *loop.Loop:
			own := len(t.loops)
			t.loops = append(t.loops, Interval{First: first})
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
		t.At[step] = Interval{first, t.Steps - 1}
	}
}

// Replaces reports whether an output that replaces a state may be written in the state's storage.
func (t *Timeline) Replaces(m *loop.Module, out *loop.Buffer) bool {
	return t.after(m, out.State, out)
}

// after reports whether an output is first written after an input's last read, or by a step that may write it over the
// input.
func (t *Timeline) after(m *loop.Module, in, out *loop.Buffer) bool {
	life := t.Alive[out]
	if life == nil {
		return false
	}
	last := -1
	if read := t.Alive[in]; read != nil {
		last = t.enclosing(*read).Last
	}
	first := t.enclosing(*life).First
	return first > last || first == last && t.writesOver(m.Body, in, out)
}

// enclosing extends an interval to every loop and branch that it meets, since they may repeat or be skipped.
func (t *Timeline) enclosing(s Interval) Interval {
	for _, body := range t.loops {
		if s.Meets(body) {
			s = Interval{min(s.First, body.First), max(s.Last, body.Last)}
		}
	}
	for _, f := range t.forks {
		if s.Meets(f.all) {
			s = Interval{min(s.First, f.all.First), max(s.Last, f.all.Last)}
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
