package encoder

import (
	"fmt"
	"math"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Memory is a model's certificate, in bytes. The model takes Held once it is loaded and as many runs are active as
// there may be, and never more; texts and results of the callers are theirs.
type Memory struct {
	Weights int64 `json:"weights_bytes"` // in the program's own memory, and code
	Files   int64 `json:"files_bytes"`   // weights that are read in place in the mapped files
	Call    int64 `json:"call_bytes"`    // the most that one run takes
	Calls   int   `json:"calls"`         // the runs that may be active at once
	// Arguments are the ids and masks of one run, on Go's heap.
	Arguments int64 `json:"arguments_bytes"`
	// Program is the certificate of the compiled model, over the numbers of texts and tokens of a run.
	Program *weir.Memory `json:"-"`
}

// Held returns the most bytes that the loaded model takes, without the tokenizer; the largest number if they are more.
func (m Memory) Held() int64 {
	one := added(m.Call, m.Arguments)
	if one > math.MaxInt64/int64(m.Calls) {
		return math.MaxInt64
	}
	return added(added(m.Weights, m.Files), int64(m.Calls)*one)
}

// added returns the sum of two numbers that are not negative, at most the largest number.
func added(x, y int64) int64 {
	if x > math.MaxInt64-y {
		return math.MaxInt64
	}
	return x + y
}

// String returns the terms on one line.
func (m Memory) String() string {
	return fmt.Sprintf("%d bytes = %d of weights and code + %d of files + %d × (%d of a call + %d of arguments)", m.Held(),
		m.Weights, m.Files, m.Calls, m.Call, m.Arguments)
}

// Memory returns the model's certificate.
func (m *Model) Memory() Memory { return m.memory }

// prepare finds how many texts a run may have, and the certificate.
func (m *Model) prepare() (err error) {
	if m.layout, err = layoutOf(m.program); err != nil {
		return err
	}
	l := &m.layout
	if err := m.limitTokens(); err != nil {
		return err
	}
	asked, err := l.memory.Asked(1, l.dims(l.shape(1, 1)))
	if err != nil {
		return err
	}
	if l.call(1, m.MaxTokens) == math.MaxInt64 {
		return diag.Inputf("a run with a text of %d tokens takes more bytes than 64 bits count", m.MaxTokens).
			WithFix("set MaxTokens")
	}
	m.memory = Memory{Weights: asked.Weights + asked.Code, Files: asked.Files, Calls: max(1, m.options.Compile.Calls),
		Call: l.largest(m.MaxTokens), Arguments: l.arguments(m.MaxTokens), Program: l.memory}
	l.bytes = m.memory.Call
	m.queue.of, m.queue.idle = m, sync.NewCond(&m.queue.mu)
	return m.within(m.options.Compile.Budget)
}

// within makes runs so small that the model takes at most budget bytes; 0: any.
func (m *Model) within(budget int64) error {
	if budget == 0 || m.memory.Held() <= budget {
		return nil
	}
	most := m.MaxTokens
	if one := m.withOne(most).Held(); one > budget {
		fits := 0
		for step := most; step > 0; step /= 2 {
			for fits+step <= most && m.withOne(fits+step).Held() <= budget {
				fits += step
			}
		}
		hint := fmt.Sprintf("texts of at most %d tokens fit (MaxTokens)", fits)
		if fits == 0 {
			hint = fmt.Sprintf("it takes %d bytes with one text of %d tokens", one, most)
		}
		return diag.New(diag.ErrBudget, "%d bytes with one text of %d tokens, of a budget of %d", one, most, budget).
			WithFix("%s", hint)
	}
	m.memory.Call = 0
	m.memory.Call = (budget - m.memory.Held()) / int64(m.memory.Calls)
	m.layout.bytes = m.memory.Call
	return nil
}

// withOne returns the certificate of runs with one text of at most so many tokens.
func (m *Model) withOne(tokens int) Memory {
	c := m.memory
	c.Call, c.Arguments = m.layout.call(1, tokens), m.layout.arguments(tokens)
	return c
}

// freeTokens is the number of tokens to which texts are truncated if neither the model nor the folder has a limit.
const freeTokens = 1 << 16

// limitTokens finds the number of tokens to which texts are truncated.
func (m *Model) limitTokens() error {
	limit := int64(math.MaxInt64)
	for _, d := range m.program.Dims() {
		if d.Name == m.layout.tokens && d.Max != weir.Unbounded {
			limit = d.Max
		}
	}
	if m.layout.columns > 0 {
		limit = int64(m.layout.columns)
	}
	if asked := m.options.MaxTokens; int64(asked) > limit {
		return diag.Inputf("texts of %d tokens; the model has positions for %d", asked, limit).
			WithFix("ask for at most %d (MaxTokens)", limit)
	} else if asked > 0 {
		m.MaxTokens = asked
	}
	if m.MaxTokens == 0 {
		m.MaxTokens = freeTokens
	}
	m.MaxTokens = int(min(int64(m.MaxTokens), limit))
	return nil
}
