package nn

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Layer is a part of a network. Declare says which parameters, buffers and layers it has; Apply computes with them.
//
// A layer holds no arrays: parameters live in a Params. A layer that stands at two places of a network, by the same
// pointer, has its parameters once.
type Layer interface {
	// Declare names the parameters, buffers and inner layers. It is called once for each store.
	Declare(d *Declaration)
	// Apply computes the results of the inputs. Operations are methods of the context; so is what gives the parameters.
	Apply(c *Context, x ...*array.Array) []*array.Array
}

// Declaration collects what a network declares.
type Declaration struct {
	all    *[]*entry
	path   string
	layers map[Layer]string
	alias  map[string]string // a path of a layer that stands elsewhere too → where it stood first
	err    *error
}

// entry is a declared parameter or buffer.
type entry struct {
	name       string
	dtype      weir.DType
	shape      []int // as the store has it
	init       Initializer
	transposed bool  // files have the two axes the other way round
	gates      []int // files have so many parts along the first axis, the store's part i at gates[i]; nil: the same
	buffer     bool
}

// Param declares a parameter: init gives its elements. Its shape is that of PyTorch's parameter of the name, if there
// is one.
func (d *Declaration) Param(name string, dt weir.DType, init Initializer, shape ...int) {
	d.add(&entry{name: name, dtype: dt, shape: shape, init: init})
}

// Transposed declares a parameter of two axes that the store has the other way round than files and initialisers: shape
// is [out, in], as PyTorch's linear layers have it, and the array that Context.Param gives is [in, out], as a product
// reads it fastest.
func (d *Declaration) Transposed(name string, dt weir.DType, init Initializer, out, in int) {
	d.add(&entry{name: name, dtype: dt, shape: []int{in, out}, init: init, transposed: true})
}

// Buffer declares an array that is no parameter: it has no derivative, and Context.Update gives it new elements.
// Running statistics are buffers.
func (d *Declaration) Buffer(name string, dt weir.DType, init Initializer, shape ...int) {
	d.add(&entry{name: name, dtype: dt, shape: shape, init: init, buffer: true})
}

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

// Layer declares an inner layer: its parameters are called after the name, as "0.weight".
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

// same reports whether equal layers are the same layer: pointers to different variables without size may be equal.
func same(l Layer) bool {
	t := reflect.TypeOf(l)
	return t.Kind() == reflect.Pointer && t.Elem().Size() > 0
}

func (d *Declaration) fail(err error) {
	if *d.err == nil {
		*d.err = err
	}
}

// Fail keeps an error of a layer's settings: Init returns it.
func (d *Declaration) Fail(err error) {
	d.fail(diag.As(err, weir.ErrInput).AtNode(d.path, ""))
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// declare collects what a network declares.
func declare(net Layer) (list []*entry, alias map[string]string, err error) {
	d := &Declaration{all: &list, layers: map[Layer]string{}, alias: map[string]string{}, err: &err}
	d.Layer("", net)
	return list, d.alias, err
}

// Context is what a layer computes in: a scope, the parameters of a store, and whether this is training. Operations are
// the scope's methods.
type Context struct {
	*array.Scope
	run  *run
	path string
}

// run is what contexts of one computation share.
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

// Inference is a context that computes what a trained network does: no dropout, statistics that were gathered before.
func Inference(s *array.Scope, p *Params) *Context {
	return &Context{Scope: s, run: &run{params: p, bound: map[string]*array.Array{}}}
}

// Training is a context that computes what a network in training does: dropout draws from the key, which may be nil
// if nothing draws, and batch normalisation
// takes the batch's statistics. Updates returns the new values of buffers.
func Training(s *array.Scope, p *Params, key array.Random) *Context {
	c := Inference(s, p)
	if a, ok := key.(*array.Array); ok && a == nil {
		key = nil
	}
	c.run.training, c.run.random = true, &randomness{key}
	return c
}

// Training reports whether this is training.
func (c *Context) Training() bool { return c.run.training }

// Path is where in the network the layer stands: "" for the network itself.
func (c *Context) Path() string { return c.path }

// Bind makes an array the value of a parameter or a buffer in this computation, instead of the store's: one that a
// derivative is taken by.
func (c *Context) Bind(name string, a *array.Array) {
	e := c.run.params.entry(name)
	if e == nil {
		c.Fail(diag.Inputf("no parameter is called %s", name).AtTensor(name))
		return
	}
	c.run.bound[e.name] = a
}

// Param is the value of a parameter that the layer declared.
func (c *Context) Param(name string) *array.Array { return c.value(name, "parameter") }

// Buffer is the value of a buffer that the layer declared; the new one after Update.
func (c *Context) Buffer(name string) *array.Array { return c.value(name, "buffer") }

// Has reports whether the store has a parameter or a buffer of the layer.
func (c *Context) Has(name string) bool { return c.run.params.entry(join(c.path, name)) != nil }

func (c *Context) value(name, what string) *array.Array {
	full := join(c.path, name)
	e, turned := c.run.params.find(full)
	if e == nil {
		c.Fail(diag.Inputf("the store has no %s %s", what, full).AtTensor(full).
			WithFix("make the store of this network, by Init"))
		return c.Dead()
	}
	if c.run.rows[e.name] != nil {
		c.Fail(diag.Inputf("it is read whole, and only its rows can be: it is trained lazily").AtTensor(e.name))
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

// Rows are rows of a parameter that the layer declared, a table, by ids of any shape: what Embedding gives. A layer
// that reads nothing else of a table can be trained lazily.
func (c *Context) Rows(name string, ids *array.Array) *array.Array {
	if e := c.run.params.entry(join(c.path, name)); e != nil && c.run.rows[e.name] != nil {
		return c.run.rows[e.name](ids)
	}
	return c.Embedding(c.Param(name), ids)
}

// BindRows makes f what gives the rows of a table in this computation. A layer that reads the table otherwise is an
// error.
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

// Update gives a buffer its new value; see Updates.
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

// Updates are the new values of buffers, in the order of their first updates. In a traced step they are results that
// become states; otherwise Commit writes them.
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

// Call applies an inner layer, by the name under which it was declared.
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

// One applies an inner layer that has one result.
func (c *Context) One(name string, inner Layer, x ...*array.Array) *array.Array {
	out := c.Call(name, inner, x...)
	if len(out) == 0 {
		c.Fail(diag.Inputf("the layer %s has no result", join(c.path, name)))
		return c.Dead()
	}
	return out[0]
}

// place names a layer in errors: "2.conv1 (Conv2d)".
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

// Failf keeps an error of the layer in the scope, and returns results that operations pass on: a layer returns them.
func (c *Context) Failf(fix, format string, args ...any) []*array.Array {
	e := diag.Inputf(format, args...)
	if fix != "" {
		e = e.WithFix("%s", fix)
	}
	c.Fail(e)
	return []*array.Array{c.Dead()}
}

// takes reports whether a layer was given a number of inputs.
func (c *Context) takes(n int, x []*array.Array) bool {
	if len(x) != n {
		c.Failf("", "%d inputs are given, the layer takes %d", len(x), n)
	}
	return len(x) == n && c.Err() == nil
}

// Apply computes a network's results.
func Apply(c *Context, net Layer, x ...*array.Array) []*array.Array { return c.Call("", net, x...) }

// One computes the result of a network that has one.
func One(c *Context, net Layer, x ...*array.Array) *array.Array { return c.One("", net, x...) }

// Predict computes a network's result of inputs in a scope, as Inference does. It returns the scope's error.
func Predict(s *array.Scope, net Layer, p *Params, x ...*array.Array) (*array.Array, error) {
	y := One(Inference(s, p), net, x...)
	return y, s.Err()
}
