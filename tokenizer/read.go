package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// read makes a tokenizer of a tokenizer.json's members.
func read(o object) (*Tokenizer, error) {
	t := newTokenizer()
	if v := o.get("version"); !v.isNull() {
		if version, err := o.text("version"); err != nil || version != "1.0" {
			return nil, unsupported(v.path + ": expected the version 1.0")
		}
	}
	var err error
	if v := o.get("normalizer"); !v.isNull() {
		if t.normalizer, err = readNormalizer(v, 0); err != nil {
			return nil, err
		}
	}
	var pre stages
	if v := o.get("pre_tokenizer"); !v.isNull() {
		if pre, err = readPreTokenizer(v, 0); err != nil {
			return nil, err
		}
	}
	if err := t.readModel(o.get("model"), pre); err != nil {
		return nil, err
	}
	if len(pre) > 0 {
		t.pre = pre
	}
	if err := t.readAdded(o.get("added_tokens")); err != nil {
		return nil, err
	}
	if err := t.readProcessor(o.get("post_processor")); err != nil {
		return nil, err
	}
	if v := o.get("decoder"); !v.isNull() {
		if t.decoder, err = readDecoder(v, 0); err != nil {
			return nil, err
		}
	}
	if t.cut, err = readTruncation(o.get("truncation")); err != nil {
		return nil, err
	}
	if t.pad, err = readPadding(o.get("padding")); err != nil {
		return nil, err
	}
	return t, nil
}

// normalizers has a reader for each type of normaliser, sequences apart.
var normalizers = map[string]func(o object) (normalizer, error){
	"BertNormalizer": func(o object) (normalizer, error) {
		f, err := o.flags("clean_text", "handle_chinese_chars", "lowercase")
		if err != nil {
			return nil, err
		}
		strip, err := o.flagOr("strip_accents", f[2])
		return newBertNormalizer(f[0], f[1], strip, f[2]), err
	},
	"NFC":          func(object) (normalizer, error) { return form{compose: true}, nil },
	"NFD":          func(object) (normalizer, error) { return form{}, nil },
	"NFKC":         func(object) (normalizer, error) { return form{compatible: true, compose: true}, nil },
	"NFKD":         func(object) (normalizer, error) { return form{compatible: true}, nil },
	"Lowercase":    func(object) (normalizer, error) { return lowercase{}, nil },
	"StripAccents": func(object) (normalizer, error) { return stripAccents{}, nil },
	"Nmt":          func(object) (normalizer, error) { return nmt{}, nil },
	"ByteLevel":    func(object) (normalizer, error) { return byteLevel{}, nil },
	"Precompiled":  readPrecompiled,
	"Strip": func(o object) (normalizer, error) {
		f, err := o.flags("strip_left", "strip_right")
		if err != nil {
			return nil, err
		}
		return strip{f[0], f[1]}, nil
	},
	"Prepend": func(o object) (normalizer, error) {
		text, err := o.text("prepend")
		return prepend{text}, err
	},
	"Replace": func(o object) (normalizer, error) {
		pattern, err := readPattern(o.get("pattern"))
		if err != nil {
			return nil, err
		}
		content, err := o.text("content")
		return replace{pattern, content}, err
	},
}

func readNormalizer(v value, depth int) (normalizer, error) {
	o, kind, err := v.kind()
	if err != nil {
		return nil, err
	}
	if kind == "Sequence" {
		list, err := readSequence(o, "normalizers", depth)
		if err != nil {
			return nil, err
		}
		var q sequence
		for _, v := range list {
			n, err := readNormalizer(v, depth+1)
			if err != nil {
				return nil, err
			}
			q = append(q, n)
		}
		return q, nil
	}
	make, ok := normalizers[kind]
	if !ok {
		return nil, o.refuse(kind, append(names(normalizers), "Sequence"))
	}
	return make(o)
}

// readSequence returns the elements of a sequence.
func readSequence(o object, member string, depth int) ([]value, error) {
	if depth >= maxDepth {
		return nil, unsupported(fmt.Sprintf("%s: sequences contain sequences more than %d deep", o.path, maxDepth))
	}
	list, err := o.get(member).list()
	if o.file.steps += len(list); o.file.steps > maxSteps {
		return nil, unsupported(fmt.Sprintf("%s: sequences have more than %d elements", o.path, maxSteps))
	}
	return list, err
}

// readPattern reads {"String": …} or {"Regex": …}.
func readPattern(v value) (finder, error) {
	o, err := v.object()
	if err != nil {
		return finder{}, err
	}
	if len(o.members) == 1 {
		if _, ok := o.members["String"]; ok {
			text, err := o.text("String")
			return finder{text: text}, err
		}
		if _, ok := o.members["Regex"]; ok {
			source, err := o.text("Regex")
			if err != nil {
				return finder{}, err
			}
			if o.file.patterns++; o.file.patterns > maxPatterns {
				return finder{}, unsupported(fmt.Sprintf("%s: there are more than %d patterns", o.path, maxPatterns))
			}
			return compile(source, o.path)
		}
	}
	return finder{}, v.fault("expected a String or a Regex")
}

// preTokenizers has a reader for each type of pre-tokenizer, sequences apart.
var preTokenizers = map[string]func(o object) (preTokenizer, error){
	"BertPreTokenizer": func(object) (preTokenizer, error) { return bertSplit{}, nil },
	"Whitespace":       func(object) (preTokenizer, error) { return whitespace{}, nil },
	"UnicodeScripts":   func(object) (preTokenizer, error) { return unicodeScripts{}, nil },
	"WhitespaceSplit": func(object) (preTokenizer, error) {
		return characters{class: classSpace, how: removed}, nil
	},
	"Punctuation": func(o object) (preTokenizer, error) {
		how := isolated
		if !o.get("behavior").isNull() {
			var err error
			if how, err = o.behavior(); err != nil {
				return nil, err
			}
		}
		return characters{class: classPunctuation, how: how}, nil
	},
	"Digits": func(o object) (preTokenizer, error) {
		each, err := o.flag("individual_digits")
		how := contiguous
		if each {
			how = isolated
		}
		return characters{class: classNumber, how: how}, err
	},
	"CharDelimiterSplit": func(o object) (preTokenizer, error) { return readDelimiter(o) },
	"Delimiter":          func(o object) (preTokenizer, error) { return readDelimiter(o) },
	"FixedLength": func(o object) (preTokenizer, error) {
		if o.get("length").isNull() {
			return fixedLength{5}, nil
		}
		n, err := o.number("length")
		if err == nil && n == 0 {
			err = o.get("length").fault("expected a length of 1 or more")
		}
		return fixedLength{n}, err
	},
	"Metaspace": func(o object) (preTokenizer, error) { return readMetaspace(o) },
	"ByteLevel": func(o object) (preTokenizer, error) {
		f, err := o.flags("add_prefix_space", "trim_offsets")
		if err != nil {
			return nil, err
		}
		cut, err := o.flagOr("use_regex", true)
		if err != nil || !cut {
			return byteSplit{prefix: f[0]}, err
		}
		words, err := gpt2Words()
		return byteSplit{prefix: f[0], cut: true, words: words}, err
	},
	"Split": func(o object) (preTokenizer, error) {
		pattern, err := readPattern(o.get("pattern"))
		if err != nil {
			return nil, err
		}
		how, err := o.behavior()
		if err != nil {
			return nil, err
		}
		invert, err := o.flag("invert")
		return splitPattern{pattern, how, invert}, err
	},
}

// gpt2Words returns the pattern of ByteLevel's words.
var gpt2Words = sync.OnceValues(func() (finder, error) { return compile(gpt2, "ByteLevel") })

func (o object) behavior() (behavior, error) {
	name, err := o.text("behavior")
	how, ok := behaviors[name]
	if err == nil && !ok {
		err = o.get("behavior").fault("expected one of " + strings.Join(names(behaviors), ", "))
	}
	return how, err
}

func readDelimiter(o object) (preTokenizer, error) {
	r, err := o.character("delimiter")
	if err == nil && r == 0 {
		err = unsupported(o.get("delimiter").path + ": the character U+0000 is not supported")
	}
	return characters{only: r, how: removed}, err
}

func readMetaspace(o object) (m metaspace, err error) {
	if m.replacement, err = o.character("replacement"); err != nil {
		return m, err
	}
	m.prepend = "always"
	if v := o.get("prepend_scheme"); !v.isNull() {
		if m.prepend, err = o.text("prepend_scheme"); err != nil {
			return m, err
		}
		if m.prepend != "always" && m.prepend != "first" && m.prepend != "never" {
			return m, v.fault("expected always, first or never")
		}
	}
	before, err := o.flagOr("add_prefix_space", true)
	if err != nil {
		return m, err
	}
	if !before {
		if !o.get("prepend_scheme").isNull() && m.prepend != "never" {
			return m, o.get("add_prefix_space").fault("contradicts prepend_scheme")
		}
		if o.get("prepend_scheme").isNull() {
			return m, o.get("add_prefix_space").fault("without prepend_scheme never is refused, as by the reference")
		}
	}
	m.cut, err = o.flagOr("split", true)
	return m, err
}

// readPreTokenizer returns the stages of a pre-tokenizer, with those of sequences in it.
func readPreTokenizer(v value, depth int) (stages, error) {
	o, kind, err := v.kind()
	if err != nil {
		return nil, err
	}
	if kind == "Sequence" {
		list, err := readSequence(o, "pretokenizers", depth)
		if err != nil {
			return nil, err
		}
		var q stages
		for _, v := range list {
			p, err := readPreTokenizer(v, depth+1)
			if err != nil {
				return nil, err
			}
			q = append(q, p...)
		}
		return q, nil
	}
	make, ok := preTokenizers[kind]
	if !ok {
		return nil, o.refuse(kind, append(names(preTokenizers), "Sequence"))
	}
	p, err := make(o)
	if err != nil {
		return nil, err
	}
	return stages{p}, nil
}

// readModel reads the model. A byte-level model may make the last stage leave bytes as they are.
func (t *Tokenizer) readModel(v value, pre stages) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	kind, err := o.optionalText("type")
	if err != nil {
		return err
	}
	if kind == "" { // as old files are written
		switch {
		case !o.get("merges").isNull():
			kind = "BPE"
		case !o.get("continuing_subword_prefix").isNull():
			kind = "WordPiece"
		default:
			kind = "WordLevel"
		}
	}
	switch kind {
	case "WordPiece":
		return t.readWordPiece(o)
	case "WordLevel":
		return t.readWordLevel(o)
	case "BPE":
		return t.readBPE(o, pre)
	case "Unigram":
		return t.readUnigram(o)
	}
	return o.refuse(kind, []string{"WordPiece", "WordLevel", "BPE", "Unigram"})
}

func (t *Tokenizer) readWordLevel(o object) (err error) {
	m := &wordLevel{}
	if m.unknown, err = o.text("unk_token"); err != nil {
		return err
	}
	if m.vocabulary, err = o.vocabulary("vocab"); err != nil {
		return err
	}
	t.model, t.vocabulary = m, m.vocabulary
	return nil
}

func (t *Tokenizer) readWordPiece(o object) error {
	unknown, err := o.text("unk_token")
	if err != nil {
		return err
	}
	prefix, err := o.text("continuing_subword_prefix")
	if err != nil {
		return err
	}
	limit, err := o.number("max_input_chars_per_word")
	if err != nil {
		return err
	}
	v, err := o.vocabulary("vocab")
	if err != nil {
		return err
	}
	t.model, t.vocabulary = newWordPiece(v, unknown, prefix, limit), v
	return nil
}

func (t *Tokenizer) readBPE(o object, pre stages) (err error) {
	m := &bpe{}
	if v := o.get("dropout"); !v.isNull() {
		if p, err := decode[float64](v, "a number"); err != nil {
			return err
		} else if p != 0 {
			return unsupported(v.path + ": dropout makes ids random, and is not supported")
		}
	}
	for _, member := range []struct {
		name string
		text *string
	}{{"unk_token", &m.unknown}, {"continuing_subword_prefix", &m.prefix}, {"end_of_word_suffix", &m.suffix}} {
		if *member.text, err = o.optionalText(member.name); err != nil {
			return err
		}
	}
	for _, member := range []struct {
		name string
		flag *bool
	}{{"fuse_unk", &m.fuse}, {"byte_fallback", &m.fallback}, {"ignore_merges", &m.direct}} {
		if *member.flag, err = o.flagOr(member.name, false); err != nil {
			return err
		}
	}
	if m.vocabulary, err = o.vocabulary("vocab"); err != nil {
		return err
	}
	if err := m.readMerges(o.get("merges")); err != nil {
		return err
	}
	t.model, t.vocabulary = m, m.vocabulary
	last, raw := byteSplit{}, false
	if len(pre) > 0 {
		last, raw = pre[len(pre)-1].(byteSplit)
	}
	if m.finish(raw) {
		last.raw = true
		pre[len(pre)-1] = last
	}
	return nil
}

// readMerges reads the merges, as lists of two tokens or as strings with a space between them.
func (m *bpe) readMerges(v value) error {
	n := 0
	if ok, _ := scanMerges(v.raw, func(int, string, string) error { n++; return nil }); ok {
		m.merges = newMergeTable(n)
		_, err := scanMerges(v.raw, func(i int, a, b string) error { return m.addMerge(v, i, a, b) })
		return err
	}
	var pairs [][2]string
	lists, err := decode[[][]string](v, "a list of pairs of tokens")
	if err != nil {
		lists = nil // it has an entry for each line
		lines, err := decode[[]string](v, "a list of pairs of tokens")
		if err != nil {
			return err
		}
		for i, line := range lines {
			if strings.HasPrefix(line, "#version") {
				continue
			}
			a, b, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(b, " ") {
				return v.fault(fmt.Sprintf("merge %d, %s, is not two tokens", i, quote(line)))
			}
			pairs = append(pairs, [2]string{a, b})
		}
	}
	for i, list := range lists {
		if len(list) != 2 {
			return v.fault(fmt.Sprintf("merge %d is not two tokens", i))
		}
		pairs = append(pairs, [2]string{list[0], list[1]})
	}
	m.merges = newMergeTable(len(pairs))
	for i, p := range pairs {
		if err := m.addMerge(v, i, p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// addMerge adds merge i of a list.
func (m *bpe) addMerge(v value, i int, first, second string) error {
	a, okA := m.vocabulary.ids[first]
	b, okB := m.vocabulary.ids[second]
	if len(second) < len(m.prefix) || !utf8.ValidString(second[len(m.prefix):]) {
		return v.fault(fmt.Sprintf("merge %d: %s does not begin with %s", i, quote(second), quote(m.prefix)))
	}
	var room [64]byte
	joined := append(append(room[:0], first...), second[len(m.prefix):]...)
	c, okC := m.vocabulary.ids[string(joined)]
	if !okA || !okB || !okC {
		return v.fault(fmt.Sprintf("merge %d: %s, %s or what they give is not in the vocabulary", i, quote(first),
			quote(second)))
	}
	m.merges.set(a, b, uint32(i), c)
	return nil
}
