// Package train stands for the real one: names and signatures, no meaning.
package train

import (
	"context"

	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

type Batch struct{ X, Y *array.Array }
type Metrics struct{ Loss float64 }
type Options struct{ Budget int64 }
type Trainer struct{ x int }

func New(l nn.Layer, p *nn.Store, o Options) (*Trainer, error)        { return &Trainer{}, nil }
func Resume(dir string) (*Trainer, error)                             { return &Trainer{}, nil }
func (t *Trainer) Step(ctx context.Context, b Batch) (Metrics, error) { return Metrics{}, nil }
func (t *Trainer) Save(dir string) error                              { return nil }
func (t *Trainer) Close() error                                       { return nil }
