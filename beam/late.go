package beamweir

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
)

// late is an emitter of results that come after their elements, in the elements' order. Beam's own emitters give a
// result the windows of the element that ProcessElement has at the moment, and the global window in FinishBundle; this
// one gives it the time and the windows of its own element. At each element, each of a DoFn's emitters is called with
// note; when the outcome is known, one is called with give, and the others with pass.
//
// order is no time: Beam accepts no other type for a parameter that is not part of a result.
type late[R any] func(order beam.EventTime, result R)

// latePair is late for pairs.
type latePair[K, V any] func(order beam.EventTime, key K, value V)

// The orders of late emitters.
const (
	note beam.EventTime = iota // the current element's place
	give                       // emit at the first place noted, which is then forgotten
	pass                       // forget the first place noted
)

// place is where an element is: its time, its windows and its pane.
type place struct {
	time    beam.EventTime
	windows []typex.Window
	pane    typex.PaneInfo
}

// places is what late emitters have.
type places struct {
	next  exec.ElementProcessor
	ctx   context.Context
	now   place
	noted []place
}

// Init sets the current element's place.
func (p *places) Init(ctx context.Context, pane typex.PaneInfo, windows []typex.Window, time beam.EventTime) error {
	p.ctx, p.now = ctx, place{time, windows, pane}
	return nil
}

// do obeys an order. value is the result at give.
func (p *places) do(order beam.EventTime, value exec.FullValue) {
	if order == note {
		p.noted = append(p.noted, p.now)
		return
	}
	at := p.noted[0]
	if p.noted = p.noted[1:]; order == pass {
		return
	}
	value.Timestamp, value.Windows, value.Pane = at.time, at.windows, at.pane
	if err := p.next.ProcessElement(p.ctx, &value); err != nil {
		panic(err) // as Beam's own emitters do: an emitter returns no error
	}
}

// lateEmitter and latePairEmitter are the emitters as Beam makes them.
type (
	lateEmitter[R any]        struct{ places }
	latePairEmitter[K, V any] struct{ places }
)

func (l *lateEmitter[R]) Value() any {
	return late[R](func(order beam.EventTime, result R) { l.do(order, exec.FullValue{Elm: result}) })
}

func (l *latePairEmitter[K, V]) Value() any {
	return latePair[K, V](func(order beam.EventTime, key K, value V) {
		l.do(order, exec.FullValue{Elm: key, Elm2: value})
	})
}

// registerLate makes Beam use lateEmitter for late.
func registerLate[R any]() {
	exec.RegisterEmitter(reflect.TypeFor[late[R]](), func(next exec.ElementProcessor) exec.ReusableEmitter {
		return &lateEmitter[R]{places{next: next}}
	})
	registerType[R]()
}

// registerLatePair makes Beam use latePairEmitter for latePair.
func registerLatePair[K, V any]() {
	exec.RegisterEmitter(reflect.TypeFor[latePair[K, V]](), func(next exec.ElementProcessor) exec.ReusableEmitter {
		return &latePairEmitter[K, V]{places{next: next}}
	})
	registerType[K]()
	registerType[V]()
}

// registerType registers a type of elements, if it is not one of Go's own.
func registerType[T any]() {
	if t := reflect.TypeFor[T](); t.Name() != "" && t.PkgPath() != "" {
		beam.RegisterType(t)
	}
}
