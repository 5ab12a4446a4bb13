package live

import (
	"github.com/weirml/weir/internal/loop"
)

// Mentions reports whether a step uses a root buffer.
func Mentions(step loop.Step, b *loop.Buffer) bool {
	found := false
	loop.EachBuffer([]loop.Step{step}, func(x *loop.Buffer) { found = found || x.Root() == b })
	return found
}

// copies visits the copies of entire buffers in a body, inner bodies included.
func copies(steps []loop.Step, visit func(*loop.Copy)) {
	Each(steps, func(s *loop.Copy) {
		if s.Pick == nil {
			visit(s)
		}
	})
}

// Each visits the steps of one kind, inner bodies included.
func Each[S loop.Step](steps []loop.Step, visit func(S)) {
	for _, step := range steps {
		switch s := step.(type) {
		case S:
			visit(s)
		case *loop.If:
			Each(s.Then, visit)
			Each(s.Else, visit)
		case *loop.Loop:
			Each(s.Body, visit)
		}
	}
}

// Operands returns the buffers that a step reads and writes. simple is false if the step has a body or the host runs
// it: then both lists have all buffers of the step.
func Operands(step loop.Step) (reads, writes []*loop.Buffer, simple bool) {
	switch s := step.(type) {
	case *loop.Launch:
		for i, b := range s.Args {
			switch s.Kernel.Params[i].Access {
			case loop.Read:
				reads = append(reads, b)
			case loop.Write, loop.Work:
				writes = append(writes, b)
			default:
				reads, writes = append(reads, b), append(writes, b)
			}
		}
		return reads, writes, true
	case *loop.Copy:
		if s.Pick != nil {
			return []*loop.Buffer{s.From, s.Pick.Index}, []*loop.Buffer{s.To}, true
		}
		return []*loop.Buffer{s.From}, []*loop.Buffer{s.To}, true
	}
	seen := map[*loop.Buffer]bool{}
	loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
		if !seen[b.Root()] {
			seen[b.Root()] = true
			reads, writes = append(reads, b), append(writes, b)
		}
	})
	return reads, writes, false
}

// TensorName returns a buffer's name in the model, or its own name if it has none there.
func TensorName(b *loop.Buffer) string {
	if b.Source != "" {
		return b.Source
	}
	return b.Name
}

// SourceOf returns the names of the model's nodes that a step computes.
func SourceOf(step loop.Step) string {
	switch s := step.(type) {
	case *loop.Launch:
		return s.Source
	case *loop.Host:
		return s.Source
	case *loop.Copy:
		return TensorName(s.To)
	case *loop.Loop:
		return s.Source
	case *loop.If:
		return s.Source
	}
	return ""
}
