package transformers

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// mostDistance is the largest distance for which a table of buckets is made.
const mostDistance = 1 << 16

// bucket returns the row of a table of biases for a key at a distance after the query: near distances have rows of
// their own, farther ones share them by their logarithm, and those from most on share the last (Raffel et al.,
// Exploring the limits of transfer learning, 2020). Keys before and after the query have half of the rows each.
// Arithmetic is in f32, which decides at the bounds between rows.
func bucket(distance, buckets, most int64) int64 {
	first := int64(0)
	if buckets /= 2; distance > 0 {
		first = buckets
	}
	distance = max(distance, -distance)
	exact := buckets / 2
	if distance < exact {
		return first + distance
	}
	log := float32(math.Log(float64(float32(distance) / float32(exact))))
	share := log / float32(math.Log(float64(most)/float64(exact))) * float32(buckets-exact)
	return first + min(exact+int64(share), buckets-1)
}

// buckets returns the row of a table of so many biases for each query and key, [tokens, tokens].
func (g *graph) buckets(rows, most int64) *ir.Value {
	if rows < 4 || most <= rows/2 || most > mostDistance {
		g.Fail(g.inConfig(diag.Inputf("%d buckets for distances up to %d", rows, most)))
	}
	list := make([]int64, 2*most+1)
	for i := range list {
		list[i] = bucket(int64(i)-most, rows, most)
	}
	return g.byDistances(list, most)
}

// byDistances returns the element of a list for key − query + most, with distances limited to most, of each query and
// key, [tokens, tokens].
func (g *graph) byDistances(list []int64, most int64) *ir.Value {
	if err := g.folder.claim.Take(8 * int64(len(list))); err != nil {
		g.Fail(err)
	}
	return ops.Gather(g.Builder, g.Constant(g.Name(g.Source+".rows"), tensor.Of(list...)), g.clampedDistances(most), 0)
}

// biases returns what attention adds to its scores, [1, heads, tokens, tokens], from a table of [buckets, heads].
func (g *graph) biases(table, buckets *ir.Value) *ir.Value {
	bias := ops.Transpose(g.Builder, ops.Gather(g.Builder, table, buckets, 0), 2, 0, 1)
	return ops.Reshape(g.Builder, bias, sym.Const(1), bias.Type.Shape[0], g.tokens(), g.tokens())
}

// clampedDistances returns key − query + most for each query and key, [tokens, tokens], with distances limited to most.
func (g *graph) clampedDistances(most int64) *ir.Value {
	d := g.distances()
	d = g.binary(ops.Max, g.binary(ops.Min, d, g.number(d, float64(most))), g.number(d, float64(-most)))
	return g.binary(ops.Add, d, g.number(d, float64(most)))
}

// distances returns key − query for each query and key, [tokens, tokens].
func (g *graph) distances() *ir.Value {
	at := ops.Counting(g.Builder, g.ids.Type.DType, g.tokens())
	return g.binary(ops.Sub, at, ops.Reshape(g.Builder, at, g.tokens(), sym.Const(1)))
}

// distanceKeys returns the products of queries, and of keys if they count too, with embeddings of distances, which
// attention adds to its scores.
func (g *graph) distanceKeys(keys bool) func(at string, q, k *ir.Value) *ir.Value {
	most := g.Positions
	if most < 1 || most > mostDistance {
		g.Fail(g.inConfig(diag.Inputf("max_position_embeddings is %d", most)))
	}
	g.atMost(most)
	g.Source = g.prefix + "distances"
	d := g.binary(ops.Sub, g.number(g.ids, float64(most-1)), g.distances()) // query − key + most − 1
	one := sym.Const(1)
	rows := ops.Reshape(g.Builder, d, one, one, g.tokens(), g.tokens())
	return func(at string, q, k *ir.Value) *ir.Value {
		table := g.weight(at+"attention.self.distance_embedding.weight", 2*most-1, last(q))
		sum := g.productsAt(q, table, rows)
		if keys {
			y := g.productsAt(k, table, ops.Transpose(g.Builder, rows, 0, 1, 3, 2))
			sum = g.binary(ops.Add, sum, ops.Transpose(g.Builder, y, 0, 1, 3, 2))
		}
		return g.binary(ops.Mul, sum, g.number(sum, 1/math.Sqrt(float64(last(q)))))
	}
}

// productsAt returns, for each row of x, [batch, heads, tokens, size], its products with the rows of a table, [heads,
// rows, size] or [rows, size], that an index, [1, 1, tokens, tokens], names.
func (g *graph) productsAt(x, table, index *ir.Value) *ir.Value {
	y := ops.MatMul(g.Builder, x, table, false, true)
	index = ops.Expand(g.Builder, index, g.batch(), x.Type.Shape[1], g.tokens(), g.tokens())
	return ops.GatherElements(g.Builder, y, index, 3)
}
