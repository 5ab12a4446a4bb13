package mem

import "github.com/weirml/weir/internal/diag"

// Reserve returns a block without memory that counts so many bytes of Go's heap in the ledger and against the limit
// until Close, while the caller uses them.
func Reserve(kind Kind, label string, bytes int64) (*Block, error) {
	if bytes < 0 {
		return nil, diag.Inputf("a size of %d bytes is negative", bytes).AtTensor(label)
	}
	b := &Block{kind: kind, label: label, size: bytes, callers: callers()}
	if Failing(Pages) {
		return nil, refusal(b, errInjected)
	}
	if most := Machine(); bytes > most-4*pageSize {
		return nil, diag.New(diag.ErrMemory, "%s of %d bytes, and the machine has %d", label, bytes, most)
	}
	err := claim(roundUp(bytes))
	if err != nil && Trim() > 0 {
		err = claim(roundUp(bytes))
	}
	if err != nil {
		return nil, refusal(b, err)
	}
	defer unclaim(roundUp(bytes))
	b.mapped = roundUp(bytes)
	enter(b)
	return b, nil
}
