package onnx

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
)

// given is the first input, of any form; nil where there is none.
func (c *call) given() *ir.Value {
	if len(c.In) == 0 {
		return nil
	}
	return c.In[0]
}

// optional: an optional of its input, or, without one, of a type with nothing in it.
func optional(c *call) []*ir.Value {
	g := c.graph
	if v := c.given(); v != nil {
		f := g.formOf(v)
		if f.kind >= Optional {
			c.Fault("an optional of %s", f)
		}
		f.kind |= Optional
		return one(g.from(f, g.as(v, f)))
	}
	a := c.attr("type", wire.AttributeTypeProto)
	if a == nil || a.TP == nil {
		c.Fault("there is neither a value nor a type")
	}
	p, err := portOf(&wire.ValueInfoProto{Name: c.Source, Type: a.TP}, false, nil)
	if err != nil {
		if e := diag.As(err, diag.ErrUnsupported); e != nil {
			err = e.AtNode(c.Source, c.Node.OpType)
		}
		c.Fail(err)
	}
	p.Kind |= Optional
	return one(g.stand(&composite{form: p.form(), parts: []*ir.Value{g.truth(false)}, absent: true}))
}

// optionalHasElement: what is no optional has something, and no input nothing.
func optionalHasElement(c *call) []*ir.Value {
	v := c.given()
	if v == nil {
		return one(c.graph.truth(false))
	}
	if o := c.graph.composites[v]; o != nil && o.kind >= Optional {
		return one(o.parts[0])
	}
	return one(c.graph.truth(true))
}

func optionalGetElement(c *call) []*ir.Value {
	v := c.given()
	if v == nil {
		c.Fault("the input is missing")
	}
	return one(c.graph.get(v))
}
