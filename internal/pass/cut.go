package pass

import "math"

// network is a flow network from node 0 to node 1, in which Dinic's algorithm (1970) finds a minimum cut: the edges
// between the nodes that node 0 still reaches along edges with room and the other nodes.
type network struct {
	head  []int32 // by node: its first edge; −1 if it has none
	edges []edge  // edge i and edge i^1 are the two directions of one edge
	level []int32 // by node: its distance from node 0; −1 if it is out of reach
	at    []int32 // by node: the edge that is tried next
	work  int64   // number of edges visited
}

// edge is one direction of an edge: room is the flow that it can still take, next the next edge of the same node.
type edge struct {
	to, next int32
	room     int64
}

// unbreakable is the price of an edge that is never cut.
const unbreakable = math.MaxInt64 / 4

// node adds a node and returns its index.
func (g *network) node() int32 {
	g.head = append(g.head, -1)
	return int32(len(g.head) - 1)
}

// join adds an edge with the given price. Prices of several edges between two nodes add up.
func (g *network) join(from, to int32, price int64) {
	g.edges = append(g.edges, edge{to, g.head[from], price}, edge{from, g.head[to], 0})
	g.head[from], g.head[to] = int32(len(g.edges)-2), int32(len(g.edges)-1)
}

// cut reports for each node whether it stays with node 0; nil if that takes more than most visits of edges.
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

// layers finds each node's distance from node 0 along edges with room; false if node 1 is out of reach.
func (g *network) layers() bool {
	g.level = make([]int32, len(g.head))
	for i := range g.level {
		g.level[i] = -1
	}
	g.level[0] = 0
	for list := []int32{0}; len(list) > 0; list = list[1:] {
		for i := g.head[list[0]]; i >= 0; i = g.edges[i].next {
			g.work++
			if p := g.edges[i]; p.room > 0 && g.level[p.to] < 0 {
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
		for ; i >= 0; i = g.edges[i].next {
			g.work++
			if p := g.edges[i]; p.room > 0 && g.level[p.to] == g.level[at]+1 {
				break
			}
		}
		g.at[at] = i
		switch {
		case i >= 0:
			path = append(path, i)
			at = g.edges[i].to
		case len(path) == 0:
			return false
		default: // a dead end: the path goes back by one edge
			last := path[len(path)-1]
			path = path[:len(path)-1]
			at = g.edges[last^1].to
			g.at[at] = g.edges[last].next
		}
	}
	flow := int64(math.MaxInt64)
	for _, i := range path {
		flow = min(flow, g.edges[i].room)
	}
	for _, i := range path {
		g.edges[i].room -= flow
		g.edges[i^1].room += flow
	}
	return true
}
