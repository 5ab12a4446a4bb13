package pass

import "math"

// network is a graph of pipes from node 0 to node 1, in which Dinic's algorithm (1970) finds the cheapest pipes to cut:
// those between the nodes that water still reaches and the rest.
type network struct {
	head  []int32 // by node: its first pipe, −1: none
	pipes []pipe  // pipe i and pipe i^1 are the two directions of one
	level []int32
	at    []int32 // by node: the pipe that is tried next
	work  int64   // pipes looked at
}

type pipe struct {
	to, next int32
	room     int64
}

// unbreakable is the price of a pipe that is never cut.
const unbreakable = math.MaxInt64 / 4

// node adds a node.
func (g *network) node() int32 {
	g.head = append(g.head, -1)
	return int32(len(g.head) - 1)
}

// join adds a pipe. Prices of one pair of nodes add up.
func (g *network) join(from, to int32, price int64) {
	g.pipes = append(g.pipes, pipe{to, g.head[from], price}, pipe{from, g.head[to], 0})
	g.head[from], g.head[to] = int32(len(g.pipes)-2), int32(len(g.pipes)-1)
}

// cut reports for each node whether it stays with node 0; nil if that takes more than most visits of pipes.
func (g *network) cut(most int64) []bool {
	for g.layers() {
		g.at = append(g.at[:0], g.head...)
		for g.push() {
			if g.work > most {
				return nil
			}
		}
	}
	near := make([]bool, len(g.head))
	for i, l := range g.level {
		near[i] = l >= 0
	}
	return near
}

// layers finds each node's distance from node 0 along pipes with room; false if node 1 is out of reach.
func (g *network) layers() bool {
	g.level = make([]int32, len(g.head))
	for i := range g.level {
		g.level[i] = -1
	}
	g.level[0] = 0
	for list := []int32{0}; len(list) > 0; list = list[1:] {
		for i := g.head[list[0]]; i >= 0; i = g.pipes[i].next {
			g.work++
			if p := g.pipes[i]; p.room > 0 && g.level[p.to] < 0 {
				g.level[p.to] = g.level[list[0]] + 1
				list = append(list, p.to)
			}
		}
	}
	return g.level[1] >= 0
}

// push fills one path along the layers; false if there is no path left.
func (g *network) push() bool {
	var path []int32
	for at := int32(0); at != 1; {
		i := g.at[at]
		for ; i >= 0; i = g.pipes[i].next {
			g.work++
			if p := g.pipes[i]; p.room > 0 && g.level[p.to] == g.level[at]+1 {
				break
			}
		}
		g.at[at] = i
		switch {
		case i >= 0:
			path = append(path, i)
			at = g.pipes[i].to
		case len(path) == 0:
			return false
		default: // back: the pipe that led here is of no use
			last := path[len(path)-1]
			path = path[:len(path)-1]
			at = g.pipes[last^1].to
			g.at[at] = g.pipes[last].next
		}
	}
	flow := int64(math.MaxInt64)
	for _, i := range path {
		flow = min(flow, g.pipes[i].room)
	}
	for _, i := range path {
		g.pipes[i].room -= flow
		g.pipes[i^1].room += flow
	}
	return true
}
