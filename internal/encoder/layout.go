package encoder

import (
	"math"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/transformers"
)

// role is what an input of the model holds.
type role int

const (
	ids role = iota
	mask
	types
	prompt
)

// input is an input of the model.
type input struct {
	name   string
	role   role
	bounds []int64 // the least and the greatest value that the model takes; nil: not known
}

// layout is the shapes of the model's inputs, and how many texts a run may have.
type layout struct {
	inputs   []input
	batch    string // the names of the dimensions; "" if the extent is fixed
	tokens   string
	rows     int                            // the fixed number of texts; 0: any
	columns  int                            // the fixed number of tokens; 0: any
	least    int                            // the least number of tokens
	memory   *weir.Memory                   // of the program
	bytesOf  func(weir.Dims) (int64, error) // its method Call
	bytes    int64                          // the most that a call may take
	together int                            // the most tokens of a run of several texts, padding included
	size     int                            // the elements of the output for each text, or for each token
	perToken bool

	readsPrompt bool // the model has an input for the number of the prompt's tokens
}

// runCost is what a run costs besides its tokens, as a number of tokens: it reads all weights once.
const runCost = 8

// mostTogether is the number of tokens that a run of several texts has at most: runCost is less than a fiftieth of it.
const mostTogether = 512

// layoutOf returns the layout of a program's inputs.
func layoutOf(p *weir.Program) (l layout, err error) {
	l.memory, l.together = p.Memory(), mostTogether
	l.bytesOf = l.memory.Call
	for _, in := range p.Inputs() {
		r := slices.Index([]string{transformers.InputIDs, transformers.AttentionMask, transformers.TokenTypes,
			transformers.PromptTokens}, in.Name)
		if r < 0 || in.DType != weir.I64 || len(in.Shape) != 2 && role(r) != prompt {
			return l, diag.Unsupportedf("the input %s", in).AtTensor(in.Name).
				WithFix("inputs are input_ids, attention_mask and token_type_ids, of i64[batch, tokens]")
		}
		l.inputs = append(l.inputs, input{name: in.Name, role: role(r)})
		l.readsPrompt = l.readsPrompt || role(r) == prompt
		if role(r) == ids {
			l.batch, l.tokens = in.Shape[0].Dim, in.Shape[1].Dim
			if l.batch == "" {
				l.rows = int(in.Shape[0].Size)
			}
			if l.tokens == "" {
				l.columns = int(in.Shape[1].Size)
			}
		}
	}
	if len(l.inputs) == 0 || !slices.ContainsFunc(l.inputs, func(i input) bool { return i.role == ids }) {
		return l, diag.Unsupportedf("a model without the input %s", transformers.InputIDs)
	}
	l.least = 1
	for _, d := range p.Dims() {
		if d.Name == l.tokens {
			l.least = int(min(max(d.Min, 1), freeTokens))
		}
	}
	for i, in := range l.inputs {
		if low, high, ok := p.ValueRange(in.name, l.dims(l.shape(1, 1))); ok {
			l.inputs[i].bounds = []int64{low, high}
		}
	}
	return l, l.result(p.Outputs()[0])
}

// result sets the shape of the output.
func (l *layout) result(out weir.Info) error {
	n := len(out.Shape)
	if n < 2 || n > 3 || out.Shape[n-1].Dim != "" || out.DType != weir.F32 {
		return diag.Unsupportedf("the output %s", out).AtTensor(out.Name).
			WithFix("outputs are f32[batch, size] or f32[batch, tokens, size]")
	}
	l.size, l.perToken = int(out.Shape[n-1].Size), n == 3
	return nil
}

// elements returns the number of elements of the output for a text of so many tokens.
func (l *layout) elements(tokens int) int {
	if l.perToken {
		return tokens * l.size
	}
	return l.size
}

// dims returns the program's dimensions for a run.
func (l *layout) dims(rows, columns int) weir.Dims {
	d := weir.Dims{}
	if l.batch != "" {
		d[l.batch] = int64(rows)
	}
	if l.tokens != "" {
		d[l.tokens] = int64(columns)
	}
	return d
}

// shape returns the shape of the inputs for a number of texts, of which the longest has that many tokens.
func (l *layout) shape(texts, longest int) (rows, columns int) {
	rows, columns = texts, max(1, l.least, longest)
	if l.rows > 0 {
		rows = l.rows
	}
	if l.columns > 0 {
		columns = l.columns
	}
	return rows, columns
}

// call returns the bytes of a call; the largest number if the program refuses the dimensions.
func (l *layout) call(texts, longest int) int64 {
	bytes, err := l.bytesOf(l.dims(l.shape(texts, longest)))
	if err != nil {
		return math.MaxInt64
	}
	return bytes
}

// most returns how many texts of at most that many tokens a run of at most so many bytes may have, at least 1.
func (l *layout) most(longest int, bytes int64) int {
	if l.rows > 0 {
		return l.rows
	}
	low, high := 1, max(1, l.together/max(1, l.least, longest))
	for low < high { // the most that fit
		if middle := (low + high + 1) / 2; l.call(middle, longest) <= bytes {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// groups divides n texts, whose numbers of tokens ascend, into groups of neighbours that are computed together, so that
// all runs together cost the least: runCost and the tokens of each, padding included. It returns where the groups end.
func (l *layout) groups(n int, tokens func(i int) int) (ends []int) {
	least, begin := make([]int64, n+1), make([]int, n+1) // of the first i texts, and where their last group begins
	most, of := 0, -1
	for end := 1; end <= n; end++ {
		longest := tokens(end - 1)
		if longest != of {
			most, of = l.most(longest, l.bytes), longest
		}
		least[end] = math.MaxInt64
		for from := end - 1; from >= max(0, end-most); from-- {
			rows, columns := l.shape(end-from, longest)
			if cost := least[from] + runCost + int64(rows)*int64(columns); cost < least[end] {
				least[end], begin[end] = cost, from
			}
		}
	}
	for end := n; end > 0; end = begin[end] {
		ends = append(ends, end)
	}
	slices.Reverse(ends)
	return ends
}

// arguments returns the most bytes of the arguments of a run with texts of at most so many tokens.
func (l *layout) arguments(maxTokens int) int64 {
	slots := int64(max(l.together, maxTokens))
	if l.rows > 0 || l.columns > 0 {
		rows, columns := l.shape(l.together/maxTokens+1, maxTokens)
		slots = max(slots, int64(rows)*int64(columns))
	}
	return 3 * 8 * slots // see the type arguments
}

// largest returns the most bytes of a call of any run that most allows without a limit of bytes.
func (l *layout) largest(maxTokens int) int64 {
	bytes := l.call(1, maxTokens)
	for texts := 2; texts <= l.together; texts++ {
		if longest := min(l.together/texts, maxTokens); longest >= l.least {
			bytes = max(bytes, l.call(texts, longest))
		}
	}
	return bytes
}
