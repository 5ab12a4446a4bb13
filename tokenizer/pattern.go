package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/text/pattern"
)

// finder finds a text, or the matches of a regular expression as the reference's engine understands it.
type finder struct {
	text    string
	pattern *pattern.Pattern // nil: the text is found
}

// compile returns the finder of a regular expression; path is its place in the file.
func compile(source, path string) (finder, error) {
	p, err := pattern.Compile(source)
	if err != nil {
		return finder{}, placed(err, path+": the pattern "+quote(source))
	}
	return finder{pattern: p}, nil
}

// walk goes through the matches in a text as the reference does: an empty match directly after a match is none. The
// empty text is found everywhere.
type walk struct {
	text, literal string
	from          int
	last          int // the end of the last match; -1: there is none
	regular       bool
	matches       pattern.Matches // if regular is set
}

// walk returns a walk before the first match.
func (f *finder) walk(text string) walk {
	w := walk{text: text, literal: f.text, last: -1, regular: f.pattern != nil}
	if w.regular {
		w.matches = f.pattern.Matches(text)
	}
	return w
}

// next returns the bounds of the next match.
func (w *walk) next() (begin, end int, ok bool) {
	if w.regular {
		ok = w.matches.Next()
		return w.matches.Begin, w.matches.End, ok
	}
	for w.from <= len(w.text) {
		n := strings.Index(w.text[w.from:], w.literal)
		if n < 0 {
			break
		}
		begin = w.from + n
		end = begin + len(w.literal)
		if begin == end && end == w.last {
			_, n := utf8.DecodeRuneInString(w.text[w.from:])
			w.from += max(n, 1)
			continue
		}
		w.from, w.last = end, end
		return begin, end, true
	}
	w.from = len(w.text) + 1
	return 0, 0, false
}

// err returns the error of a search that took too many steps, or nil.
func (w *walk) err() error {
	if w.regular {
		return w.matches.Err()
	}
	return nil
}
