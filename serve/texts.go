package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/classify"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/serve/internal/texts"
	"github.com/weirml/weir/tokenizer"
)

// A request's texts are computed in waves: texts of about the same length, about as many as a run has. Each wave waits
// for its turn in the model's queue by itself, so that a request with many texts does not keep others waiting for long;
// the model joins the waves of all requests that have their turn.

// The bytes of Go's heap that a wave takes: for each byte of its longest text while that becomes tokens, for each token
// and for each text.
const (
	heapOfByte  = 66
	heapOfToken = 8
	heapOfText  = 256
)

// mostOfWave is the most texts of a wave.
const mostOfWave = 256

// work is the texts of a request that are computed.
type work struct {
	*texts.Embeddings
	version  *catalogue.Version
	priority int
	from     string
	out      []float32 // the whole vectors, or the scores of all labels
	size     int       // the elements of each
	tokens   atomic.Int64
	queued   atomic.Int64 // the time that waves waited for their turn, in nanoseconds
	order    []int32      // the texts, the longest first
	most     int          // the tokens of a text at most
	perByte  float64      // an estimate of the tokens of a text

	mu   sync.Mutex
	next int // the index in order of the next wave
}

// inferTexts answers a request to a model of texts: x.asked if it is there, otherwise one of the protocol.
func (x *exchange) inferTexts(ctx context.Context, v *catalogue.Version, r *oip.Request, priority int,
	o *outcome) (*oip.Response, error) {
	began := time.Now()
	if v.Texts == nil {
		return nil, oip.Errorf("model %s does not read texts; it has %s", v.Model, namesOf(v.Inputs))
	}
	e, w, place := x.asked, want{}, []byte(nil)
	if e == nil {
		var err error
		if e, w, place, err = x.textsOf(v, r); err != nil {
			return nil, err
		}
	}
	m := v.Texts
	if e.Dimensions > m.Size() {
		return nil, oip.Errorf("dimensions is %d, and the model's vectors have %d", e.Dimensions, m.Size())
	}
	if err := suits(m, e, x.asked != nil); err != nil {
		return nil, err
	}
	if e.Prompt != "" && e.IDs != nil {
		return nil, oip.Errorf("prompt_name is %q, and a prompt is put before texts, not before ids", e.Prompt)
	}
	if e.Prompt != "" {
		if _, _, err := m.Embedder.Tokens(nil, e.Prompt, ""); err != nil { // the model does not have it
			return nil, err
		}
	}
	k := &work{Embeddings: e, version: v, priority: priority, from: x.from, size: m.Size(), most: m.MaxTokens(),
		perByte: m.PerByte()}
	o.phases.Input = time.Since(began)
	if err := x.vectors(ctx, k); err != nil {
		return nil, err
	}
	o.phases.Queue = time.Duration(k.queued.Load())
	o.phases.Infer = time.Since(began) - o.phases.Input - o.phases.Queue
	ended := time.Now()
	size := cmp.Or(e.Dimensions, k.size)
	for i := range k.Len() {
		if size < k.size {
			copy(k.out[i*size:], embed.Shorten(k.out[i*k.size:(i+1)*k.size], size))
		}
		if e.Unit {
			unit(k.out[i*size : (i+1)*size])
		}
	}
	t := oip.Tensor{Name: v.Outputs[0].Name, DType: weir.F32, Shape: []int{k.Len(), size}, Binary: w.Binary}
	t.Data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(k.out))), 4*k.Len()*size)
	if w.Region != nil {
		if len(place) < len(t.Data) {
			return nil, oip.Errorf("output %q has %d bytes, and its shared memory %d", w.Name, len(t.Data), len(place))
		}
		if err := guarded(func() error { copy(place, t.Data); return nil }); err != nil {
			return nil, err
		}
		t.Region = &oip.Region{Name: w.Region.Name, Offset: w.Region.Offset, Size: int64(len(t.Data))}
	}
	x.closeInputs()
	if x.tokens = k.tokens.Load(); m.Classifier != nil {
		x.labels = m.Classifier.Labels()
	}
	o.rows, o.joined, o.phases.Output = k.Len(), true, time.Since(ended)
	return &oip.Response{Model: v.Model, Version: v.Name(), ID: r.ID, Outputs: []oip.Tensor{t}}, nil
}

// suits returns an error unless a model of texts can answer a request: one of OpenAI's API or a ranking if api is true,
// otherwise one of the protocol.
func suits(m *catalogue.Texts, e *texts.Embeddings, api bool) error {
	switch {
	case m.Embedder == nil && (e.IDs != nil || e.Prompt != "" || e.Dimensions > 0 || api && !e.Ranks && !e.Predicts):
		return oip.Errorf("the model has scores of the labels %q, not vectors; ask /v1/rerank, or send strings to its path "+
			"of the Open Inference Protocol, without prompt_name and dimensions", m.Classifier.Labels())
	case m.Embedder != nil && e.Predicts:
		return oip.Errorf("the model makes vectors of texts, and does not label them")
	case m.Embedder != nil && (e.Ranks || e.Second != nil):
		return oip.Errorf("the model makes vectors of texts; it does not read pairs of texts")
	case e.Ranks && len(m.Classifier.Labels()) != 1:
		return oip.Errorf("the model has the labels %q, and one that ranks has a single one", m.Classifier.Labels())
	}
	return nil
}

// textsOf returns what a request of the protocol asks for, and the shared memory for the vectors, if it has some.
func (x *exchange) textsOf(v *catalogue.Version, r *oip.Request) (e *texts.Embeddings, w want, place []byte,
	err error) {
	var list []want
	if list, err = wantedOf(v, r); err != nil {
		return nil, w, nil, err
	}
	w, e = list[0], &texts.Embeddings{Field: catalogue.TextInput}
	if w.Classes > 0 {
		return nil, w, nil, oip.Errorf("output %q is a vector, which has no classes", w.Name)
	}
	if w.Region != nil {
		var leave func()
		if place, leave, err = x.server.regions.use(w.Region); err != nil {
			return nil, w, nil, err
		}
		x.leave = append(x.leave, leave)
	}
	e.Prompt, _ = r.Parameters.Text("prompt_name")
	if r.Parameters["dimensions"] != nil {
		n, ok := r.Parameters.Int("dimensions")
		if !ok || n < 1 || n > 1<<30 {
			return nil, w, nil, oip.Errorf("dimensions is no number of elements")
		}
		e.Dimensions = int(n)
	}
	err = guarded(func() error {
		in, err := x.inputs(v, r)
		if err != nil {
			return err
		}
		t, _ := in[catalogue.TextInput].(*weir.Tensor)
		switch {
		case t == nil:
			return oip.Errorf("model %s needs the input %s", v.Model, namesOf(v.Inputs))
		case len(t.Shape()) != 1 && (len(t.Shape()) != 2 || t.Shape()[1] < 1 || t.Shape()[1] > 2):
			return oip.Errorf("input %q has shape %v; it may have [texts], [texts 1] or, for pairs, [texts 2]",
				catalogue.TextInput, t.Shape())
		case t.Len() == 0 || t.Len() > x.server.options.MostTexts:
			return oip.Errorf("input %q has %d texts; a request has 1 to %d", catalogue.TextInput, t.Len(),
				x.server.options.MostTexts)
		}
		if r.Inputs[0].Region != nil { // whose texts may change, or end
			err = x.own(&e.Input, t)
		} else {
			e.Texts, err = weir.View[string](t)
		}
		if list := e.Texts; err == nil && len(t.Shape()) == 2 && t.Shape()[1] == 2 {
			e.Texts = make([]string, 0, len(list)/2)
			for i := 0; i < len(list); i += 2 {
				e.Texts, e.Second = append(e.Texts, list[i]), append(e.Second, list[i+1])
			}
		}
		return err
	})
	return e, w, place, err
}

// own copies texts into memory of the request.
func (x *exchange) own(in *texts.Input, t *weir.Tensor) error {
	list, err := weir.View[string](t)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, text := range list {
		size += int64(len(text))
	}
	memory, err := x.more(size)
	if err != nil {
		return err
	}
	for _, text := range list {
		n := copy(memory, text)
		in.Texts = append(in.Texts, unsafe.String(unsafe.SliceData(memory), n))
		memory = memory[n:]
	}
	return nil
}

// bytesOf returns the size of a text in bytes, or that of its ids.
func (k *work) bytesOf(i int32) int {
	if k.IDs != nil {
		return 4 * len(k.IDs[i])
	}
	bytes := len(k.Query) + len(k.Texts[i])
	if k.Second != nil {
		bytes += len(k.Second[i])
	}
	return bytes
}

// about estimates the number of a text's tokens.
func (k *work) about(i int32) int {
	if k.IDs != nil {
		return len(k.IDs[i])
	}
	return int(min(float64(k.most), 2+k.perByte*float64(k.bytesOf(i))))
}

// wave returns the texts in order that begin at an index: one at least, and about as many as a run has; and an estimate
// of their tokens.
func (k *work) wave(from int) (list []int32, tokens int) {
	end := from
	for end < len(k.order) && end-from < mostOfWave {
		if n := k.about(k.order[end]); end == from || tokens+n <= catalogue.TokensTogether {
			tokens += n
			end++
			continue
		}
		break
	}
	return k.order[from:end], tokens
}

// plan orders the texts. It returns how many waves may be computed at a time, and the bytes of Go's heap that they and
// the order take.
func (k *work) plan() (atOnce int, heap int64) {
	k.order = make([]int32, k.Len())
	for i := range k.order {
		k.order[i] = int32(i)
	}
	slices.SortStableFunc(k.order, func(a, b int32) int { return k.bytesOf(b) - k.bytesOf(a) })
	waves, largest := 0, int64(0)
	for from := 0; from < len(k.order); waves++ {
		list, _ := k.wave(from)
		bytes := int64(heapOfByte * k.bytesOf(list[0]))
		if k.IDs != nil {
			bytes = 0
		}
		for _, i := range list {
			bytes += heapOfText + int64(heapOfToken*min(k.most, 64+k.bytesOf(i)))
		}
		largest = max(largest, bytes)
		from += len(list)
	}
	atOnce = max(1, min(waves, 2*k.version.Calls, 1<<20/(1+k.bytesOf(k.order[0]))))
	return atOnce, 4*int64(len(k.order)) + int64(atOnce)*largest
}

// vectors computes the vectors of a request's texts, in memory of the response.
func (x *exchange) vectors(ctx context.Context, k *work) error {
	bytes := min(4*int64(k.size)*int64(k.Len()), mostOutput)
	err := x.share(ctx, x.server.reading, ledger.Response, &x.read, bytes)
	var memory []byte
	if err == nil {
		memory, err = x.take(ctx, x.server.responses, bytes)
	}
	if err != nil {
		return k.fewer(err)
	}
	k.out = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/4)
	atOnce, heap := k.plan()
	if err := x.share(ctx, x.server.joining, ledger.Joined, &x.joined, heap); err != nil {
		return k.fewer(err)
	}
	if err := k.version.TakeJoined(ctx, heap); err != nil {
		return k.fewer(err)
	}
	defer k.version.GiveJoined(heap)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var others sync.WaitGroup
	for range atOnce - 1 {
		others.Go(func() {
			if err := k.waves(ctx); err != nil {
				cancel(err)
			}
		})
	}
	if err = k.waves(ctx); err != nil {
		cancel(err)
	}
	others.Wait()
	x.server.ledger.Settle() // the runs' memory is idle, if others wait for it
	if context.Cause(ctx) != nil {
		err = context.Cause(ctx) // the first one
	}
	return err
}

// fewer adds to the error of a request that never fits what would.
func (k *work) fewer(err error) error {
	refused, ok := errors.AsType[*ledger.Refused](err)
	if !ok || !refused.Never || refused.Need == 0 {
		return err
	}
	if longest := k.bytesOf(k.longest()); refused.Kind == ledger.Joined && int64(heapOfByte*longest) > refused.Limit/2 {
		return &sized{err, fmt.Sprintf("send texts of at most %d bytes", refused.Limit/2/heapOfByte)}
	}
	return &sized{err, fmt.Sprintf("send at most %d texts", int64(float64(refused.Limit)/float64(refused.Need)*0.75*
		float64(k.Len())))}
}

// longest returns the index of the longest text.
func (k *work) longest() (longest int32) {
	for i := range int32(k.Len()) {
		if k.bytesOf(i) > k.bytesOf(longest) {
			longest = i
		}
	}
	return longest
}

// waves computes waves until none is left, or ctx ends.
func (k *work) waves(ctx context.Context) error {
	for {
		k.mu.Lock()
		list, about := k.wave(k.next)
		k.next += len(list)
		k.mu.Unlock()
		if len(list) == 0 {
			return nil
		}
		if err := k.compute(ctx, list, about); err != nil {
			return err
		}
	}
}

// compute computes a wave when it is its turn.
func (k *work) compute(ctx context.Context, list []int32, about int) error {
	began := time.Now()
	if err := k.version.Enter(ctx, k.priority, k.from, about); err != nil {
		return err
	}
	defer k.version.Done(about)
	k.queued.CompareAndSwap(0, int64(time.Since(began)))
	if k.version.Texts.Classifier != nil {
		return cause(ctx, k.placed(k.score(ctx, k.version.Texts.Classifier, list), list))
	}
	m := k.version.Texts.Embedder
	ids, out, prompt := make([][]int32, len(list)), make([][]float32, len(list)), 0
	all := make([]int32, 0, about+about/2)
	for at, i := range list {
		before := len(all)
		if k.IDs != nil {
			all = append(all, k.IDs[i]...) // a run may read ids after its request has ended
		} else {
			var err error
			if all, prompt, err = m.Tokens(all, k.Prompt, k.Texts[i]); err == nil && k.Whole &&
				len(all)-before >= k.most {
				err = k.fits(i, m.Prompts()[k.Prompt])
			}
			if err != nil {
				return fmt.Errorf("%s: %w", k.Place(int(i), 0), err)
			}
		}
		ids[at] = all[before:len(all):len(all)]
		out[at] = k.out[int(i)*k.size : (int(i)+1)*k.size]
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	k.tokens.Add(int64(len(all)))
	if k.IDs == nil {
		bytes := 0
		for _, i := range list {
			bytes += len(k.Texts[i])
		}
		k.version.Texts.Counted(bytes, len(all))
	}
	return cause(ctx, k.placed(m.EmbedTokens(ctx, prompt, ids, out), list))
}

// fits returns an error if a text or a pair, with a prompt before it, has more tokens than the model takes.
func (k *work) fits(i int32, prompt string) error {
	all := tokenizer.Options{Truncation: &tokenizer.Truncation{Off: true}, Padding: &tokenizer.Padding{Off: true}}
	first, second := prompt+k.Texts[i], ""
	switch {
	case k.Query != "":
		first, second = k.Query, k.Texts[i]
	case k.Second != nil:
		second = k.Second[i]
	}
	t, n := k.version.Texts.Tokenizer(), 0
	if second == "" {
		ids, err := t.AppendIDs(nil, first, all)
		if n = len(ids); err != nil {
			return err
		}
	} else {
		e, err := t.EncodePair(first, second, all)
		if err != nil {
			return err
		}
		n = len(e.IDs)
	}
	if n > k.most {
		return oip.Errorf("%d tokens, of which the model takes %d; send truncate: true for the first ones", n, k.most)
	}
	return nil
}

// unit scales a vector to length 1; one that is shorter than 1e-12 by 1e12.
func unit(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	scale := 1 / max(math.Sqrt(sum), 1e-12)
	for i, x := range v {
		v[i] = float32(float64(x) * scale)
	}
}

// placed returns the error of a text of a wave as that of its place in the request.
func (k *work) placed(err error, wave []int32) error {
	if e, ok := errors.AsType[*embed.TextError](err); ok {
		return fmt.Errorf("%s: %w", k.Place(int(wave[e.Index]), e.Part), e.Err)
	}
	return err
}

// score computes the scores of a wave of texts or pairs.
func (k *work) score(ctx context.Context, m *classify.Model, list []int32) error {
	pairs := make([]classify.Pair, len(list))
	for at, i := range list {
		switch {
		case k.Query != "":
			pairs[at] = classify.Pair{Text: k.Query, Second: k.Texts[i]}
		case k.Second != nil:
			pairs[at] = classify.Pair{Text: k.Texts[i], Second: k.Second[i]}
		default:
			pairs[at].Text = k.Texts[i]
		}
		if k.Whole {
			if err := k.fits(i, ""); err != nil {
				return fmt.Errorf("%s: %w", k.Place(int(i), 0), err)
			}
		}
	}
	function := classify.Default
	switch {
	case k.Scores == texts.Logits:
		function = classify.Identity
	case k.Scores == texts.Probabilities && k.size == 1:
		function = classify.Sigmoid
	case k.Scores == texts.Probabilities:
		function = classify.Softmax
	}
	if k.size == 1 && !k.Predicts && (k.Query != "" || k.Second != nil) {
		scores, err := m.Predict(ctx, pairs, function)
		for at := range scores {
			k.out[list[at]] = scores[at][0]
		}
		return err
	}
	labels := m.Labels()
	scores, err := m.ClassifyPairs(ctx, pairs, classify.Scoring{Function: function})
	for at := range scores {
		for _, label := range scores[at] {
			k.out[int(list[at])*k.size+slices.Index(labels, label.Name)] = label.Score
		}
	}
	return err
}
