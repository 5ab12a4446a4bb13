package budget

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
)

// profile holds the live ranges of the buffers in the arena, and the live bytes at each step, for one order of the
// steps.
type profile struct {
	time    *live.Timeline
	problem memplan.Problem
	roots   []*loop.Buffer
	live    []int64 // bytes, by step number
	group   []int   // by buffer of the problem: the buffer in whose place it is computed, or itself
	first   []int   // by group
	last    []int
	bytes   []int64
	uses    map[*loop.Buffer][]int // the steps that mention a root buffer
	writes  map[*loop.Buffer][]int // see writers; nil until it is called
}

// profile computes the profile of an order of the steps, with in-place results aliased to their operands. The order
// becomes the module's.
func (s *squeezer) profile(body []loop.Step) *profile {
	s.m.Body = body
	t := live.Ranges(s.m)
	p := &profile{time: t, problem: memplan.Problem{Dims: s.m.Dims, Steps: max(1, t.Steps)},
		uses: map[*loop.Buffer][]int{}}
	for i, step := range body {
		loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
			b = b.Root()
			if list := p.uses[b]; len(list) == 0 || list[len(list)-1] != i {
				p.uses[b] = append(list, i)
			}
		})
	}
	for _, b := range s.m.Buffers {
		life := t.Alive[b]
		if b.Kind != loop.Temp || b.View != nil || life == nil {
			continue
		}
		if _, ok := s.size(b); !ok {
			continue
		}
		p.problem.Buffers = append(p.problem.Buffers, memplan.Buffer{Name: b.Name, Size: s.sizes[b], First: life.First,
			Last: life.Last})
		p.roots = append(p.roots, b)
	}
	live.Alias(s.m, t, p.roots, &p.problem, s.inPlace)
	n := len(p.roots)
	p.live, p.group, p.first, p.last, p.bytes = make([]int64, p.problem.Steps), make([]int, n), make([]int, n),
		make([]int, n), make([]int64, n)
	for i := range p.roots {
		g := i
		for p.problem.Buffers[g].Alias != nil {
			g = p.problem.Buffers[g].Alias.Of
		}
		if p.group[i] = g; g == i && p.bytes[g] == 0 {
			p.first[g], p.last[g] = math.MaxInt, -1
		}
	}
	for i, b := range p.roots {
		g, life := p.group[i], &p.problem.Buffers[i]
		p.first[g], p.last[g] = min(p.first[g], life.First), max(p.last[g], life.Last)
		p.bytes[g] = max(p.bytes[g], live.AlignUp(s.bytes[b]))
	}
	for i := range p.roots {
		if p.group[i] == i {
			for at := p.first[i]; at <= p.last[i]; at++ {
				p.live[at] += p.bytes[i]
			}
		}
	}
	return p
}

// live returns the largest number of bytes that are live at once.
func (s *squeezer) live(body []loop.Step) int64 { return slices.Max(s.profile(body).live) }

// peak returns the largest number of bytes that are live at once, and the number of steps at which they are.
func (p *profile) peak() (bytes int64, steps int) {
	bytes = slices.Max(p.live)
	for _, live := range p.live {
		if live == bytes {
			steps++
		}
	}
	return bytes, steps
}

// writers returns the indices of the steps of an order that write a root buffer, or that have a body that mentions it;
// for a step of the host, every buffer is written.
func (p *profile) writers(body []loop.Step, b *loop.Buffer) []int {
	if p.writes == nil {
		p.writes = map[*loop.Buffer][]int{}
		for i, step := range body {
			_, writes, _ := live.Operands(step)
			for _, x := range writes {
				x = x.Root()
				if list := p.writes[x]; len(list) == 0 || list[len(list)-1] != i {
					p.writes[x] = append(list, i)
				}
			}
		}
	}
	return p.writes[b]
}

// reads reports whether a step of an order, which mentions a root buffer, has no body and only reads the buffer.
func (p *profile) reads(body []loop.Step, i int, b *loop.Buffer) bool {
	if host, is := body[i].(*loop.Host); is {
		return !slices.ContainsFunc(host.Out, func(x *loop.Buffer) bool { return x != nil && x.Root() == b })
	}
	_, writes := slices.BinarySearch(p.writers(body, b), i)
	return !writes
}
