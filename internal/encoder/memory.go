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

// Held returns the most bytes that the loaded model takes, without the tokenizer.
func (m Memory) Held() int64 { return m.Weights + m.Files + int64(m.Calls)*(m.Call+m.Arguments) }

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
	most := m.MaxTokens
	slots := int64(max(l.together, most))
	if l.rows > 0 || l.columns > 0 {
		rows, columns := l.shape(l.together/most+1, most)
		slots = max(slots, int64(rows)*int64(columns))
	}
	m.memory = Memory{Weights: asked.Weights + asked.Code, Files: asked.Files, Calls: max(1, m.options.Compile.Calls),
		Call: l.largest(most), Arguments: 8 * 3 * slots, Program: l.memory}
	l.bytes = m.memory.Call
	m.queue.of, m.queue.idle = m, sync.NewCond(&m.queue.mu)
	return m.within(m.options.Compile.Budget)
}

// within makes runs so small that the model takes at most budget bytes; 0: any.
func (m *Model) within(budget int64) error {
	if budget == 0 || m.memory.Held() <= budget {
		return nil
	}
	l, c := &m.layout, m.memory
	c.Call = 0
	l.bytes = (budget - c.Held()) / int64(c.Calls)
	most := m.MaxTokens
	if l.call(1, most) > l.bytes {
		fits := 0
		for step := most; step > 0; step /= 2 {
			for fits+step <= most && l.call(1, fits+step) <= l.bytes {
				fits += step
			}
		}
		hint := fmt.Sprintf("texts of at most %d tokens fit (MaxTokens)", fits)
		if c.Call = l.call(1, most); fits == 0 {
			hint = fmt.Sprintf("it takes %d bytes with one text of %d tokens", c.Held(), most)
		}
		return diag.New(diag.ErrBudget, "%d bytes with one text of %d tokens, of a budget of %d", c.Held(), most, budget).
			WithFix("%s", hint)
	}
	m.memory.Call = l.bytes
	return nil
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

// arguments returns memory for the arguments of a worker's runs.
func (m *Model) arguments() *arguments {
	n := m.memory.Arguments / 8 / 3
	return &arguments{make([]int64, n), make([]int64, n), make([]int64, n)}
}
