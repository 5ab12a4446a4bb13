package schedule

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestPairsOfTiles: a product whose steps are known has two pairs of tiles in shared memory if a machine has room for
// a few such blocks, and one pair otherwise; no kernel takes more shared memory than the machine has, and sums have the
// same bits with one pair.
func TestPairsOfTiles(t *testing.T) {
	two, one := 0, 0
	for _, c := range []struct{ n, m, k int64 }{{40, 24, 32}, {33, 17, 72}, {16, 16, 63}, {24, 40, 81}, {9, 5, 260},
		{20, 20, 3}} {
		for shared := int64(16); shared <= 65536; shared *= 4 {
			k, err := loop.ParseKernel(`kernel @k(%x: f32[n, k] read, %y: f32[k, m] read, %z: f32[n, m] write) dims(n, k, m) {
			  each i < n { each j < m { var %s: f32 = 0 for d < k { %s add= mul(load %x[i, d], load %y[d, j]) } store %z[i, j] = %s } } }`)
			if err != nil {
				t.Fatal(err)
			}
			dims := map[sym.Name]int64{sym.User("n"): c.n, sym.User("k"): c.k, sym.User("m"): c.m}
			k = withSizes(k, dims)
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}},
				machine: target.Vulkan(target.Limits{Shared: shared, Invocations: 256, Private: 512}), dims: sym.NewDims()}
			next := s.blockProduct(k.Clone())
			if next == nil {
				continue
			}
			need := NeedOf(next, s.machine, s.dims).Shared
			if need > shared {
				t.Errorf("%+v: %d bytes of shared memory, of %d", c, need, shared)
			}
			tile := s.tileOf(t, k, next)
			steps := (c.k + tile.steps - 1) / tile.steps
			pair := 4 * tile.steps * (tile.rows + tile.columns)
			pairs := strings.Count(next.String(), "shared ") / 2
			if want := steps >= leastPairs && 2*pair*pairedBlocks <= shared; (pairs == 2) != want {
				t.Errorf("%+v with %d bytes of shared memory: %d pairs of tiles of %d bytes, for %d steps", c, shared, pairs,
					pair, steps)
			}
			single := s.ifFits(k, s.productBody(k, matchProduct(k), tile, 1))
			if single == nil {
				t.Fatalf("%+v: one pair does not fit", c)
			}
			s.machine = target.Vulkan(s.machine.Limits, target.CachedReads)
			if cached := s.blockProduct(k.Clone()); cached == nil || strings.Count(cached.String(), "shared ") != 2 {
				t.Errorf("%+v, %d bytes of shared memory: two pairs of tiles where reads are cached\n%s", c, shared, cached)
			}
			got, want := operands(t, k, dims, 1), operands(t, k, dims, 1)
			for _, run := range []error{interpret(next, got, dims), interpret(single, want, dims)} {
				if run != nil {
					t.Fatal(run)
				}
			}
			if !bytes.Equal(got[2].Bytes(), want[2].Bytes()) {
				t.Errorf("%+v, %d bytes of shared memory: two pairs of tiles have other sums\n%s", c, shared, next)
			}
			if pairs == 1 {
				one++
				continue
			}
			two++
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Errorf("%v\n%s", err, next)
			}
		}
	}
	if two == 0 || one == 0 {
		t.Errorf("%d kernels have two pairs of tiles, and %d one", two, one)
	}
}

// tileOf returns the tile with which a product was rewritten.
func (s *scheduler) tileOf(t *testing.T, k, next *loop.Kernel) productTile {
	t.Helper()
	for _, tile := range productTiles {
		for pairs := 1; pairs <= 2; pairs++ {
			if made := s.ifFits(k, s.productBody(k, matchProduct(k), tile, pairs)); made != nil &&
				made.String() == next.String() {
				return tile
			}
		}
	}
	t.Fatalf("no tile gives\n%s", next)
	return productTile{}
}
