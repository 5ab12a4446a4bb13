package tokenizer

import (
	"encoding/json"
	"math"
	"strings"
)

// scanner reads the long lists of a file: vocabularies and merges. The file is known to be valid JSON of UTF-8, so that
// a scanner need not check it. What is unusual it leaves to package json, which reads everything, and takes longer.
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

// text passes a string, and returns its characters: if it has no escapes, in the file's memory.
func (s *scanner) text() (string, bool) {
	if !s.next('"') {
		return "", false
	}
	begin, escaped := s.at, false
	for ; ; s.at++ {
		if s.at >= len(s.raw) {
			return "", false
		}
		if s.raw[s.at] == '"' {
			break
		}
		if s.raw[s.at] == '\\' {
			escaped = true
			s.at++
		}
	}
	s.at++
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

// ended reports whether a list that closes with c has ended, and passes what separates elements. odd is set for
// anything else.
func (s *scanner) ended(c byte, odd *bool) bool {
	if s.next(c) {
		return true
	}
	*odd = !s.next(',')
	return *odd
}

// bytesOfID is the number of bytes that a token and its id take in most files, or more.
const bytesOfID = 24

// scanIDs reads an object of tokens and their ids, of which it makes no more than one copy; ok is false if package json
// must read it.
func scanIDs(raw []byte) (ids map[string]int32, ok bool) {
	s := scanner{raw: raw}
	if !s.next('{') {
		return nil, false
	}
	ids = make(map[string]int32, len(raw)/bytesOfID)
	if s.next('}') {
		return ids, true
	}
	for odd := false; ; {
		token, isText := s.text()
		if !isText || !s.next(':') {
			return nil, false
		}
		id, isNumber := s.integer()
		if !isNumber {
			return nil, false
		}
		ids[strings.Clone(token)] = id
		if s.ended('}', &odd) {
			return ids, !odd
		}
	}
}

// scanMerges calls f with the pairs of a list of lists of two tokens each, whose memory is the file's; ok is false if
// package json must read the list.
func scanMerges(raw []byte, f func(i int, a, b string) error) (ok bool, err error) {
	s := scanner{raw: raw}
	if !s.next('[') {
		return false, nil
	}
	if s.next(']') {
		return true, nil
	}
	for i, odd := 0, false; ; i++ {
		if !s.next('[') {
			return false, nil
		}
		a, isText := s.text()
		if !isText || !s.next(',') {
			return false, nil
		}
		b, isText := s.text()
		if !isText || !s.next(']') {
			return false, nil
		}
		if err := f(i, a, b); err != nil {
			return true, err
		}
		if s.ended(']', &odd) {
			return !odd, nil
		}
	}
}
