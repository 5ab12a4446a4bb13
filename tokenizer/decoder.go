package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder turns tokens into parts of a text.
type decoder interface {
	decode(tokens []string) []string
}

// decoders are steps one after the other.
type decoders []decoder

func (q decoders) decode(tokens []string) []string {
	for _, d := range q {
		tokens = d.decode(tokens)
	}
	return tokens
}

// wordPieceDecoder joins words of their pieces.
type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

// tidy drops the spaces that English does not have.
var tidy = [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
	{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}

func cleanup(s string) string {
	if strings.IndexByte(s, ' ') < 0 {
		return s
	}
	for _, pair := range tidy {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

func (d wordPieceDecoder) decode(tokens []string) []string {
	for i, token := range tokens {
		if i > 0 {
			if rest, ok := strings.CutPrefix(token, d.prefix); ok {
				token = rest
			} else {
				token = " " + token
			}
		}
		if d.cleanup {
			token = cleanup(token)
		}
		tokens[i] = token
	}
	return tokens
}

// byteLevelDecoder turns the characters of tokens into the bytes that they stand for.
type byteLevelDecoder struct{}

func (byteLevelDecoder) decode(tokens []string) []string {
	var b []byte
	for _, token := range tokens {
		before := len(b)
		for _, r := range token {
			if r >= int32(len(characterBytes)) || characterBytes[r] < 0 {
				b = append(b[:before], token...)
				break
			}
			b = append(b, byte(characterBytes[r]))
		}
	}
	return []string{lossy(b)}
}

// lossy returns bytes as a string in which U+FFFD stands for what is not UTF-8.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	s := view(b)
	var out strings.Builder
	for i := 0; i < len(s); {
		r, _ := utf8.DecodeRuneInString(s[i:])
		out.WriteRune(r)
		i += firstLength(s[i:])
	}
	return out.String()
}

// bpeDecoder replaces the suffix of words by a space.
type bpeDecoder struct{ suffix string }

func (d bpeDecoder) decode(tokens []string) []string {
	for i, token := range tokens {
		space := " "
		if i == len(tokens)-1 {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(token, d.suffix, space)
	}
	return tokens
}

// metaspaceDecoder turns metaspace's character into spaces.
type metaspaceDecoder struct{ metaspace }

func (d metaspaceDecoder) decode(tokens []string) []string {
	for i, token := range tokens {
		space := " "
		if i == 0 && d.prepend != "never" {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(token, string(d.replacement), space)
	}
	return tokens
}

// byteFallback turns tokens such as <0x61> into characters.
type byteFallback struct{}

func (byteFallback) decode(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if len(run) > 0 && utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			for range run {
				out = append(out, "\uFFFD")
			}
		}
		run = run[:0]
	}
	for _, token := range tokens {
		if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
			digits := token[3:5]
			if digits[0] == '+' { // Rust's parser takes a sign
				digits = digits[1:]
			}
			if b, err := strconv.ParseUint(digits, 16, 8); err == nil {
				run = append(run, byte(b))
				continue
			}
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

// fuse joins all parts.
type fuse struct{}

func (fuse) decode(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// stripDecoder drops a character at the ends of each part, a number of times at most.
type stripDecoder struct {
	content     rune
	start, stop int
}

func (d stripDecoder) decode(tokens []string) []string {
	content := string(d.content)
	for i, token := range tokens {
		// The reference looks for both ends in the whole token, and fails if it is one that both take.
		rest := token
		for range d.start {
			cut, ok := strings.CutPrefix(rest, content)
			if !ok {
				break
			}
			rest = cut
		}
		for range d.stop {
			cut, ok := strings.CutSuffix(rest, content)
			if !ok {
				break
			}
			rest = cut
		}
		tokens[i] = rest
	}
	return tokens
}

// replaceDecoder replaces what a pattern finds in each part.
type replaceDecoder struct{ replace }

func (d replaceDecoder) decode(tokens []string) []string {
	for i, token := range tokens {
		if token == "" {
			continue
		}
		w := d.pattern.walk(token)
		begin, end, ok := w.next()
		if !ok {
			continue
		}
		var b strings.Builder
		done := 0
		for ; ok; begin, end, ok = w.next() {
			b.WriteString(token[done:begin])
			b.WriteString(d.content)
			done = end
		}
		b.WriteString(token[done:])
		tokens[i] = b.String()
	}
	return tokens
}

// ctc drops repetitions and padding.
type ctc struct {
	pad, delimiter string
	cleanup        bool
}

func (d ctc) decode(tokens []string) []string {
	var out []string
	for i, token := range tokens {
		if i > 0 && tokens[i-1] == token {
			continue
		}
		token = strings.ReplaceAll(token, d.pad, "")
		if d.cleanup {
			token = strings.ReplaceAll(cleanup(token), d.delimiter, " ")
		}
		if token != "" {
			out = append(out, token)
		}
	}
	return out
}

// decoderTypes has a reader for each type of decoder, sequences apart.
var decoderTypes = map[string]func(o object) (decoder, error){
	"ByteLevel":    func(object) (decoder, error) { return byteLevelDecoder{}, nil },
	"ByteFallback": func(object) (decoder, error) { return byteFallback{}, nil },
	"Fuse":         func(object) (decoder, error) { return fuse{}, nil },
	"WordPiece": func(o object) (decoder, error) {
		prefix, err := o.text("prefix")
		if err != nil {
			return nil, err
		}
		tidy, err := o.flag("cleanup")
		return wordPieceDecoder{prefix, tidy}, err
	},
	"BPEDecoder": func(o object) (decoder, error) {
		suffix, err := o.text("suffix")
		if err == nil && suffix == "" { // a space is between all characters
			err = o.grow(2)
		}
		return bpeDecoder{suffix}, err
	},
	"Metaspace": func(o object) (decoder, error) {
		m, err := readMetaspace(o)
		return metaspaceDecoder{m}, err
	},
	"Strip": func(o object) (d decoder, err error) {
		var s stripDecoder
		if s.content, err = o.character("content"); err != nil {
			return nil, err
		}
		if s.start, err = o.number("start"); err != nil {
			return nil, err
		}
		s.stop, err = o.number("stop")
		return s, err
	},
	"Replace": func(o object) (decoder, error) {
		n, err := normalizers["Replace"](o)
		if err != nil {
			return nil, err
		}
		r := n.(replace)
		return replaceDecoder{r}, o.grow(1 + len(r.content)/max(1, len(r.pattern.text)))
	},
	"CTC": func(o object) (decoder, error) {
		pad, err := o.text("pad_token")
		if err != nil {
			return nil, err
		}
		delimiter, err := o.text("word_delimiter_token")
		if err != nil {
			return nil, err
		}
		if delimiter == "" {
			if err := o.grow(2); err != nil {
				return nil, err
			}
		}
		tidy, err := o.flag("cleanup")
		return ctc{pad, delimiter, tidy}, err
	},
}

func readDecoder(v value, depth int) (decoder, error) {
	o, kind, err := v.kind()
	if err != nil {
		return nil, err
	}
	if kind == "Sequence" {
		list, err := readSequence(o, "decoders", depth)
		if err != nil {
			return nil, err
		}
		var q decoders
		for _, v := range list {
			d, err := readDecoder(v, depth+1)
			if err != nil {
				return nil, err
			}
			q = append(q, d)
		}
		return q, nil
	}
	make, ok := decoderTypes[kind]
	if !ok {
		return nil, o.refuse(kind, append(names(decoderTypes), "Sequence"))
	}
	return make(o)
}
