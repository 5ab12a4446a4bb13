package tokenizer

// part is an element of the template that an encoding follows: a special token, or one of the texts.
type part struct {
	text     int   // 0 or 1: the text; -1: a special token
	id       int32 // of the special token
	kind     int32 // the type
	overflow int32 // the type in what truncation cut off
	trims    []trimming
}

// trimming is a step that trims the offsets of a text's tokens.
type trimming struct {
	prefix bool // a space before the first word is not of the text
	after  bool // a special token was before the text already
}

// plan is the template for one text or for two, with special tokens or without.
type plan struct {
	parts   []part
	special int // the number of special tokens
}

// processor is a step after the model. It changes the groups of parts that encodings are joined from.
type processor interface {
	// apply returns the groups; ok is false for groups that the reference does not accept.
	apply(groups [][]part, special bool) (changed [][]part, ok bool)
	// count returns the number of special tokens that truncation leaves room for.
	count(pair bool) int
}

// processors are steps one after the other.
type processors []processor

func (q processors) apply(groups [][]part, special bool) ([][]part, bool) {
	for _, p := range q {
		var ok bool
		if groups, ok = p.apply(groups, special); !ok {
			return nil, false
		}
	}
	return groups, true
}

func (q processors) count(pair bool) (n int) {
	for _, p := range q {
		n += p.count(pair)
	}
	return n
}

// bertProcessing writes cls before the first text, and sep after each.
type bertProcessing struct{ sep, cls int32 }

func (p bertProcessing) count(pair bool) int {
	if pair {
		return 3
	}
	return 2
}

func (p bertProcessing) apply(groups [][]part, special bool) ([][]part, bool) {
	if !special {
		return groups, true
	}
	for i, g := range groups {
		if i == 0 {
			g = append([]part{{text: -1, id: p.cls}}, g...)
			groups[i] = append(g, part{text: -1, id: p.sep})
		} else {
			groups[i] = append(g, part{text: -1, id: p.sep, kind: 1, overflow: 1})
		}
	}
	return groups, true
}

// trimOffsets trims the offsets of tokens that begin or end with spaces.
type trimOffsets struct{ prefix bool }

func (p trimOffsets) count(bool) int { return 0 }

func (p trimOffsets) apply(groups [][]part, _ bool) ([][]part, bool) {
	for _, g := range groups {
		for i := range g {
			if g[i].text >= 0 {
				g[i].trims = append(g[i].trims[:len(g[i].trims):len(g[i].trims)], trimming{p.prefix, i > 0})
			}
		}
	}
	return groups, true
}

// robertaProcessing writes cls, the text and sep, and for the second text sep, the text and sep. Every type is 0.
type robertaProcessing struct{ sep, cls int32 }

func (p robertaProcessing) count(pair bool) int {
	if pair {
		return 4
	}
	return 2
}

func (p robertaProcessing) apply(groups [][]part, special bool) ([][]part, bool) {
	for i, g := range groups {
		for j := range g {
			g[j].kind = 0
			if special {
				g[j].overflow = 0
			}
		}
		if special {
			first := p.sep
			if i == 0 {
				first = p.cls
			}
			g = append([]part{{text: -1, id: first}}, g...)
			groups[i] = append(g, part{text: -1, id: p.sep})
		}
	}
	return groups, true
}

// templateProcessing follows a template.
type templateProcessing struct {
	single, pair []templatePiece
}

// templatePiece is a text, or special tokens.
type templatePiece struct {
	text int // -1: special tokens
	ids  []int32
	kind int32
}

func (p templateProcessing) count(pair bool) (n int) {
	pieces := p.single
	if pair {
		pieces = p.pair
	}
	for _, piece := range pieces {
		n += len(piece.ids)
	}
	return n
}

func (p templateProcessing) apply(groups [][]part, special bool) (changed [][]part, ok bool) {
	pieces := p.single
	switch len(groups) {
	case 1:
	case 2:
		pieces = p.pair
	default:
		return nil, false
	}
	for _, piece := range pieces {
		switch {
		case piece.text >= len(groups):
			return nil, false
		case piece.text >= 0:
			g := append([]part{}, groups[piece.text]...)
			for i := range g {
				g[i].kind = piece.kind
			}
			changed = append(changed, g)
		case special:
			var g []part
			for _, id := range piece.ids {
				g = append(g, part{text: -1, id: id, kind: piece.kind, overflow: piece.kind})
			}
			changed = append(changed, g)
		}
	}
	return changed, true
}

// newPlan returns the plan that processors make; ok is false if the reference would refuse the texts.
func newPlan(p processor, pair, special bool) (pl plan, ok bool) {
	groups := [][]part{{{text: 0}}}
	if pair {
		groups = append(groups, []part{{text: 1, kind: 1, overflow: 1}})
	}
	if p != nil {
		if groups, ok = p.apply(groups, special); !ok {
			return plan{}, false
		}
		pl.special = p.count(pair)
	}
	for _, g := range groups {
		pl.parts = append(pl.parts, g...)
	}
	return pl, true
}
