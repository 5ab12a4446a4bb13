package tokenizer

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
)

// alone is the bytes of texts up to which one goroutine encodes a batch.
const alone = 4 << 10

// EncodeBatch returns the tokens of each text. Padding without a length makes all as long as the longest. The error
// names the first text that is at fault. At most GOMAXPROCS goroutines encode.
func (t *Tokenizer) EncodeBatch(texts []string, o Options) ([]Encoding, error) {
	es := make([]Encoding, len(texts))
	pad := t.padding(&o)
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	workers := min(runtime.GOMAXPROCS(0), len(texts), 1+total/alone)
	var next atomic.Int64
	var lock sync.Mutex
	var first error // of the text that is the first at fault
	failed := len(texts)
	work := func() error {
		s := t.take()
		defer t.give(s)
		for {
			i := int(next.Add(1)) - 1
			if i >= len(texts) {
				return nil
			}
			pl, cuts, err := t.encodeTexts(s, texts[i:i+1], &o, true)
			if err == nil {
				es[i] = t.build(s, pl, cuts)
				err = padAll(es[i:i+1], pad) // the reference pads each by itself first
			} else {
				err = &diag.Error{Kind: diag.ErrInput, Detail: "text " + number(i), Err: err}
			}
			if err != nil {
				lock.Lock()
				if i < failed {
					failed, first = i, err
				}
				lock.Unlock()
				next.Store(int64(len(texts))) // those before i are done, or in progress
				return nil
			}
		}
	}
	var group diag.Group
	for range workers - 1 {
		group.Go("encoding a batch", work)
	}
	if workers > 0 {
		work()
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if first != nil {
		return nil, first
	}
	return es, padAll(es, pad)
}
