package tokenizer

import (
	"encoding/json"
	"math"
	"strings"
)

// scanner reads objects, lists, and what is long in a file: vocabularies and merges. The file is known to be valid JSON
// of UTF-8, so that a scanner need not check it. What is unusual it leaves to package json, which reads everything, and
// takes longer.
type scanner struct {
	raw []byte
	at  int
}

// next passes white space and one byte, and reports whether it is c.
func (s *scanner) next(c byte) bool {
	for ; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case ' ', '\t', '\n', '\r':
			continue
		case c:
			s.at++
			return true
		}
		return false
	}
	return false
}

// quoted passes the rest of a string with its closing quote, and reports whether it has escapes.
func (s *scanner) quoted() (escaped, ok bool) {
	for ; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case '"':
			s.at++
			return escaped, true
		case '\\':
			escaped = true
			s.at++
		}
	}
	return escaped, false
}

// text passes a string, and returns its characters: if it has no escapes, in the file's memory.
func (s *scanner) text() (string, bool) {
	if !s.next('"') {
		return "", false
	}
	begin := s.at
	escaped, ok := s.quoted()
	if !ok {
		return "", false
	}
	if !escaped {
		return view(s.raw[begin : s.at-1]), true
	}
	var text string
	err := json.Unmarshal(s.raw[begin-1:s.at], &text)
	return text, err == nil
}

// integer passes a number from 0 to 2^31-1 that is written in digits alone.
func (s *scanner) integer() (int32, bool) {
	s.next(0) // white space
	n, begin := int64(0), s.at
	for ; s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' && n <= math.MaxInt32; s.at++ {
		n = 10*n + int64(s.raw[s.at]-'0')
	}
	if s.at == begin || n > math.MaxInt32 || s.at < len(s.raw) && strings.IndexByte(".eE", s.raw[s.at]) >= 0 {
		return 0, false
	}
	return int32(n), true
}

// elements passes an object or a list, between open and end, and calls one to pass each member or element. It reports
// whether all were passed.
func (s *scanner) elements(open, end byte, one func() bool) bool {
	if !s.next(open) {
		return false
	}
	if s.next(end) {
		return true
	}
	for one() {
		if s.next(end) {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
	return false
}

// value passes a value, and returns its bytes.
func (s *scanner) value() []byte {
	s.next(0) // white space
	begin, depth := s.at, 0
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case '"':
			s.at++
			s.quoted()
			if depth == 0 {
				return s.raw[begin:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth == 0 {
					s.at++
				}
				return s.raw[begin:s.at]
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return s.raw[begin:s.at]
			}
		}
		s.at++
	}
	return s.raw[begin:]
}

// scanObject reads an object's members, and scanList a list's elements, whose bytes are the file's; ok is false if
// package json must read them.
func scanObject(raw []byte) (members map[string]json.RawMessage, ok bool) {
	s := scanner{raw: raw}
	members = map[string]json.RawMessage{}
	ok = s.elements('{', '}', func() bool {
		name, isText := s.text()
		if !isText || !s.next(':') {
			return false
		}
		members[strings.Clone(name)] = s.value()
		return true
	})
	return members, ok
}

func scanList(raw []byte) (list []json.RawMessage, ok bool) {
	s := scanner{raw: raw}
	ok = s.elements('[', ']', func() bool {
		list = append(list, s.value())
		return true
	})
	return list, ok
}

// bytesOfID is the number of bytes that a token and its id take in most files, or more.
const bytesOfID = 24

// scanIDs reads an object of tokens and their ids, of which it makes no more than one copy; ok is false if package json
// must read it.
func scanIDs(raw []byte) (ids map[string]int32, ok bool) {
	s := scanner{raw: raw}
	ids = make(map[string]int32, len(raw)/bytesOfID)
	ok = s.elements('{', '}', func() bool {
		token, isText := s.text()
		if !isText || !s.next(':') {
			return false
		}
		id, isNumber := s.integer()
		if !isNumber {
			return false
		}
		ids[strings.Clone(token)] = id
		return true
	})
	return ids, ok
}

// scanMerges calls f with the pairs of a list of lists of two tokens each, whose memory is the file's; ok is false if
// package json must read the list.
func scanMerges(raw []byte, f func(i int, a, b string) error) (ok bool, err error) {
	s, i := scanner{raw: raw}, 0
	ok = s.elements('[', ']', func() bool {
		if !s.next('[') {
			return false
		}
		a, isText := s.text()
		if !isText || !s.next(',') {
			return false
		}
		b, isText := s.text()
		if !isText || !s.next(']') {
			return false
		}
		err = f(i, a, b)
		i++
		return err == nil
	})
	return ok || err != nil, err
}
