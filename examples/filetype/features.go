package main

import (
	"bytes"
	"errors"
	"io"
)

// blanks are the bytes that are stripped from both ends of a file before it becomes the model's input.
const blanks = " \t\n\r\v\f"

// features is the model's input for a file, or the file's beginning if the model is not asked.
type features struct {
	// tokens are the first beg_size and the last end_size bytes as numbers, without blanks at the file's ends. If there
	// are fewer bytes, padding_token fills the first block at its end and the last block at its beginning. Nil if the
	// model is not asked.
	tokens []int32
	// head is set if tokens is nil: all bytes of a tiny file, or the first block of a file that is nearly all blanks.
	head []byte
}

// extract reads at most one block from each end of a file of size bytes.
func (c *config) extract(file io.ReaderAt, size int64) (features, error) {
	block := min(size, int64(c.BlockSize))
	first, err := readAt(file, 0, block)
	if err != nil {
		return features{}, err
	}
	if size < int64(c.MinFileSize) {
		return features{head: first}, nil
	}
	last, err := readAt(file, size-block, block)
	if err != nil {
		return features{}, err
	}
	tokens := make([]int32, c.BegSize+c.EndSize)
	for i := range tokens {
		tokens[i] = c.PaddingToken
	}
	begin := bytes.TrimLeft(first, blanks)
	begin = begin[:min(len(begin), c.BegSize)]
	if len(begin) < c.MinFileSize {
		return features{head: first}, nil
	}
	end := bytes.TrimRight(last, blanks)
	end = end[max(0, len(end)-c.EndSize):]
	for i, b := range begin {
		tokens[i] = int32(b)
	}
	for i, b := range end {
		tokens[len(tokens)-len(end)+i] = int32(b)
	}
	return features{tokens: tokens}, nil
}

// readAt reads exactly n bytes; a file that became shorter meanwhile is an error.
func readAt(file io.ReaderAt, offset, n int64) ([]byte, error) {
	content := make([]byte, n)
	got, err := file.ReadAt(content, offset)
	if got == len(content) {
		return content, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}
