package tokenizer

import "math"

// window is a range of the tokens of one text.
type window struct{ begin, end int }

// windows cuts n tokens into the part that stays, which is the first, and if overflow is set those that overflow. It
// appends them to w.
func windows(w []window, n, most int, o *Truncation, overflow bool) ([]window, error) {
	if most >= n {
		return append(w, window{0, n}), nil
	}
	if most == 0 && overflow {
		return append(w, window{0, 0}, window{0, n}), nil
	}
	if most == 0 {
		return append(w, window{0, 0}), nil
	}
	if o.Stride >= most {
		return nil, input("the stride of truncation must be less than the tokens that are left for the text")
	}
	step := most - o.Stride
	if !overflow {
		step = n
	}
	if o.Side == Right {
		for begin := 0; begin < n; begin += step {
			w = append(w, window{begin, min(begin+most, n)})
			if begin+most >= n {
				break
			}
		}
		return w, nil
	}
	for end := n; end > 0; end -= step {
		w = append(w, window{max(0, end-most), end})
		if end <= most {
			break
		}
	}
	return w, nil
}

// limits returns the most tokens of each text; second is negative if there is one text.
func limits(first, second int, o *Truncation, most int) (int, int, error) {
	total := first + max(second, 0)
	if most == 0 {
		return 0, 0, nil
	}
	if total <= most {
		return first, second, nil
	}
	excess := total - most
	switch {
	case o.Strategy == LongestFirst && second < 0:
		return most, second, nil
	case o.Strategy == LongestFirst:
		short, long := min(first, second), max(first, second)
		if short > most {
			long = short
		} else {
			long = max(short, most-short)
		}
		if short+long > most {
			short = most / 2
			long = short + most%2
		}
		if first > second {
			short, long = long, short
		}
		return short, long, nil
	case o.Strategy == OnlySecond && second < 0:
		return 0, 0, input("truncation of the second text is asked for, and there is one text")
	}
	target := &first
	if o.Strategy == OnlySecond {
		target = &second
	}
	if *target <= excess {
		return 0, 0, input("the text to truncate is too short for the limit")
	}
	*target -= excess
	return first, second, nil
}

// truncation returns what limits the tokens of a call, or nil.
func (t *Tokenizer) truncation(o *Options) *Truncation {
	cut := t.cut
	if o.Truncation != nil {
		cut = o.Truncation
	}
	if cut == nil || cut.Off {
		return nil
	}
	return cut
}

// padding returns how the encodings of a call are padded, or nil.
func (t *Tokenizer) padding(o *Options) *Padding {
	pad := t.pad
	if o.Padding != nil {
		pad = o.Padding
	}
	if pad == nil || pad.Off {
		return nil
	}
	return pad
}

// encodeTexts makes the tokens of one text or two in the scratch, and returns the windows of each.
func (t *Tokenizer) encodeTexts(s *scratch, texts []string, o *Options, whole bool) (pl *plan, cuts [2][]window,
	err error) {
	pair, special := len(texts) == 2, !o.NoSpecial
	pl = &t.plans[index(pair)][index(special)]
	if !t.planned[index(pair)] {
		return nil, cuts, unsupported("the post-processor's template has no place for these texts")
	}
	cut := t.truncation(o)
	most := math.MaxInt
	if cut != nil {
		if cut.Max < 0 || cut.Stride < 0 {
			return nil, cuts, input("a limit or stride of truncation is negative")
		}
		if most = cut.Max; special {
			if most -= pl.special; most < 0 {
				return nil, cuts, input("the limit of truncation leaves no room for the special tokens")
			}
		}
	}
	outs := [2]*encoded{&s.first, &s.second}
	counts := [2]int{0, -1}
	for i, text := range texts {
		if len(text) > math.MaxInt32/16 {
			return nil, cuts, input("a text has 128 MiB or more")
		}
		s.longest = max(s.longest, len(text))
		if err := t.run(s, outs[i], text, whole); err != nil {
			return nil, cuts, err
		}
		counts[i] = len(outs[i].ids)
	}
	if cut == nil {
		return pl, cuts, nil
	}
	var most2 [2]int
	if most2[0], most2[1], err = limits(counts[0], counts[1], cut, most); err != nil {
		return nil, cuts, err
	}
	for i := range texts {
		if s.cuts[i], err = windows(s.cuts[i][:0], counts[i], most2[i], cut, o.Overflow); err != nil {
			return nil, cuts, err
		}
		cuts[i] = s.cuts[i]
	}
	return pl, cuts, nil
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// build makes the encoding of texts whose tokens are in the scratch.
func (t *Tokenizer) build(s *scratch, pl *plan, cuts [2][]window) Encoding {
	texts := [2]*encoded{&s.first, &s.second}
	for i := range cuts {
		if cuts[i] == nil {
			cuts[i] = []window{{0, len(texts[i].ids)}}
		}
	}
	var joined joint
	for _, p := range pl.parts {
		n := 1
		if p.text >= 0 {
			n = len(cuts[p.text])
		}
		joined = joined.with(0, n)
	}
	return pl.encodings(texts, cuts, joined, false)
}

// joint is the windows of parts that an encoding joins: for each part the number of its text's window. Like the
// reference's encodings, it has others that overflow, and these have others too.
type joint struct {
	windows  []int
	overflow []joint
}

// with joins window k of another part to j, and if k is 0 the part's other windows, of n, to what overflows.
func (j joint) with(k, n int) joint {
	if k > 0 {
		n = 0
	}
	out := joint{windows: append(j.windows[:len(j.windows):len(j.windows)], k)}
	for _, o := range j.overflow {
		out.overflow = append(out.overflow, o.with(k, n))
		for other := 1; other < n; other++ {
			out.overflow = append(out.overflow, o.with(other, n))
		}
	}
	for other := 1; other < n; other++ {
		out.overflow = append(out.overflow, j.with(other, n))
	}
	return out
}

// encodings makes the encoding of joint windows, and those that overflow.
func (pl *plan) encodings(texts [2]*encoded, cuts [2][]window, j joint, overflow bool) Encoding {
	e := pl.encoding(texts, cuts, j.windows, overflow)
	for _, o := range j.overflow {
		e.Overflow = append(e.Overflow, pl.encodings(texts, cuts, o, true))
	}
	return e
}

// encoding joins the parts' windows that a choice says.
func (pl *plan) encoding(texts [2]*encoded, cuts [2][]window, choice []int, overflow bool) Encoding {
	n := 0
	for i, p := range pl.parts {
		if p.text < 0 {
			n++
		} else {
			w := cuts[p.text][choice[i]]
			n += w.end - w.begin
		}
	}
	numbers := make([]int32, 4*n)
	e := Encoding{
		IDs: numbers[:0:n], Mask: numbers[n : n : 2*n], Types: numbers[2*n : 2*n : 3*n], Words: numbers[3*n : 3*n],
		Offsets: make([]Span, 0, n), Special: make([]bool, 0, n),
	}
	for i, p := range pl.parts {
		if p.text < 0 {
			kind := p.kind
			e.add(p.id, Span{}, kind, -1, 1, true)
			continue
		}
		w, from := cuts[p.text][choice[i]], texts[p.text]
		kind := p.kind
		if overflow && choice[i] > 0 {
			kind = p.overflow
		}
		for j := w.begin; j < w.end; j++ {
			at := from.at[j]
			for _, step := range p.trims {
				at = trimmed(from.text, at, from.trims[j], j == w.begin && !step.after, step.prefix)
			}
			e.add(from.ids[j], at, kind, from.words[j], 1, false)
		}
	}
	return e
}

func (e *Encoding) add(id int32, at Span, kind, word, mask int32, special bool) {
	e.IDs = append(e.IDs, id)
	e.Offsets = append(e.Offsets, at)
	e.Types = append(e.Types, kind)
	e.Words = append(e.Words, word)
	e.Mask = append(e.Mask, mask)
	e.Special = append(e.Special, special)
}

// extend pads an encoding, and those that overflow, to n tokens.
func (e *Encoding) extend(n int, p *Padding) {
	for i := range e.Overflow {
		e.Overflow[i].extend(n, p)
	}
	if len(e.IDs) >= n {
		return
	}
	old := *e
	e.IDs, e.Offsets = make([]int32, 0, n), make([]Span, 0, n)
	e.Types, e.Words = make([]int32, 0, n), make([]int32, 0, n)
	e.Mask, e.Special = make([]int32, 0, n), make([]bool, 0, n)
	fill := func() {
		for range n - len(old.IDs) {
			e.add(p.ID, Span{}, p.Type, -1, 0, true)
		}
	}
	if p.Side == Left {
		fill()
	}
	e.IDs, e.Offsets = append(e.IDs, old.IDs...), append(e.Offsets, old.Offsets...)
	e.Types, e.Words = append(e.Types, old.Types...), append(e.Words, old.Words...)
	e.Mask, e.Special = append(e.Mask, old.Mask...), append(e.Special, old.Special...)
	if p.Side == Right {
		fill()
	}
}

// padAll pads the encodings of a batch.
func padAll(es []Encoding, p *Padding) error {
	if p == nil {
		return nil
	}
	if p.Length < 0 || p.Multiple < 0 || p.Length > math.MaxInt32/16 || p.Multiple > math.MaxInt32/16 {
		return input("a length of padding is negative, or 2^27 or more")
	}
	n := p.Length
	if n == 0 && !p.fixed {
		for i := range es {
			n = max(n, len(es[i].IDs))
		}
	}
	if p.Multiple > 0 && n%p.Multiple > 0 {
		n += p.Multiple - n%p.Multiple
	}
	for i := range es {
		es[i].extend(n, p)
	}
	return nil
}
