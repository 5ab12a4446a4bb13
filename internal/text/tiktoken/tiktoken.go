// Package tiktoken reads the vocabularies of tiktoken: lines of a token in base64, a space and its rank.
package tiktoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/weirml/weir/internal/diag"
)

// Token is a string of bytes, which need not be UTF-8, and its rank, which is its id. Of two adjacent parts of a text
// those whose union has the lowest rank are joined first.
type Token struct {
	Bytes string
	Rank  int32
}

func fault(line int, format string, args ...any) error {
	return &diag.Error{Kind: diag.ErrInput, Op: "tiktoken",
		Detail: fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)}
}

// Parse returns the tokens of a file in its order. Its error is an ErrInput if a line is malformed, a token or a rank
// is there twice, or a single byte is no token. What it returns occupies at most 32 times the size of data.
func Parse(data []byte) ([]Token, error) {
	tokens := make([]Token, 0, bytes.Count(data, []byte("\n"))+1)
	names, ranks := map[string]bool{}, map[int32]bool{}
	single := 0
	for number := 1; len(data) > 0; number++ {
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		name, rank, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return nil, fault(number, "there is no rank")
		}
		n, err := strconv.ParseInt(string(rank), 10, 32)
		if err != nil || n < 0 {
			return nil, fault(number, "%.40q is no rank", rank)
		}
		token := make([]byte, base64.StdEncoding.DecodedLen(len(name)))
		size, err := base64.StdEncoding.Strict().Decode(token, name)
		if err != nil || size == 0 {
			return nil, fault(number, "%.40q is no token in base64", name)
		}
		t := Token{string(token[:size]), int32(n)}
		if names[t.Bytes] || ranks[t.Rank] {
			return nil, fault(number, "the token or its rank, %d, is there twice", t.Rank)
		}
		names[t.Bytes], ranks[t.Rank] = true, true
		if size == 1 {
			single++
		}
		tokens = append(tokens, t)
	}
	if single != 256 {
		return nil, &diag.Error{Kind: diag.ErrInput, Op: "tiktoken",
			Detail: fmt.Sprintf("%d of the 256 bytes are tokens", single)}
	}
	return tokens, nil
}
