package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// A graph is converted from its beginning to its end, but some facts that a node needs are known only at the end:
// whether the values that a loop's body yields have the shapes that they began with, or whether the nodes after a
// branch can be valid. A conversion therefore assumes the simple case; if that turns out wrong, it records the fact and
// the conversion begins again. Nothing is rolled back.

// mostAttempts is the largest number of conversions of a model. At most mostWork nodes, and moreWork for each node of
// the model, are converted again or as part of a branch that they do not belong to.
const (
	mostAttempts = 256
	mostWork     = 1 << 14
	moreWork     = 32
)

// errAgain ends a conversion that found a fact which it needed earlier.
var errAgain = errors.New("the conversion begins again")

// Attempt holds the facts that the conversions of a model have found so far. Loops and Ifs are identified by the paths
// of their nodes, which are the same in every conversion.
type Attempt struct {
	count      int
	last       string          // the node that asked for another attempt
	Node       *wire.NodeProto // the node that was converted last, in any graph
	Top        *wire.NodeProto // the node of the model's own graph that was converted last
	bodies     map[*wire.GraphProto]int
	varies     map[string][]ops.LoopExtent // by a loop's path: what changes from one iteration to the next
	forms      map[string][]Form           // by a loop's path: the forms of its carried values
	forks      map[string]fork             // by the path of an If or Squeeze whose results differ in rank
	ranked     bool                        // every output has one rank in all runs
	States     map[string]string           // the outputs that are new values of inputs, by the inputs' names
	asked      map[string]sym.Range        // the ranges of dimensions that the caller gives
	narrow     bool                        // the ranges of dimensions decide the rank of a result
	sized      bool                        // the extent of an axis decides the rank of a result
	repeats    repeats                     // whether operands may repeat that only a run knows to have an extent of 1
	found      map[sym.Name]sym.Range      // the ranges that earlier attempts' conditions leave, and these conditions
	conditions []ir.Require
	work       int // how many more nodes may be converted again, in all attempts
	inline     int // how many more nodes of functions this attempt may convert
}

// Functions that call others many times each, which call others in turn, make a model of any size from a small file.
// The functions of a model may expand to leastInlined nodes, and moreInlined for each node in the file.
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

// newAttempt returns an attempt without any facts.
func newAttempt(m *Source, states map[string]string, asked map[string]sym.Range) *Attempt {
	return &Attempt{bodies: map[*wire.GraphProto]int{}, varies: map[string][]ops.LoopExtent{}, forms: map[string][]Form{},
		forks: map[string]fork{}, found: map[sym.Name]sym.Range{}, work: mostWork + moreWork*nodesOf(m.Proto.Graph),
		States: states, asked: asked}
}

// forget drops the facts that were found, except for whether operands may repeat.
func (a *Attempt) forget(m *Source) {
	count, work, repeats := a.count, a.work, a.repeats
	*a = *newAttempt(m, a.States, a.asked)
	a.count, a.work, a.repeats = count, work, repeats
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

// repeated calls try until a conversion finds no new fact.
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

// nodePath returns the path of the node under conversion.
func (g *Scope) nodePath() string { return g.path + "/" + g.at }

// inside returns the path of a graph inside the node under conversion.
func (g *Scope) inside(proto *wire.GraphProto) string {
	known := g.Attempt.bodies
	if _, ok := known[proto]; !ok {
		known[proto] = len(known)
	}
	return fmt.Sprintf("%s:%d", g.nodePath(), known[proto])
}

// again restarts the conversion.
func (c *Call) again() {
	c.Scope.Attempt.last = c.Source
	c.Fail(errAgain)
}
