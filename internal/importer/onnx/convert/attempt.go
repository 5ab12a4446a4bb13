package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ops"
)

// A graph is converted from its beginning to its end, and some of what a node needs to know is known at the end only:
// whether what a loop's body yields has the shape that it was given, or whether what follows a branch can be valid. So
// a conversion takes the simple for granted; where that turns out wrong, it notes so and begins again. Nothing is
// rolled back.

// mostAttempts is how often a model is converted at most. What is converted again, or inside branches that it does not
// stand in, is at most mostWork nodes, and moreWork for each node of the model.
const (
	mostAttempts = 256
	mostWork     = 1 << 14
	moreWork     = 32
)

// errAgain ends a conversion that found out something that it needed earlier.
var errAgain = errors.New("the conversion begins again")

// Attempt is what the conversions of a model have found out so far. Places are paths of nodes, the same in every
// conversion.
type Attempt struct {
	count  int
	last   string          // the node that asked for another attempt
	Node   *wire.NodeProto // that was converted last, wherever it stands
	Top    *wire.NodeProto // that was converted last, of the model's own graph
	bodies map[*wire.GraphProto]int
	varies map[string][]ops.LoopExtent // by the place of a loop: what changes from one iteration to the next
	forms  map[string][]Form           // by the place of a loop: what its carried values are
	forks  map[string]fork             // by the place of an If whose branches' results differ in rank
	States map[string]string           // the outputs that are new values of inputs, by those
	ones   []string                    // the dimensions that are 1 in every run
	work   int                         // how many more nodes may be converted again, in all attempts
	inline int                         // how many more nodes of functions this attempt may convert
}

// Functions that call others many times each, and those others again, make a model of any size from a small file. A
// model may have so many nodes from its functions, and so many more for each node that it writes down.
const (
	leastInlined = 20_000
	moreInlined  = 50
)

// mostInlined returns the largest number of nodes of functions that may be converted.
func mostInlined(m *wire.ModelProto) int {
	count := nodesOf(m.Graph)
	for _, f := range m.Functions {
		count += len(f.Node)
	}
	return leastInlined + moreInlined*count
}

// newAttempt returns an attempt that knows nothing yet.
func newAttempt(m *Source) *Attempt {
	return &Attempt{bodies: map[*wire.GraphProto]int{}, varies: map[string][]ops.LoopExtent{}, forms: map[string][]Form{},
		forks: map[string]fork{}, work: mostWork + moreWork*nodesOf(m.Proto.Graph)}
}

// nodesOf returns the number of nodes of a graph and its subgraphs.
func nodesOf(proto *wire.GraphProto) int {
	count := len(proto.Node)
	for _, n := range proto.Node {
		for _, a := range n.Attribute {
			if a.G != nil {
				count += nodesOf(a.G)
			}
		}
	}
	return count
}

// repeated calls try until a conversion finds out nothing that it needed earlier.
func (a *Attempt) repeated(ctx context.Context, try func() error) error {
	for ; ; a.count++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.count == mostAttempts || a.work < 0 {
			return diag.Unsupportedf("loops and branches whose shapes are not found in %d attempts", a.count).AtNode(a.last, "")
		}
		if err := try(); !errors.Is(err, errAgain) {
			return err
		}
	}
}

// place returns the path of the node under conversion.
func (g *Scope) place() string { return g.path + "/" + g.at }

// inside returns the path of a graph inside the node under conversion.
func (g *Scope) inside(proto *wire.GraphProto) string {
	known := g.Attempt.bodies
	if _, ok := known[proto]; !ok {
		known[proto] = len(known)
	}
	return fmt.Sprintf("%s:%d", g.place(), known[proto])
}

// again restarts the conversion.
func (c *Call) again() {
	c.Scope.Attempt.last = c.Source
	c.Fail(errAgain)
}
