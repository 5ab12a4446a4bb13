package train

import (
	"context"
	"iter"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Evaluate returns the mean loss over batches, weighted by their examples, and passes the network's results to metrics.
// It computes as Predict does, and changes nothing. Batches without any example are an error.
func (t *Trainer) Evaluate(ctx context.Context, batches func(yield func(Batch) bool), metrics ...Metric) (loss float64,
	err error) {
	defer diag.Recover(&err, "evaluating")
	if err := t.use(); err != nil {
		return 0, err
	}
	defer t.alone.Unlock()
	if batches == nil {
		return 0, diag.Inputf("no batches are given")
	}
	var mean Mean
	var from *Data
	for b := range iter.Seq[Batch](batches) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		y, err := t.predict(ctx, &Batch{X: b.X, More: b.More})
		if err != nil {
			return 0, err
		}
		value, err := t.lossOf(y, b.Y)
		if err != nil {
			return 0, err
		}
		mean.Add(value, float64(b.X.Dim(0)))
		if err := observe(y, b.Y, metrics); err != nil {
			return 0, err
		}
		from = b.from
	}
	if from != nil && from.Err() != nil {
		return 0, from.Err()
	}
	if mean.weight == 0 {
		return 0, diag.Inputf("there is no example to evaluate").WithFix("Data.Err says what ended the batches")
	}
	return mean.Value(), nil
}

// lossOf returns the loss of a network's result.
func (t *Trainer) lossOf(y *weir.Tensor, target *array.Array) (float64, error) {
	s := array.NewScope("evaluation")
	defer s.Close()
	loss := t.loss(s, array.Of(s, y), target)
	if err := s.Err(); err != nil {
		return 0, err
	}
	x, err := array.Item[float32](s.Cast(loss, weir.F32))
	if first := s.Err(); first != nil {
		err = first
	}
	return float64(x), err
}

// observe passes a batch's results and targets to metrics.
func observe(y *weir.Tensor, target *array.Array, metrics []Metric) error {
	if len(metrics) == 0 || target == nil {
		return nil
	}
	if err := missing(target, "y"); err != nil {
		return err
	}
	values, err := weir.View[float32](y)
	if err != nil {
		return err
	}
	shape := y.Shape()
	if len(shape) == 0 || shape[len(shape)-1] == 0 {
		return diag.Inputf("metrics of %v, which has no rows", y)
	}
	width := shape[len(shape)-1]
	if len(shape) == 1 {
		width = 1 // an element for each example
	}
	var rows [][]float32
	for ; len(values) > 0; values = values[width:] {
		rows = append(rows, values[:width])
	}
	targets := numbers(target)
	if len(targets) == len(rows)*width && width > 1 {
		targets = ids(targets, width)
	}
	if len(targets) != len(rows) {
		return diag.Inputf("metrics of %d rows by %v", len(rows), target)
	}
	for _, m := range metrics {
		if err := m.Observe(rows, targets); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the elements of an array as float64.
func numbers(a *array.Array) []float64 {
	t := a.Tensor()
	list := make([]float64, a.Len())
	for i := range list {
		if a.DType().IsFloat() {
			list[i] = dtype.LoadFloat(a.DType(), t.Bytes(), int64(i))
		} else {
			list[i] = float64(dtype.LoadInt(a.DType(), t.Bytes(), int64(i)))
		}
	}
	return list
}

// ids returns the class of each distribution: the index of its greatest element.
func ids(list []float64, width int) []float64 {
	var out []float64
	for ; len(list) > 0; list = list[width:] {
		best := 0
		for k, x := range list[:width] {
			if x > list[best] {
				best = k
			}
		}
		out = append(out, float64(best))
	}
	return out
}
