package command

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/manifest"
	"github.com/weirml/weir/internal/values"
)

// What a process of weir-serve takes beside its models.
const (
	serverHeap    = 48 << 20 // Go's heap: 32 MiB as in every program, and 16 MiB for connections
	serverProgram = 32 << 20 // pages of the program's own file, which the system may take back
	serverLeast   = 16 << 20 // the least memory for models that weir-serve accepts
)

// footprint is the bytes that a model takes in weir-serve, with a number of calls at a time.
type footprint struct {
	Certificate int64 `json:"certificate_bytes"` // Memory.Limit
	Requests    int64 `json:"requests_bytes"`    // the bodies of requests in progress, as binary tensors
	Responses   int64 `json:"responses_bytes"`
	// Share is what is added because the server keeps shares for models, calls and bodies apart: see serverNeeds.
	Share int64 `json:"share_bytes"`
}

// footprintOf returns the footprint at the given sizes, or the dimensions' upper bounds. The error for a dimension
// without a bound names the flag that bounds it.
func footprintOf(p *weir.Program, calls int, bound weir.Dims) (f footprint, err error) {
	m := p.Memory()
	asked, err := m.Asked(calls, bound)
	if err != nil {
		return f, unbounded(p, bound, err)
	}
	outputs, err := outputBytes(p, bound)
	if err != nil {
		return f, err
	}
	f.Certificate = asked.Total()
	n := big.NewInt(int64(calls))
	each := func(bytes int64) *big.Int { return new(big.Int).Mul(n, bodySize(bytes)) }
	requests, responses := each(min(asked.Arguments, inputBytes(p, bound, asked.Arguments))), each(outputs)
	bodies := new(big.Int).Add(requests, responses)
	sum := new(big.Int).Add(bodies, big.NewInt(f.Certificate))
	all := largest(sum, serverNeeds(asked, n, requests, responses))
	if !all.IsInt64() || all.Int64() > 1<<62 {
		return f, diag.Inputf("%d calls take more than 2⁶² bytes", calls).WithFix("lower --calls, or bind smaller dimensions")
	}
	share := all.Sub(all, sum)
	f.Requests, f.Responses, f.Share = requests.Int64(), responses.Int64(), share.Int64()
	return f, nil
}

// outputBytes returns the bytes of all outputs at the given sizes, or the upper bounds.
func outputBytes(p *weir.Program, bound weir.Dims) (int64, error) {
	outputs := p.Memory().Outputs
	if bytes, err := outputs.At(bound); err == nil {
		return bytes, nil
	}
	bytes, err := outputs.Max()
	if err != nil {
		return 0, unbounded(p, bound, err)
	}
	return bytes, nil
}

// serverNeeds returns the memory with which the server's ledger loads a model and admits n calls with these bodies. Of
// what models leave, requests get an eighth, responses and joined requests another each, and a call the rest; models
// leave at least an eighth of everything, also while one is compiled.
func serverNeeds(a weir.Asked, n, requests, responses *big.Int) *big.Int {
	call, fixed := big.NewInt(a.Call+a.Heap), big.NewInt(a.Weights+a.Files-a.Reclaimable+a.Reading+a.Code)
	one := new(big.Int).Mul(call, big.NewInt(8))
	one.Add(one.Div(one, big.NewInt(5)), big.NewInt(16)) // a call in five eighths
	runs := new(big.Int).Mul(n, new(big.Int).Add(call, big.NewInt(a.Arguments)))
	runs.Add(runs, requests).Add(runs, responses)
	running := largest(runs, one, seventh(fixed), new(big.Int).Lsh(requests, 3), new(big.Int).Lsh(responses, 3))
	compiling := big.NewInt(a.Compiling)
	return largest(running.Add(running, fixed), compiling.Add(compiling, largest(seventh(compiling), one)))
}

// largest returns a copy of the largest number.
func largest(numbers ...*big.Int) *big.Int {
	most := new(big.Int)
	for _, n := range numbers {
		if n.Cmp(most) > 0 {
			most.Set(n)
		}
	}
	return most
}

// seventh returns the least rest with which a number is seven eighths of the sum.
func seventh(n *big.Int) *big.Int {
	n = new(big.Int).Add(n, big.NewInt(6))
	return n.Div(n, big.NewInt(7))
}

// inputBytes returns the bytes of all inputs at the given sizes, or the upper bounds; otherwise, if an input is no
// tensor of numbers with known extents.
func inputBytes(p *weir.Program, bound weir.Dims, otherwise int64) int64 {
	most := map[string]int64{}
	for _, d := range p.Dims() {
		most[d.Name] = d.Max
	}
	maps.Copy(most, bound)
	sum := new(big.Int)
	for _, in := range p.Inputs() {
		bits := in.DType.Bits()
		if in.Kind != weir.TensorKind || in.Shape == nil || bits == 0 {
			return otherwise
		}
		bytes := big.NewInt(int64(bits))
		for _, e := range in.Shape {
			size, known := e.Size, true
			if e.Dim != "" {
				size, known = most[e.Dim]
			}
			if !known {
				return otherwise
			}
			bytes.Mul(bytes, big.NewInt(size))
		}
		sum.Add(sum, bytes.Add(bytes, big.NewInt(7)).Rsh(bytes, 3))
	}
	if !sum.IsInt64() {
		return otherwise
	}
	return sum.Int64()
}

// bodySize returns the bytes that the server takes for a body with so many bytes of tensors: 16 KiB for its header,
// and a buffer of the next larger size, of which each power of two has four. Small buffers are cut from larger ones.
func bodySize(tensors int64) *big.Int {
	const least, header = 256 << 10, 16 << 10
	n := new(big.Int).Add(big.NewInt(tensors), big.NewInt(header))
	size := big.NewInt(least)
	for step := big.NewInt(least / 4); size.Cmp(n) < 0; size = new(big.Int).Add(size, step) {
		if size.BitLen() > step.BitLen()+2 {
			step.Lsh(step, 1)
		}
	}
	return size
}

// unbounded returns the error of a footprint without a bound; err is what Memory returned.
func unbounded(p *weir.Program, bound weir.Dims, err error) error {
	var names, flags []string
	for _, d := range slices.Concat(p.Dims(), p.Decided()) {
		if _, given := bound[d.Name]; !given && d.Max == weir.Unbounded {
			names = append(names, d.Name)
			flags = append(flags, fmt.Sprintf("--dim %s=%d..%d", d.Name, max(d.Min, 1), max(32, 2*d.Min)))
		}
	}
	if len(names) == 0 {
		return err
	}
	return diag.Inputf("the memory has no bound, since sizes have none: %s", strings.Join(names, ", ")).
		WithFix("say the largest size that requests have, such as %s", strings.Join(flags, " "))
}

// bytes returns the sum.
func (f footprint) bytes() int64 { return f.Certificate + f.Requests + f.Responses + f.Share }

// terms explain the sum.
func (f footprint) terms(calls int) []manifest.Term {
	all := []manifest.Term{
		{Bytes: f.Certificate, What: "the certificate's limit for " + counted(calls, "call") +
			": weights, code, runs, arguments"},
		{Bytes: f.Requests, What: "bodies of requests of " + counted(calls, "call") + ", as binary tensors"},
		{Bytes: f.Responses, What: "bodies of responses"},
		{Bytes: f.Share, What: "room between the shares of models, calls and bodies, of which none gets another's"}}
	return slices.DeleteFunc(all, func(t manifest.Term) bool { return t.Bytes == 0 })
}

// counted returns a number with a noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// describe completes a server for its models' bytes, which terms explain.
func describe(s *manifest.Server, terms []manifest.Term) {
	s.Heap = serverHeap
	for _, t := range terms {
		s.Limit += t.Bytes
	}
	if s.Limit < serverLeast {
		terms = append(terms, manifest.Term{Bytes: serverLeast - s.Limit,
			What: "up to " + values.FormatBytes(serverLeast) + ", the least that weir-serve takes"})
		s.Limit = serverLeast
	}
	s.Limit += s.Heap
	s.Terms = append(terms, manifest.Term{Bytes: serverHeap, What: "Go's heap: 32MiB, and 16MiB for connections"},
		manifest.Term{Bytes: serverProgram, What: "the program's file, whose pages the system may take back"})
}
