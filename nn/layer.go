package nn

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Layer is a component of a network. Declare lists its parameters, buffers and inner layers; Apply computes with them.
//
// A layer holds no arrays: parameters live in a Params. A layer that a network contains twice, as the same pointer, has
// one set of parameters.
type Layer interface {
	// Declare names the parameters, buffers and inner layers. It is called once for each store.
	Declare(d *Declaration)
	// Apply computes the results from the inputs. The context has methods for all operations and for the parameters.
	Apply(c *Context, x ...*array.Array) []*array.Array
}

// Declaration collects what a network declares.
type Declaration struct {
	all    *[]*entry
	path   string
	layers map[Layer]string
	alias  map[string]string // a path of a layer that was declared before → the path where it was declared first
	err    *error
}

// entry is a declared parameter or buffer.
type entry struct {
	name       string
	dtype      weir.DType
	shape      []int // as the store has it
	init       Initializer
	transposed bool // in files, the two axes are swapped
	// the first axis has one block per gate; the store's block i is a file's gates[i]; nil: the same order
	gates  []int
	buffer bool
}

// Param declares a parameter whose elements init sets. If PyTorch's layer has a parameter of the name, the shape is
// PyTorch's.
func (d *Declaration) Param(name string, dt weir.DType, init Initializer, shape ...int) {
	d.add(&entry{name: name, dtype: dt, shape: shape, init: init})
}

// Transposed declares a parameter of two axes whose order in the store differs from the order in files and
// initialisers. There the shape is [out, in], as for PyTorch's linear layers; Context.Param returns an array of shape
// [in, out], the layout in which a matrix product reads it fastest.
func (d *Declaration) Transposed(name string, dt weir.DType, init Initializer, out, in int) {
	d.add(&entry{name: name, dtype: dt, shape: []int{in, out}, init: init, transposed: true})
}

// Buffer declares an array that is not a parameter: it has no derivative, and Context.Update sets it. Running
// statistics are buffers.
func (d *Declaration) Buffer(name string, dt weir.DType, init Initializer, shape ...int) {
	d.add(&entry{name: name, dtype: dt, shape: shape, init: init, buffer: true})
}

// add appends an entry under its full name. A negative extent or a name that is already declared is an error.
func (d *Declaration) add(e *entry) {
	e.name = join(d.path, e.name)
	for _, extent := range e.shape {
		if extent < 0 {
			d.fail(diag.Inputf("%s is declared with the shape %v", e.name, e.shape).AtTensor(e.name))
			return
		}
	}
	for _, other := range *d.all {
		if other.name == e.name {
			d.fail(diag.Inputf("%s is declared twice", e.name).AtTensor(e.name))
			return
		}
	}
	*d.all = append(*d.all, e)
}

// Layer declares an inner layer. The name is the prefix of its parameters' names, as in "0.weight".
func (d *Declaration) Layer(name string, inner Layer) {
	path := join(d.path, name)
	if inner == nil {
		d.fail(diag.Inputf("the layer %s is nil", path))
		return
	}
	if same(inner) {
		if first, ok := d.layers[inner]; ok {
			d.alias[path] = first
			return
		}
		d.layers[inner] = path
	}
	at := *d
	at.path = path
	inner.Declare(&at)
}

// same reports whether equal pointers mean the same layer: pointers to different variables of size 0 may be equal.
func same(l Layer) bool {
	t := reflect.TypeOf(l)
	return t.Kind() == reflect.Pointer && t.Elem().Size() > 0
}

// fail keeps the first error.
func (d *Declaration) fail(err error) {
	if *d.err == nil {
		*d.err = err
	}
}

// Fail reports an error in a layer's settings: New returns it.
func (d *Declaration) Fail(err error) {
	d.fail(diag.As(err, weir.ErrInput).AtNode(d.path, ""))
}

// join returns a path followed by a name, with a dot between them if neither is empty.
func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// declare returns all entries that a network declares, and the aliases of layers that it contains more than once.
func declare(net Layer) (list []*entry, alias map[string]string, err error) {
	d := &Declaration{all: &list, layers: map[Layer]string{}, alias: map[string]string{}, err: &err}
	d.Layer("", net)
	return list, d.alias, err
}

// Context is the environment in which a layer computes: a scope, the parameters of a store, and the mode, training or
// inference. Operations are the scope's methods.
type Context struct {
	*array.Scope
	run  *run
	path string
}

// run is the state that the contexts of one computation share.
type run struct {
	params   *Params
	training bool
	bound    map[string]*array.Array
	updates  []Update
	random   *randomness
	rows     map[string]func(ids *array.Array) *array.Array // see BindRows
}

// Update is the new value of a buffer.
type Update struct {
	Name  string
	Value *array.Array
}

// Inference returns a context for the computation of a trained network: without dropout, and with the running
// statistics.
func Inference(s *array.Scope, p *Params) *Context {
	return &Context{Scope: s, run: &run{params: p, bound: map[string]*array.Array{}}}
}

// Training returns a context for a network in training. Dropout draws from the key, which may be nil if no layer draws.
// Batch normalisation uses the batch's statistics. Updates returns the new values of buffers.
func Training(s *array.Scope, p *Params, key array.Random) *Context {
	c := Inference(s, p)
	if a, ok := key.(*array.Array); ok && a == nil {
		key = nil
	}
	c.run.training, c.run.random = true, &randomness{key}
	return c
}

// Training reports whether the context is for training.
func (c *Context) Training() bool { return c.run.training }

// Path returns the layer's path in the network: "" for the network itself.
func (c *Context) Path() string { return c.path }

// Bind makes an array the value of a parameter or a buffer in this computation, in place of the store's array.
// Derivatives by a parameter are taken by the array that is bound to it.
func (c *Context) Bind(name string, a *array.Array) {
	e := c.run.params.entry(name)
	if e == nil {
		c.Fail(diag.Inputf("no parameter is called %s", name).AtTensor(name))
		return
	}
	c.run.bound[e.name] = a
}

// Param returns the value of a parameter that the layer declared.
func (c *Context) Param(name string) *array.Array { return c.value(name, "parameter") }

// Buffer returns the value of a buffer that the layer declared; after Update, the new value.
func (c *Context) Buffer(name string) *array.Array { return c.value(name, "buffer") }

// Has reports whether the store has a parameter or a buffer of the layer.
func (c *Context) Has(name string) bool { return c.run.params.entry(join(c.path, name)) != nil }

// value returns the array of a parameter or buffer, with its axes in the order that the layer declared.
func (c *Context) value(name, what string) *array.Array {
	full := join(c.path, name)
	e, turned := c.run.params.find(full)
	if e == nil {
		c.Fail(diag.Inputf("the store has no %s %s", what, full).AtTensor(full).
			WithFix("make the store of this network, by Init"))
		return c.Dead()
	}
	if c.run.rows[e.name] != nil {
		c.Fail(diag.Inputf("the table is trained lazily: only its rows can be read").AtTensor(e.name))
		return c.Dead()
	}
	a := c.run.bound[e.name]
	if a == nil {
		a = e.array
	}
	if turned {
		return c.Permute(a, 1, 0)
	}
	return a
}

// Rows returns rows of a parameter that the layer declared, by ids of any shape, as Embedding does. If all reads of a
// table go through Rows, the table can be trained lazily.
func (c *Context) Rows(name string, ids *array.Array) *array.Array {
	if e := c.run.params.entry(join(c.path, name)); e != nil && c.run.rows[e.name] != nil {
		return c.run.rows[e.name](ids)
	}
	return c.Embedding(c.Param(name), ids)
}

// BindRows makes Rows of a table return f's result in this computation. Any other read of the table is then an error.
func (c *Context) BindRows(name string, f func(ids *array.Array) *array.Array) {
	e := c.run.params.entry(name)
	if e == nil {
		c.Fail(diag.Inputf("no parameter is called %s", name).AtTensor(name))
		return
	}
	if c.run.rows == nil {
		c.run.rows = map[string]func(ids *array.Array) *array.Array{}
	}
	c.run.rows[e.name] = f
}

// Update sets the new value of a buffer; see Updates.
func (c *Context) Update(name string, a *array.Array) {
	full := join(c.path, name)
	e := c.run.params.entry(full)
	if e == nil || !e.buffer {
		c.Fail(diag.Inputf("the store has no buffer %s", full).AtTensor(full))
		return
	}
	c.run.bound[e.name] = a
	for i := range c.run.updates {
		if c.run.updates[i].Name == e.name {
			c.run.updates[i].Value = a
			return
		}
	}
	c.run.updates = append(c.run.updates, Update{e.name, a})
}

// Updates returns the new values of buffers, in the order of their first updates. A traced step returns them as results
// that become states; otherwise Commit writes them.
func (c *Context) Updates() []Update { return c.run.updates }

// Commit writes the new values of buffers into the store.
func (c *Context) Commit() error {
	for _, u := range c.run.updates {
		if err := c.run.params.Set(u.Name, u.Value); err != nil {
			return err
		}
		delete(c.run.bound, u.Name)
	}
	c.run.updates = nil
	return nil
}

// Call applies an inner layer. The name is the name under which the layer was declared.
func (c *Context) Call(name string, inner Layer, x ...*array.Array) []*array.Array {
	path := join(c.path, name)
	if inner == nil {
		c.Fail(diag.Inputf("the layer is nil").AtNode(path, ""))
		return c.dead()
	}
	before := c.At(place(path, inner))
	defer c.At(before)
	return inner.Apply(&Context{Scope: c.Scope, run: c.run, path: path}, x...)
}

// One applies an inner layer and returns its first result; it fails if there is none.
func (c *Context) One(name string, inner Layer, x ...*array.Array) *array.Array {
	out := c.Call(name, inner, x...)
	if len(out) == 0 {
		c.Fail(diag.Inputf("the layer %s has no result", join(c.path, name)))
		return c.Dead()
	}
	return out[0]
}

// place returns a layer's name for errors: "2.conv1 (Conv2d)".
func place(path string, l Layer) string {
	name := fmt.Sprintf("%T", l)
	if s, ok := l.(fmt.Stringer); ok {
		name = s.String()
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "*"), "nn.")
	if path == "" {
		return name
	}
	return path + " (" + name + ")"
}

// Failf reports an error of the layer to the scope, and returns results for the layer to return; operations accept
// them. fix says how to correct the error, and may be empty.
func (c *Context) Failf(fix, format string, args ...any) []*array.Array {
	e := diag.Inputf(format, args...)
	if fix != "" {
		e = e.WithFix("%s", fix)
	}
	c.Fail(e)
	return []*array.Array{c.Dead()}
}

// takes reports whether the number of inputs is n and the scope has no error; another number is an error.
func (c *Context) takes(n int, x []*array.Array) bool {
	if len(x) != n {
		c.Failf("", "%d inputs are given, the layer takes %d", len(x), n)
	}
	return len(x) == n && c.Err() == nil
}

// Apply computes a network's results.
func Apply(c *Context, net Layer, x ...*array.Array) []*array.Array { return c.Call("", net, x...) }

// One computes a network's first result.
func One(c *Context, net Layer, x ...*array.Array) *array.Array { return c.One("", net, x...) }

// Predict computes a network's first result in a scope, as Inference does. It returns the scope's error.
func Predict(s *array.Scope, net Layer, p *Params, x ...*array.Array) (*array.Array, error) {
	y := One(Inference(s, p), net, x...)
	return y, s.Err()
}
