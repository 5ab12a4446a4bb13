package serve

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
)

// digests returns the digests of tokens: a lookup of a digest takes the same time for every wrong token.
func digests(tokens []string) map[[32]byte]bool {
	all := map[[32]byte]bool{}
	for _, t := range tokens {
		all[sha256.Sum256([]byte(t))] = true
	}
	return all
}

// allowed returns an error unless the request has one of the server's bearer tokens, or the server has none.
func (s *Server) allowed(header string) error {
	if len(s.tokens) == 0 {
		return nil
	}
	if token, ok := bearer(header); ok && s.tokens[sha256.Sum256([]byte(token))] {
		return nil
	}
	return &refusal{http.StatusUnauthorized, codes.Unauthenticated, "the request needs a bearer token of this server"}
}

// bearer returns the token of a header.
func bearer(header string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "bearer")
}

// elsewhere is the error of a management call on a listener that does not answer them.
var elsewhere = &refusal{http.StatusForbidden, codes.PermissionDenied,
	"management calls are answered on another listener: see --manage"}
