package timing

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/session"
)

// The times that Tune takes. Tests that tune many times set them to less.
var (
	Limit     = 10 * time.Second       // after this time no candidate is compiled
	TrialTime = 600 * time.Millisecond // the least duration of a trial
)

const (
	rounds = 3 // the least number of rounds in a trial
	runs   = 2 // the number of runs of each program in a round
	proofs = 3 // attempts to confirm all choices together, each without the choices that the last one refuted
)

// Program is a program that is tuned, or one that was compiled with other choices to compare it with.
type Program struct {
	Compiled *compiler.Compiled
	Session  *session.Session
	Labels   *report.Labels
	Dims     []Dimension // the dimensions that inputs determine
	Owner    any         // the caller's value for the program; Tune does not use it
}

// Dimension is a named dimension with its range, as weir.Dimension.
type Dimension struct {
	Name     string
	Min, Max int64
}

// Choice is a choice that differs from the scheduler's tables, with the times of its kernel, as weir.Tuning.
type Choice struct {
	Nodes, Choice string
	Before, After time.Duration
}

// Log reports an event, with pairs of names and values.
type Log func(event string, args ...any)

// Tune compiles programs with other choices than those of usual, runs each in alternation with usual on the inputs, and
// returns a program with all choices that are faster, and the list of them; nil if none is. It holds one program beside
// usual at a time. The caller closes the result.
func Tune(ctx context.Context, usual *Program, in session.Arguments, compile func(compiler.Choices) (*Program, error),
	log Log) (best *Program, list []Choice, err error) {
	end := time.Now().Add(Limit)
	choices := compiler.Tune(usual.Compiled.Candidates(), func(c compiler.Choices) (*compiler.Trial, error) {
		p, err := compile(c)
		if err != nil {
			return nil, err
		}
		defer p.close()
		t, err := p.trial(ctx, usual, in)
		if err == nil {
			log("tried", "choice", c.All.String(), "took", total(t.Times), "usual", total(t.Usual))
		}
		return t, err
	}, func() bool { return ctx.Err() == nil && time.Now().Before(end) })
	for proof := range proofs {
		if len(choices.Kernels) == 0 {
			break
		}
		tuned, err := compile(choices)
		if err != nil {
			break
		}
		t, err := tuned.trial(ctx, usual, in)
		if err != nil {
			tuned.close()
			break
		}
		log("tuned", "kernels", len(choices.Kernels), "took", total(t.Times), "usual", total(t.Usual))
		confirmed := maps.Clone(choices.Kernels)
		maps.DeleteFunc(confirmed, func(nodes string, _ compiler.Choice) bool { return t.Ratio(nodes) >= 1 })
		var took, before time.Duration // of the kernels that have choices
		for nodes := range choices.Kernels {
			took, before = took+t.Times[nodes], before+t.Usual[nodes]
		}
		if total(t.Times) < total(t.Usual) && took < before && (proof > 0 || len(confirmed) == len(choices.Kernels)) {
			return tuned, described(choices, t), nil
		}
		tuned.close()
		choices.Kernels = confirmed
	}
	return nil, nil, ctx.Err()
}

// close releases the program's memory.
func (p *Program) close() { _ = p.Session.Close(context.Background()) }

// described lists choices with their times, largest saving first.
func described(c compiler.Choices, t *compiler.Trial) (list []Choice) {
	for nodes, choice := range c.Kernels {
		list = append(list, Choice{report.Once(nodes), choice.String(), t.Usual[nodes], t.Times[nodes]})
	}
	slices.SortFunc(list, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.After-a.Before, b.After-b.Before), cmp.Compare(a.Nodes, b.Nodes))
	})
	return list
}

// total returns the sum of times.
func total(times map[string]time.Duration) (sum time.Duration) {
	for _, t := range times {
		sum += t
	}
	return sum
}

// trial runs the program in alternation with the usual one.
func (p *Program) trial(ctx context.Context, usual *Program, in session.Arguments) (*compiler.Trial, error) {
	t := &compiler.Trial{Times: map[string]time.Duration{}, Usual: map[string]time.Duration{},
		Changed: p.Compiled.Changed(usual.Compiled)}
	begin := time.Now()
	for round := 0; round < rounds || time.Since(begin) < TrialTime; round++ {
		if err := errors.Join(p.times(ctx, in, t.Times), usual.times(ctx, in, t.Usual)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// times runs the program a few times and updates the shortest times, by the nodes of its kernels. The first run of each
// round finds the caches filled by another program.
func (p *Program) times(ctx context.Context, in session.Arguments, shortest map[string]time.Duration) error {
	list, err := Profile(ctx, p.Compiled, p.Session, in, runs)
	if err != nil {
		return err
	}
	nodes := map[string]string{}
	for i, name := range p.Compiled.Program.Kernels {
		nodes[name] = p.Compiled.Nodes(i)
	}
	times := map[string]time.Duration{}
	for _, k := range list {
		key := nodes[k.Kernel]
		if k.Backend == "host" {
			key = "host " + k.Kernel
		}
		times[key] += k.Time
	}
	for key, took := range times {
		if before, ok := shortest[key]; !ok || took < before {
			shortest[key] = took
		}
	}
	return nil
}
