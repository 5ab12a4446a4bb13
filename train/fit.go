package train

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// FitOptions are Fit's settings; Epochs and BatchSize are required.
type FitOptions struct {
	Epochs    int // in total: after Resume, Fit trains the epochs that are left
	BatchSize int
	// Validation is evaluated after each epoch, with Metrics. Stop and Plateau observe its loss, or the training loss
	// if Validation is nil.
	Validation *Data
	Metrics    func() []Metric
	Stop       *EarlyStopping
	Plateau    *Plateau
	// Folder receives a checkpoint after each epoch, Best whenever the observed loss is the least so far; "": none. If
	// Fit continues with data of which it trained earlier epochs, resumed or not, it compares with the losses observed
	// then.
	Folder, Best string
	Logs         []Log     // they receive each step's loss and rate, and each epoch's validation loss
	Progress     io.Writer // if it is a terminal, it shows a progress bar; nil: none
}

// History is Fit's result: one entry for each epoch that it trained.
type History struct {
	Epochs  []EpochResult
	Stopped bool // early stopping ended Fit
}

// EpochResult is the result of an epoch.
type EpochResult struct {
	Loss       float64 // mean over the steps, weighted by their examples
	Validation float64 // the validation loss; NaN without FitOptions.Validation
	Metrics    []Metric
}

// Fit trains over epochs of data. If ctx ends, Fit returns its error; the trainer then has the values of the last step.
func (t *Trainer) Fit(ctx context.Context, data *Data, o FitOptions) (h *History, err error) {
	defer diag.Recover(&err, "training")
	h = &History{}
	if data == nil || o.Epochs < 1 || o.BatchSize < 1 {
		return h, diag.Inputf("data, Epochs and BatchSize are needed")
	}
	if err := t.watched(data, &o); err != nil {
		return h, err
	}
	for epoch := data.Epoch(); epoch < int64(o.Epochs); epoch = data.Epoch() {
		r, err := t.epoch(ctx, data, epoch, &o)
		if err != nil {
			return h, err
		}
		h.Epochs = append(h.Epochs, r)
		stop, err := t.observed(r, &o)
		if stop || err != nil {
			h.Stopped = stop
			return h, err
		}
	}
	return h, nil
}

// epoch trains the rest of an epoch, and evaluates.
func (t *Trainer) epoch(ctx context.Context, data *Data, epoch int64, o *FitOptions) (r EpochResult, err error) {
	bar := newBar(o.Progress, fmt.Sprintf("epoch %d/%d", epoch+1, o.Epochs), (data.Len()+o.BatchSize-1)/o.BatchSize)
	defer bar.end()
	var mean Mean
	for b := range data.Batches(o.BatchSize) {
		m, err := t.Step(ctx, b)
		if err != nil {
			return r, err
		}
		mean.Add(m.Loss, float64(b.X.Dim(0)))
		bar.step(mean.Value())
		for _, l := range o.Logs {
			if err := l.Log(m.Step, Value{"loss", m.Loss}, Value{"rate", m.Rate}); err != nil {
				return r, err
			}
		}
	}
	if err := data.Err(); err != nil {
		return r, err
	}
	r.Loss, r.Validation = mean.Value(), math.NaN()
	if o.Validation == nil {
		return r, nil
	}
	if o.Metrics != nil {
		r.Metrics = o.Metrics()
	}
	if r.Validation, err = t.Evaluate(ctx, o.Validation.Batches(o.BatchSize), r.Metrics...); err != nil {
		return r, cmp.Or(o.Validation.Err(), err)
	}
	for _, l := range o.Logs {
		if err := l.Log(t.Steps(), Value{"validation", r.Validation}); err != nil {
			return r, err
		}
	}
	return r, o.Validation.Err()
}

// watch holds Fit's observations from epoch to epoch. Checkpoints contain it.
type watch struct {
	Best    *number `json:"best,omitempty"` // the least loss observed
	Stop    *lowest `json:"stop,omitempty"`
	Plateau *lowest `json:"plateau,omitempty"`
}

// watched restores observations. For data in their first epoch there are none. After Resume, Stop and Plateau take the
// checkpoint's observations, unless they have observed a measure already.
func (t *Trainer) watched(data *Data, o *FitOptions) error {
	if err := t.use(); err != nil {
		return err
	}
	defer t.alone.Unlock()
	if data.Epoch() == 0 {
		t.watch = watch{}
	}
	if t.resumed && o.Stop != nil && o.Stop.seen == nil {
		o.Stop.seen = t.watch.Stop
	}
	if t.resumed && o.Plateau != nil && o.Plateau.seen == nil {
		o.Plateau.seen = t.watch.Plateau
	}
	t.resumed = false
	return nil
}

// observed passes an epoch's loss to Plateau and Stop, and saves checkpoints; it reports whether to stop. It saves to
// Best before Folder: if Fit is killed in between and resumed from Folder, it saves to Best again.
func (t *Trainer) observed(r EpochResult, o *FitOptions) (stop bool, err error) {
	measure := r.Validation
	if o.Validation == nil {
		measure = r.Loss
	}
	if o.Plateau != nil {
		o.Plateau.Observe(t, measure)
	}
	stop = o.Stop != nil && o.Stop.Observe(measure)
	better, err := t.note(measure, o)
	if err != nil {
		return stop, err
	}
	if o.Best != "" && better {
		if err := t.Save(o.Best); err != nil {
			return stop, err
		}
	}
	if o.Folder != "" {
		err = t.Save(o.Folder)
	}
	return stop, err
}

// note records observations for checkpoints; it reports whether the measure is the least so far.
func (t *Trainer) note(measure float64, o *FitOptions) (better bool, err error) {
	if err := t.use(); err != nil {
		return false, err
	}
	defer t.alone.Unlock()
	least := math.Inf(1)
	if t.watch.Best != nil {
		least = float64(*t.watch.Best)
	}
	if better = measure < least; better {
		t.watch.Best = (*number)(&measure)
	}
	if o.Stop != nil {
		t.watch.Stop = o.Stop.seen
	}
	if o.Plateau != nil {
		t.watch.Plateau = o.Plateau.seen
	}
	return better, nil
}

// bar is a progress bar on a terminal. A nil bar shows nothing.
type bar struct {
	w           io.Writer
	title       string
	done, total int
	begin, last time.Time
}

// newBar returns a bar, nil unless w is a terminal.
func newBar(w io.Writer, title string, total int) *bar {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{w: w, title: title, total: total, begin: time.Now()}
}

// step counts a step, and draws the bar at most ten times a second.
func (b *bar) step(loss float64) {
	if b == nil {
		return
	}
	b.done++
	if now := time.Now(); b.done == b.total || now.Sub(b.last) > 100*time.Millisecond {
		b.last = now
		io.WriteString(b.w, "\r"+b.line(loss, now)+"\x1b[K")
	}
}

// line returns the bar's current line.
func (b *bar) line(loss float64, now time.Time) string {
	const width = 24
	n := min(width*b.done/max(b.total, 1), width)
	each := now.Sub(b.begin) / time.Duration(max(b.done, 1))
	left := each * time.Duration(max(b.total-b.done, 0))
	return fmt.Sprintf("%s [%s%s] %d/%d loss %.4f, %v a step, %v left", b.title, strings.Repeat("=", n),
		strings.Repeat(" ", width-n),
		b.done, b.total, loss, each.Round(10*time.Microsecond), left.Round(time.Second))
}

// end ends the bar's line.
func (b *bar) end() {
	if b != nil {
		io.WriteString(b.w, "\n")
	}
}
