package catalogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/serve/internal/ledger"
)

// open loads a version's file, compiles it, and prepares its queue. On failure it holds nothing.
func (c *Catalogue) open(ctx context.Context, f *found, n int64) (v *Version, err error) {
	began := time.Now()
	s, err := settingsOf(f.config)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s, version %d", f.name, n)
	v = &Version{Model: f.name, Number: n, Config: f.config, source: f.versions[n], drained: make(chan struct{}),
		account: &account{fixed: c.ledger.Account(ledger.Model, name), calls: c.ledger.Account(ledger.Call, name)},
		joined:  c.ledger.Account(ledger.Joined, name)}
	v.used.Store(began.UnixNano())
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
			v = nil
		}
	}()
	s.options.Threads, s.options.Account = c.options.Threads, v.account
	if v.source.texts {
		err = c.openTexts(ctx, v, s)
	} else if err = c.compile(ctx, v, s, func(artefact string, o weir.Options) error {
		return v.load(ctx, cmp.Or(artefact, v.source.path), o)
	}); err == nil {
		v.Inputs, v.Outputs = v.Program.Inputs(), v.Program.Outputs()
	}
	if err != nil {
		return v, err
	}
	v.Calls = v.Program.Stats().Calls // which takes long: it lists the program's memory
	if err := v.check(f.config); err != nil {
		return v, err
	}
	if err := v.sequence(f.config, c.states, cmp.Or(s.queue.most, defaultQueue)); err != nil {
		return v, err
	}
	v.measure()
	if v.Texts != nil {
		if err := v.Texts.require(v.account.calls); err != nil {
			return v, err
		}
	} else if call, err := v.CallBytes(v.smallest()); err == nil { // otherwise only a run knows
		if err := v.account.calls.Require(call); err != nil {
			return v, err
		}
	}
	v.join(s)
	v.queue.start(f.name, s.queue, v.atOnce)
	v.Loaded, v.Took = time.Now(), time.Since(began)
	return v, c.warm(ctx, v)
}

// atOnce returns the most rows that are past the queue: one for each call or, if requests are joined, twice those that
// fill all calls, so that the next runs can be filled too. The rows of texts are their tokens.
func (v *Version) atOnce() int {
	if v.Texts != nil {
		return 2 * TokensTogether * v.Calls
	}
	if v.Batcher == nil {
		return v.Calls
	}
	return 2 * v.Batcher.MostRows() * v.Calls
}

// Joins returns the rows that a request adds to joined runs; alone reports that it is not joined, and counts as one.
func (v *Version) Joins(dims weir.Dims) (rows int, alone bool) {
	if n := dims[v.Rows]; v.Batcher != nil && n > 0 && n <= int64(v.MostRows) {
		return int(n), false
	}
	return 1, true
}

// load loads and compiles a file.
func (v *Version) load(ctx context.Context, path string, o weir.Options) (err error) {
	if v.model, err = weir.LoadContext(ctx, path); err != nil {
		return err
	}
	o.States = inPlace(v.model, v.Config)
	v.Program, err = weir.Compile(ctx, v.model, o)
	if err != nil && len(o.States) > 0 && !errors.Is(err, weir.ErrMemory) && ctx.Err() == nil {
		o.States = nil // they are copied at each step then
		v.Program, err = weir.Compile(ctx, v.model, o)
	}
	if err != nil {
		err = errors.Join(err, v.model.Close())
		v.model = nil
		return err
	}
	v.account.run(true)
	return nil
}

// join makes the version's batcher, if it is proved that its requests can be joined.
func (v *Version) join(s settings) {
	if v.Texts != nil { // which joins texts itself
		return
	}
	if s.off != "" {
		v.Unbatched = s.off
		return
	}
	if len(v.Inputs) == 0 || len(v.Inputs[0].Shape) == 0 || v.Inputs[0].Shape[0].Dim == "" {
		v.Unbatched = "the first axis of the first input is no dimension that a request may choose"
		return
	}
	rows := v.Inputs[0].Shape[0].Dim
	if err := v.Program.Rows(rows); err != nil {
		v.Unbatched = err.Error()
		return
	}
	most := int64(cmp.Or(s.preferred, s.rows, defaultRows))
	s.batch.Measured = s.preferred == 0
	for _, d := range v.Program.Dims() {
		if d.Name == rows {
			most = min(most, d.Max)
		}
	}
	s.batch.Rows, s.batch.Account = int(most), v.joined
	b, err := batch.New(v.Program, s.batch)
	if err != nil {
		v.Unbatched = err.Error()
		return
	}
	v.Batcher, v.Rows, v.MostRows = b, rows, int(most)
}

// OutputBytes returns the bytes of an output, by index, for the dimensions of a run; ok is false if only the run knows,
// or if the run will refuse the dimensions: the formula has no meaning then.
func (v *Version) OutputBytes(i int, dims weir.Dims) (bytes int64, ok bool) {
	bytes, err := v.sizes[i].At(dims)
	return bytes, v.sized[i] && err == nil && bytes >= 0
}

// CallBytes returns the bytes of a run with these dimensions.
func (v *Version) CallBytes(dims weir.Dims) (int64, error) {
	return v.Program.Memory().Call(dims)
}

// smallest returns the smallest dimensions that a request may have, but at least 1.
func (v *Version) smallest() weir.Dims {
	d := weir.Dims{}
	for _, dim := range v.Program.Dims() {
		d[dim.Name] = min(max(dim.Min, 1), dim.Max)
	}
	return d
}

// measure keeps the formulas of the outputs' sizes.
func (v *Version) measure() {
	for _, info := range v.Outputs {
		size, err := v.Program.Memory().Of(info.Name)
		v.sizes, v.sized = append(v.sizes, size), append(v.sized, err == nil)
	}
}
