package beamweir

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
)

// none is the type of the keys of collections without keys.
type none struct{}

// predict is the DoFn of RunInference. Its methods depend on its fields and its types.
type predict[K any, W worker[E, R], E, R any] struct {
	Worker   W
	Spec     string // a spec as JSON
	Versions bool   // a side input has the versions
	state    *state[W, K, E, R]
}

// paths is a side input of paths.
type paths = func() func(*string) bool

// wrapped returns the DoFn's methods for Beam, which otherwise would find and call them by reflection.
func (p *predict[K, W, E, R]) wrapped() map[string]reflectx.Func {
	m := map[string]reflectx.Func{
		"Setup": method1(func(context.Context) (err error) {
			p.state, err = newState[W, K, E, R](p, p.Worker, p.Spec)
			return err
		}),
		"Teardown": method1(func(context.Context) error { return p.state.leave() }),
	}
	if reflect.TypeFor[K]() == reflect.TypeFor[none]() {
		p.elements(m)
	} else {
		p.pairs(m)
	}
	return m
}

// elements adds the methods for collections without keys.
func (p *predict[K, W, E, R]) elements(m map[string]reflectx.Func) {
	if !p.Versions {
		m["ProcessElement"] = method4(func(ctx context.Context, e E, results late[R], failures latePair[E, Failure]) error {
			return p.state.element(ctx, item[K, E]{element: e}, elementSink[K, E, R]{results, failures})
		})
		m["FinishBundle"] = method3(func(ctx context.Context, results late[R], failures latePair[E, Failure]) error {
			return p.state.finish(ctx, elementSink[K, E, R]{results, failures})
		})
		return
	}
	m["ProcessElement"] = method6(func(ctx context.Context, w beam.Window, e E, versions paths, results late[R],
		failures latePair[E, Failure]) error {
		i := item[K, E]{element: e, path: p.state.version(w, versions)}
		return p.state.element(ctx, i, elementSink[K, E, R]{results, failures})
	})
	m["FinishBundle"] = method4(func(ctx context.Context, _ paths, results late[R], failures latePair[E, Failure]) error {
		return p.state.finish(ctx, elementSink[K, E, R]{results, failures})
	})
}

// pairs adds the methods for collections with keys.
func (p *predict[K, W, E, R]) pairs(m map[string]reflectx.Func) {
	if !p.Versions {
		m["ProcessElement"] = method5(func(ctx context.Context, k K, e E, results latePair[K, R],
			failures latePair[K, Failure]) error {
			return p.state.element(ctx, item[K, E]{key: k, element: e}, keySink[K, E, R]{results, failures})
		})
		m["FinishBundle"] = method3(func(ctx context.Context, results latePair[K, R], failures latePair[K, Failure]) error {
			return p.state.finish(ctx, keySink[K, E, R]{results, failures})
		})
		return
	}
	m["ProcessElement"] = method7(func(ctx context.Context, w beam.Window, k K, e E, versions paths,
		results latePair[K, R], failures latePair[K, Failure]) error {
		i := item[K, E]{key: k, element: e, path: p.state.version(w, versions)}
		return p.state.element(ctx, i, keySink[K, E, R]{results, failures})
	})
	m["FinishBundle"] = method4(func(ctx context.Context, _ paths, results latePair[K, R],
		failures latePair[K, Failure]) error {
		return p.state.finish(ctx, keySink[K, E, R]{results, failures})
	})
}

// register makes the DoFn known to Beam. Package register would do the same, but for a generic type of so many
// parameters it takes the compiler minutes.
func (p *predict[K, W, E, R]) register() {
	t := reflect.TypeFor[predict[K, W, E, R]]()
	beam.RegisterType(t)
	reflectx.RegisterStructWrapper(t, func(fn any) map[string]reflectx.Func {
		return fn.(*predict[K, W, E, R]).wrapped()
	})
}
