package tokenizer

import (
	"fmt"
	"strings"
)

// readAdded reads the added tokens, and numbers them as the reference does: a token of the model keeps its id, others
// follow the last one.
func (t *Tokenizer) readAdded(v value) error {
	if v.isNull() {
		return nil
	}
	list, err := v.list()
	if err != nil {
		return err
	}
	next := t.vocabulary.size
	var s scratch
	for _, v := range list {
		a, err := readAddedToken(v)
		if err != nil {
			return err
		}
		if a.content == "" {
			continue
		}
		id, ok := t.addedIDs[a.content]
		if !ok {
			id, ok = t.vocabulary.ids[a.content]
		}
		if !ok {
			id = int32(next)
			next++
		}
		a.id, a.normal = id, a.content
		if a.normalized && t.normalizer != nil {
			s.text.limit(len(a.content))
			s.text.reset(a.content, 0)
			if err := t.normalizer.normalize(&s.text, &s); err != nil {
				return err
			}
			a.normal = strings.Clone(s.text.s)
		}
		if at, ok := t.byID[id]; ok {
			t.added[at] = a
			t.name(a)
		} else {
			t.add(a)
		}
	}
	if odd := t.match(); odd >= 0 {
		return v.fault(fmt.Sprintf("the token %s is empty or equal to another one after normalisation",
			quote(t.added[odd].content)))
	}
	return nil
}

// add adds a token whose id is known.
func (t *Tokenizer) add(a addedToken) {
	t.name(a)
	t.byID[a.id] = len(t.added)
	t.added = append(t.added, a)
}

// name makes a token known by its content.
func (t *Tokenizer) name(a addedToken) {
	t.addedIDs[a.content] = a.id
	if a.special {
		t.special[a.content] = true
	}
}

// match makes the matchers of the added tokens. It returns the index of one that is empty or equal to another one after
// normalisation; otherwise it is negative.
func (t *Tokenizer) match() (odd int) {
	if t.exact, odd = newMatcher(t.added, false); odd >= 0 {
		return odd
	}
	t.normal, odd = newMatcher(t.added, true)
	return odd
}

func readAddedToken(v value) (a addedToken, err error) {
	o, err := v.object()
	if err != nil {
		return a, err
	}
	if _, err = o.number("id"); err != nil {
		return a, err
	}
	if a.content, err = o.text("content"); err != nil {
		return a, err
	}
	f, err := o.flags("single_word", "lstrip", "rstrip", "normalized", "special")
	if err != nil {
		return a, err
	}
	a.single, a.left, a.right, a.normalized, a.special = f[0], f[1], f[2], f[3], f[4]
	return a, nil
}

// readProcessor reads the post-processor, and makes the plans for one text and two.
func (t *Tokenizer) readProcessor(v value) error {
	var p processor
	if !v.isNull() {
		q, err := readProcessors(v, 0)
		if err != nil {
			return err
		}
		p = q
		for _, step := range q {
			if _, ok := step.(trimOffsets); ok {
				t.trims = true
			}
		}
	}
	t.process(p)
	return nil
}

// process makes the plans of a post-processor, which may be nil.
func (t *Tokenizer) process(p processor) {
	for _, pair := range []bool{false, true} {
		ok := true
		for _, special := range []bool{false, true} {
			var made bool
			t.plans[index(pair)][index(special)], made = newPlan(p, pair, special)
			ok = ok && made
		}
		t.planned[index(pair)] = ok
	}
}

func readProcessors(v value, depth int) (processors, error) {
	o, kind, err := v.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		list, err := readSequence(o, "processors", depth)
		if err != nil {
			return nil, err
		}
		var q processors
		for _, v := range list {
			p, err := readProcessors(v, depth+1)
			if err != nil {
				return nil, err
			}
			q = append(q, p...)
		}
		return q, nil
	case "BertProcessing", "RobertaProcessing":
		sep, err := o.special("sep")
		if err != nil {
			return nil, err
		}
		cls, err := o.special("cls")
		if err != nil || kind == "BertProcessing" {
			return processors{bertProcessing{sep, cls}}, err
		}
		f, err := o.flags("trim_offsets", "add_prefix_space")
		if err != nil {
			return nil, err
		}
		if f[0] {
			return processors{trimOffsets{f[1]}, robertaProcessing{sep, cls}}, nil
		}
		return processors{robertaProcessing{sep, cls}}, nil
	case "ByteLevel":
		f, err := o.flags("add_prefix_space", "trim_offsets")
		if err != nil || !f[1] {
			return nil, err
		}
		return processors{trimOffsets{f[0]}}, nil
	case "TemplateProcessing":
		p, err := readTemplates(o)
		return processors{p}, err
	}
	return nil, o.refuse(kind, []string{"BertProcessing", "RobertaProcessing", "TemplateProcessing", "ByteLevel",
		"Sequence"})
}

func readTemplates(o object) (p templateProcessing, err error) {
	tokens, err := o.get("special_tokens").object()
	if err != nil {
		return p, err
	}
	if p.single, err = readTemplate(o.get("single"), tokens); err != nil {
		return p, err
	}
	p.pair, err = readTemplate(o.get("pair"), tokens)
	return p, err
}

func readTemplate(v value, tokens object) ([]templatePiece, error) {
	list, err := v.list()
	if err != nil {
		return nil, err
	}
	var pieces []templatePiece
	n := 0
	for _, v := range list {
		piece, err := readTemplatePiece(v, tokens)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece)
		if n += len(piece.ids); n > maxTemplate {
			return nil, unsupported(fmt.Sprintf("%s: there are more than %d special tokens", v.path, maxTemplate))
		}
	}
	return pieces, nil
}

func readTemplatePiece(v value, tokens object) (p templatePiece, err error) {
	o, err := v.object()
	if err != nil {
		return p, err
	}
	which := o.get("Sequence")
	if which.isNull() {
		which = o.get("SpecialToken")
	}
	inner, err := which.object()
	if err != nil {
		return p, v.fault("expected a Sequence or a SpecialToken")
	}
	kind, err := inner.number("type_id")
	if err != nil {
		return p, err
	}
	p.kind = int32(kind)
	id, err := inner.text("id")
	if err != nil {
		return p, err
	}
	if !o.get("Sequence").isNull() {
		p.text = strings.Index("AB", id)
		if len(id) != 1 || p.text < 0 {
			return p, inner.get("id").fault("expected A or B")
		}
		return p, nil
	}
	p.text = -1
	token, err := tokens.get(id).object()
	if err != nil {
		return p, err
	}
	p.ids, err = decode[[]int32](token.get("ids"), "a list of ids")
	return p, err
}

func readTruncation(v value) (*Truncation, error) {
	if v.isNull() {
		return nil, nil
	}
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	c := &Truncation{}
	if c.Max, err = o.number("max_length"); err != nil {
		return nil, err
	}
	if c.Stride, err = o.number("stride"); err != nil {
		return nil, err
	}
	name, err := o.text("strategy")
	if err != nil {
		return nil, err
	}
	strategies := map[string]Strategy{"LongestFirst": LongestFirst, "OnlyFirst": OnlyFirst, "OnlySecond": OnlySecond}
	ok := false
	if c.Strategy, ok = strategies[name]; !ok {
		return nil, o.get("strategy").fault("expected LongestFirst, OnlyFirst or OnlySecond")
	}
	if o.get("direction").isNull() {
		return c, nil
	}
	c.Side, err = o.side()
	return c, err
}

func (o object) side() (Side, error) {
	name, err := o.text("direction")
	switch {
	case err != nil:
		return 0, err
	case name == "Left":
		return Left, nil
	case name == "Right":
		return Right, nil
	}
	return 0, o.get("direction").fault("expected Left or Right")
}

// maxPadding is the greatest length that a file can ask for.
const maxPadding = 1 << 20

func readPadding(v value) (*Padding, error) {
	if v.isNull() {
		return nil, nil
	}
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	p := &Padding{}
	if p.Side, err = o.side(); err != nil {
		return nil, err
	}
	strategy := o.get("strategy")
	if name, err := decode[string](strategy, "a name"); err != nil || name != "BatchLongest" {
		fixed, err := strategy.object()
		if err != nil {
			return nil, strategy.fault(`expected "BatchLongest" or {"Fixed": length}`)
		}
		if p.Length, err = fixed.number("Fixed"); err != nil {
			return nil, err
		}
		p.fixed = true
	}
	if !o.get("pad_to_multiple_of").isNull() {
		if p.Multiple, err = o.number("pad_to_multiple_of"); err != nil {
			return nil, err
		}
	}
	id, err := o.number("pad_id")
	if err != nil {
		return nil, err
	}
	kind, err := o.number("pad_type_id")
	if err != nil {
		return nil, err
	}
	if p.Length > maxPadding || p.Multiple > maxPadding {
		return nil, unsupported(fmt.Sprintf("%s: a length of more than %d is not supported", v.path, maxPadding))
	}
	p.ID, p.Type = int32(id), int32(kind)
	_, err = o.text("pad_token")
	return p, err
}
