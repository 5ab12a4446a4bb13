package parquet

import (
	"encoding/binary"
	"errors"
)

// deepest is the depth of structs and lists beyond which metadata is refused.
const deepest = 32

// errCut is metadata that ends within a value; errOdd is metadata that cannot be right.
var (
	errCut = errors.New("the metadata ends within a value")
	errOdd = errors.New("the metadata is damaged")
)

// The types of values in Thrift's compact protocol.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftShort
	thriftInt
	thriftLong
	thriftDouble
	thriftBytes
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

// skimmer passes over metadata in Thrift's compact protocol, and checks that lists and byte strings are no longer than
// the bytes that are there. A decoder allocates what they promise.
type skimmer struct {
	rest    []byte
	entries int // elements of lists that are still allowed
}

// skim returns the number of bytes of the struct at the start of data, which has at most so many elements of lists.
func skim(data []byte, entries int) (size int, err error) {
	s := &skimmer{data, entries}
	err = s.value(thriftStruct, 0)
	return len(data) - len(s.rest), err
}

// take passes over n bytes.
func (s *skimmer) take(n uint64) error {
	if n > uint64(len(s.rest)) {
		return errCut
	}
	s.rest = s.rest[n:]
	return nil
}

// octet returns the next byte.
func (s *skimmer) octet() (byte, error) {
	if len(s.rest) == 0 {
		return 0, errCut
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b, nil
}

// number returns the next number of variable length.
func (s *skimmer) number() (uint64, error) {
	n, size := binary.Uvarint(s.rest)
	switch {
	case size == 0:
		return 0, errCut
	case size < 0:
		return 0, errOdd
	}
	s.rest = s.rest[size:]
	return n, nil
}

// value passes over a value of a field. A field's boolean is its type.
func (s *skimmer) value(kind byte, depth int) error {
	if depth > deepest {
		return errOdd
	}
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return s.take(1)
	case thriftShort, thriftInt, thriftLong:
		_, err := s.number()
		return err
	case thriftDouble:
		return s.take(8)
	case thriftBytes:
		n, err := s.number()
		if err != nil {
			return err
		}
		return s.take(n)
	case thriftList, thriftSet:
		return s.list(depth)
	case thriftMap: // no metadata of Parquet has one
		return errOdd
	case thriftStruct:
		return s.fields(depth)
	}
	return errOdd
}

// fields passes over a struct's fields, and its end.
func (s *skimmer) fields(depth int) error {
	for {
		head, err := s.octet()
		if err != nil || head == thriftStop {
			return err
		}
		if head>>4 == 0 { // the number of the field follows
			if _, err := s.number(); err != nil {
				return err
			}
		}
		if err := s.value(head&15, depth+1); err != nil {
			return err
		}
	}
}

// list passes over the elements of a list, each of which takes a byte at least.
func (s *skimmer) list(depth int) error {
	head, err := s.octet()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = s.number(); err != nil {
			return err
		}
	}
	switch {
	case n > uint64(len(s.rest)):
		return errCut
	case n > uint64(s.entries):
		return errOdd
	}
	s.entries -= int(n)
	kind := head & 15
	if kind == thriftTrue || kind == thriftFalse {
		return s.take(n)
	}
	for range n {
		if err := s.value(kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}
