package loop

import "github.com/weirml/weir/internal/sym"

func (p *parser) token() Stmt {
	t := &Token{Name: p.percent()}
	p.expect("[")
	t.Count = p.integer()
	p.expect("]")
	p.expect("arrivals")
	t.Arrivals = p.integer()
	return t
}

func (p *parser) roles() Stmt {
	p.enter()
	defer p.leave()
	r := &Roles{}
	p.expect("{")
	for !p.accept("}") {
		p.expect("role")
		role := &Role{Name: p.ident(), Var: p.counter()}
		p.expect("<")
		role.Count = p.integer()
		p.expect("threads")
		role.Threads = p.count()
		if p.accept("registers") {
			role.Registers = p.count()
		}
		role.Body = p.body()
		r.List = append(r.List, role)
	}
	return r
}

// barrier reads %full[i].
func (p *parser) barrier() (string, sym.Expr) {
	name := p.percent()
	p.expect("[")
	at := p.integer()
	p.expect("]")
	return name, at
}

func (p *parser) arrive() Stmt {
	a := &Arrive{}
	a.Token, a.Index = p.barrier()
	if p.accept("bytes") {
		a.Bytes = p.integer()
	}
	return a
}

func (p *parser) wait() Stmt {
	w := &Wait{}
	w.Token, w.Index = p.barrier()
	p.expect("phase")
	w.Phase = p.integer()
	return w
}

func (p *parser) bulkCopy() Stmt {
	c := &BulkCopy{}
	c.To, c.ToIndex = p.element()
	p.expect("=")
	c.From, c.FromIndex = p.element()
	p.expect("box")
	c.Box = p.index()
	p.expect("signal")
	c.Token, c.At = p.barrier()
	return c
}

func (p *parser) drain() Stmt { return &Drain{Pending: p.count()} }
