package onnx

import (
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ops"
)

// A graph is converted from its beginning to its end, and some of what a node needs to know is known at the end only: whether what a loop's body yields has
// the shape that it was given, or whether what follows a branch can be valid. So a conversion takes the simple for granted; where that turns out wrong, it notes so and begins again. Nothing is rolled back.

// mostAttempts is how often a model is converted at most, mostWork how many nodes are converted again, or inside branches that they do not stand in.
const (
	mostAttempts = 256
	mostWork     = 1 << 17
)

// errAgain ends a conversion that found out something which should have been known before.
var errAgain = errors.New("the conversion begins again")

// attempt is what the conversions of a model have found out so far. Places are paths of nodes, the same in every conversion.
type attempt struct {
	count  int
	last   string // the node that asked for another attempt
	bodies map[*wire.GraphProto]int
	varies map[string][]ops.LoopExtent // by the place of a loop: what changes from one iteration to the next
	forms  map[string][]form           // by the place of a loop: what its carried values are
	forks  map[string]fork             // by the place of an If whose branches' results differ in rank
	work   int                         // nodes converted again, in all attempts
}

func newAttempt() *attempt {
	return &attempt{bodies: map[*wire.GraphProto]int{}, varies: map[string][]ops.LoopExtent{}, forms: map[string][]form{}, forks: map[string]fork{}}
}

// place is the path of the node under conversion.
func (g *graph) place() string { return g.path + "/" + g.at }

// inside is the path of a graph inside the node under conversion.
func (g *graph) inside(proto *wire.GraphProto) string {
	known := g.attempt.bodies
	if _, ok := known[proto]; !ok {
		known[proto] = len(known)
	}
	return fmt.Sprintf("%s:%d", g.place(), known[proto])
}

// again begins the conversion anew.
func (c *call) again() {
	c.graph.attempt.last = c.Source
	c.Fail(errAgain)
}
