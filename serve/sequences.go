package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"

	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/oip"
)

// step waits for a request's turn in its sequence; nil if the model has no sequences, whose parameters are then passed
// over.
func (x *exchange) step(ctx context.Context, v *catalogue.Version, r *oip.Request) (*catalogue.Step, error) {
	if v.Sequences == nil {
		return nil, nil
	}
	id, ok := catalogue.SequenceID{Owner: x.owner}, true
	switch value := r.Parameters["sequence_id"].(type) {
	case nil:
	case string:
		id.Text = value
	default:
		id.Number, ok = r.Parameters.Int("sequence_id")
	}
	if !ok {
		return nil, oip.Errorf("sequence_id is %v, no string and no integer of 64 bits", r.Parameters["sequence_id"])
	}
	var flags [2]bool
	for i, name := range []string{"sequence_start", "sequence_end"} {
		if r.Parameters[name] == nil {
			continue
		}
		if flags[i], ok = r.Parameters.Flag(name); !ok {
			return nil, oip.Errorf("%s is not a boolean", name)
		}
	}
	s, err := v.Sequences.Enter(ctx, id, flags[0], flags[1])
	if err != nil {
		return nil, err
	}
	if err := s.CheckRows(r); err != nil {
		return nil, s.Done(err)
	}
	return s, nil
}

// ownerOf returns whom a request's correlation ID belongs to: a digest of the client's token and of the key of its
// certificate; empty if the server asks for neither.
func (s *Server) ownerOf(authorization string, secure *tls.ConnectionState) string {
	token := ""
	if len(s.tokens) > 0 {
		token, _ = bearer(authorization)
	}
	var key []byte
	if secure != nil && len(secure.VerifiedChains) > 0 {
		key = secure.VerifiedChains[0][0].RawSubjectPublicKeyInfo
	}
	if token == "" && key == nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", token, key))
	return string(sum[:])
}
