package beamweir

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
)

// method is a method of a DoFn as Beam calls it.
type method struct {
	t    reflect.Type
	call func(args []any) error
}

var _ reflectx.Func = method{}

// Name returns the name in Beam's messages.
func (m method) Name() string { return "beamweir.RunInference" }

// Type returns the function's type.
func (m method) Type() reflect.Type { return m.t }

// Call calls the function.
func (m method) Call(args []any) []any { return []any{m.call(args)} }

func method1[A any](f func(A) error) method {
	return method{reflect.TypeOf(f), func(a []any) error { return f(a[0].(A)) }}
}

func method3[A, B, C any](f func(A, B, C) error) method {
	return method{reflect.TypeOf(f), func(a []any) error { return f(a[0].(A), a[1].(B), a[2].(C)) }}
}

func method4[A, B, C, D any](f func(A, B, C, D) error) method {
	return method{reflect.TypeOf(f), func(a []any) error { return f(a[0].(A), a[1].(B), a[2].(C), a[3].(D)) }}
}

func method5[A, B, C, D, E any](f func(A, B, C, D, E) error) method {
	return method{reflect.TypeOf(f), func(a []any) error {
		return f(a[0].(A), a[1].(B), a[2].(C), a[3].(D), a[4].(E))
	}}
}

func method6[A, B, C, D, E, F any](f func(A, B, C, D, E, F) error) method {
	return method{reflect.TypeOf(f), func(a []any) error {
		return f(a[0].(A), a[1].(B), a[2].(C), a[3].(D), a[4].(E), a[5].(F))
	}}
}

func method7[A, B, C, D, E, F, G any](f func(A, B, C, D, E, F, G) error) method {
	return method{reflect.TypeOf(f), func(a []any) error {
		return f(a[0].(A), a[1].(B), a[2].(C), a[3].(D), a[4].(E), a[5].(F), a[6].(G))
	}}
}
