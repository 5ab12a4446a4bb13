package sequence

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
)

// firstInput returns the first input, which may be a tensor, a sequence or an optional; nil if there is none.
func firstInput(c *convert.Call) *ir.Value {
	if len(c.In) == 0 {
		return nil
	}
	return c.In[0]
}

// optional converts Optional: an optional that holds the input or, if there is no input, an empty optional of the
// attribute's type.
func optional(c *convert.Call) []*ir.Value {
	g := c.Scope
	if v := firstInput(c); v != nil {
		f := g.FormOf(v)
		if f.Kind >= convert.Optional {
			c.Fault("an optional of %s", f)
		}
		f.Kind |= convert.Optional
		return convert.One(g.From(f, g.As(v, f)))
	}
	a := c.Attribute("type", wire.AttributeTypeProto)
	if a == nil || a.TP == nil {
		c.Fault("there is neither a value nor a type")
	}
	p, err := convert.PortOf(&wire.ValueInfoProto{Name: c.Source, Type: a.TP}, false, nil)
	if err != nil {
		if e := diag.As(err, diag.ErrUnsupported); e != nil {
			err = e.AtNode(c.Source, c.Node.OpType)
		}
		c.Fail(err)
	}
	p.Kind |= convert.Optional
	return convert.One(g.Stand(&convert.Composite{Form: p.Form(), Components: []*ir.Value{g.Truth(false)}, Absent: true}))
}

// optionalHasElement converts OptionalHasElement. An input that is not an optional has an element; a missing input has
// none.
func optionalHasElement(c *convert.Call) []*ir.Value {
	v := firstInput(c)
	if v == nil {
		return convert.One(c.Scope.Truth(false))
	}
	if o := c.Scope.Composites[v]; o != nil && o.Kind >= convert.Optional {
		return convert.One(o.Components[0])
	}
	return convert.One(c.Scope.Truth(true))
}

// optionalGetElement converts OptionalGetElement.
func optionalGetElement(c *convert.Call) []*ir.Value {
	v := firstInput(c)
	if v == nil {
		c.Fault("the input is missing")
	}
	return convert.One(c.Scope.Get(v))
}
