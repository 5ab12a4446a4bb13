package beamweir

import (
	"context"
	"reflect"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Codec says what a model gets of an element, and what becomes of its outputs. Beam sends it to the workers: it is a
// struct, and its exported fields travel as JSON. Its methods are called on many goroutines at once.
type Codec[E, R any] interface {
	// Inputs returns the program's inputs for an element: tensors whose first axis is the element's rows, usually one.
	// RunInference closes them after the run.
	Inputs(element E) (weir.Inputs, error)
	// Result returns an element's result, from the element's own rows of the outputs, which are invalid when it returns.
	// model is the path of the model that has run.
	Result(element E, outputs weir.Outputs, model string) (R, error)
}

// Register makes a codec known to RunInference, for collections of elements. Call it in an init function, which workers
// run too.
func Register[C Codec[E, R], E, R any](codec C) {
	add[coded[C, E, R]](codec, func(c C) coded[C, E, R] { return coded[C, E, R]{c} })
}

// RegisterKeyed makes a codec known to RunInference, for collections of pairs of keys and elements. Call it in an init
// function:
//
//	func init() { beamweir.RegisterKeyed[string](digits{}) }
func RegisterKeyed[K any, C Codec[E, R], E, R any](codec C) {
	addKeyed[K, coded[C, E, R]](codec, func(c C) coded[C, E, R] { return coded[C, E, R]{c} })
}

func init() {
	register.Iter1[string]()
	add[Floats](Floats{}, func(f Floats) Floats { return f })
	addKeyed[string, Floats](Floats{}, func(f Floats) Floats { return f })
	addKeyed[int64, Floats](Floats{}, func(f Floats) Floats { return f })
	addKeyed[int, Floats](Floats{}, func(f Floats) Floats { return f })
	add[Texts](Texts{}, func(t Texts) Texts { return t })
	addKeyed[string, Texts](Texts{}, func(t Texts) Texts { return t })
	addKeyed[int64, Texts](Texts{}, func(t Texts) Texts { return t })
	addKeyed[int, Texts](Texts{}, func(t Texts) Texts { return t })
}

// worker runs elements. It is a codec as it travels in a DoFn.
type worker[E, R any] interface {
	opener
	// run runs an element with what open returned for the model of the path.
	run(ctx context.Context, model resource, element E, path string) (R, error)
}

// opener loads models for a worker.
type opener interface {
	// kind returns a text that is the same for workers that can share what open returns.
	kind() string
	// open loads the model of a path.
	open(ctx context.Context, path string, o Options) (resource, error)
}

// resource is a loaded model, which all bundles of the process share.
type resource interface {
	most() int             // the most elements of a bundle that are in progress at once
	bytes() int64          // the certificate
	needs() (int64, error) // the bytes with which it can be loaded, and run
	runs() (count int64, rows float64)
	close() error
}

// registered is what RunInference knows about a codec's type and a type of keys.
type registered struct {
	make func(codec any, spec string, versions bool) any // a DoFn
	open func(codec any) opener
}

// registrations has what Register and RegisterKeyed registered, by the types of the codec and the key, which is nil if
// there are no keys.
var registrations = struct {
	sync.Mutex
	all map[[2]reflect.Type]registered
}{all: map[[2]reflect.Type]registered{}}

// add registers a worker for elements without keys.
func add[W worker[E, R], C, E, R any](codec C, worker func(C) W) {
	registerLate[R]()
	registerLatePair[E, Failure]()
	enter[none](codec, nil, worker)
}

// addKeyed registers a worker for pairs of keys and elements.
func addKeyed[K any, W worker[E, R], C, E, R any](codec C, worker func(C) W) {
	registerLatePair[K, R]()
	registerLatePair[K, Failure]()
	enter[K](codec, reflect.TypeFor[K](), worker)
}

// enter registers the DoFn of a worker, by the types of the codec and the key, which is nil if there are no keys.
func enter[K any, W worker[E, R], C, E, R any](codec C, key reflect.Type, worker func(C) W) {
	(&predict[K, W, E, R]{}).register()
	registrations.Lock()
	defer registrations.Unlock()
	registrations.all[[2]reflect.Type{reflect.TypeOf(codec), key}] = registered{
		open: func(codec any) opener { return worker(codec.(C)) },
		make: func(codec any, spec string, versions bool) any {
			return &predict[K, W, E, R]{Worker: worker(codec.(C)), Spec: spec, Versions: versions}
		}}
}

// registrationOf returns the registration of a codec for a collection's type. codec may be nil: the one returned is
// then that of the element's type.
func registrationOf(codec any, t typex.FullType) (r registered, found any, err error) {
	key, element, err := elementType(t)
	if err != nil {
		return r, nil, err
	}
	if codec == nil {
		if codec = any(Floats{}); element == reflect.TypeFor[string]() {
			codec = Texts{}
		}
	}
	registrations.Lock()
	defer registrations.Unlock()
	r, ok := registrations.all[[2]reflect.Type{reflect.TypeOf(codec), key}]
	switch {
	case !ok && key != nil:
		return r, nil, diag.Inputf("the codec %T is not registered for keys of type %v", codec, key).
			WithFix("call beamweir.RegisterKeyed[%v](%T{}) in an init function", key, codec)
	case !ok:
		return r, nil, diag.Inputf("the codec %T is not registered", codec).
			WithFix("call beamweir.Register(%T{}) in an init function", codec)
	}
	return r, codec, nil
}

// openerOf returns the part of a codec's worker that loads models.
func openerOf(codec any) (opener, error) {
	registrations.Lock()
	defer registrations.Unlock()
	for types, r := range registrations.all {
		if types[0] == reflect.TypeOf(codec) {
			return r.open(codec), nil
		}
	}
	return nil, diag.Inputf("the codec %T is not registered", codec).
		WithFix("call beamweir.Register(%T{}) in an init function", codec)
}

// coded is the worker of a codec.
type coded[C Codec[E, R], E, R any] struct{ Codec C }

func (c coded[C, E, R]) kind() string { return "tensors" }

func (c coded[C, E, R]) open(ctx context.Context, path string, o Options) (resource, error) {
	return openTensors(ctx, path, o)
}

func (c coded[C, E, R]) run(ctx context.Context, model resource, element E, path string) (result R, err error) {
	err = model.(*tensors).run(ctx, func() (weir.Inputs, error) { return c.Codec.Inputs(element) },
		func(out weir.Outputs) (err error) {
			result, err = c.Codec.Result(element, out, path)
			return err
		})
	return result, err
}

// Floats is the codec of models with one input and one output of float32, both with one row for an element: []float32
// becomes []float32. It is registered for keys of type string, int and int64, and for elements without keys.
type Floats struct{}

func (f Floats) kind() string { return "tensors" }

func (f Floats) open(ctx context.Context, path string, o Options) (resource, error) {
	t, err := openTensors(ctx, path, o)
	if err != nil {
		return nil, err
	}
	if err := t.onlyFloats(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (f Floats) run(ctx context.Context, model resource, element []float32, path string) (result []float32,
	err error) {
	t := model.(*tensors)
	err = t.run(ctx, func() (weir.Inputs, error) {
		x, err := weir.FromSlice(element, t.rowShape...)
		if err != nil {
			return nil, err
		}
		return weir.Inputs{t.program.Inputs()[0].Name: x}, nil
	}, func(out weir.Outputs) (err error) {
		result, err = weir.Copy[float32](out.At(0))
		return err
	})
	return result, err
}
