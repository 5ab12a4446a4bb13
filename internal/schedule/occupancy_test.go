package schedule

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewriteTexts = flag.Bool("rewrite", false,
	"rewrite the expected results in testdata, and the table of tiles in docs/gpu.md")

// card has the resources of one compute unit of a graphics card, by its maker's documents: NVIDIA's tuning guide for
// Ada, AMD's CDNA 3 instruction set architecture, Intel's guide to oneAPI on Xe-HPG.
type card struct {
	name     string
	threads  int64                       // the most resident threads
	blocks   int64                       // the most resident blocks
	shared   int64                       // bytes
	together int64                       // threads of a subgroup, which get their registers together
	resident func(registers int64) int64 // the most resident subgroups with so many registers a thread
}

var cards = []card{
	// 65,536 registers, allocated to a warp in units of 256.
	{"RTX 4090", 1536, 24, 100 << 10, 32, func(n int64) int64 { return min(48, 65536/((n*32+255)/256*256)) }},
	// Four SIMDs with 512 registers a lane each, allocated in units of 8, for at most 8 waves.
	{"MI300X", 2048, 32, 64 << 10, 64, func(n int64) int64 { return 4 * min(8, 512/((n+7)/8*8)) }},
	// 16 engines with 8 threads of 64 registers a lane, or 4 of 128.
	{"Arc A770", 2048, 64, 128 << 10, 16, func(n int64) int64 {
		if n > 64 {
			return 16 * 4
		}
		return 16 * 8
	}},
}

// addressing is the approximate number of a thread's registers that hold neither sums nor operands.
const addressing = 32

// occupancy returns the percentage of a compute unit's threads that blocks of a tile fill, if a block takes shared
// bytes and each of its threads registers registers.
func (c *card) occupancy(t productTile, shared, registers int64) int64 {
	groups := (t.threads() + c.together - 1) / c.together
	blocks := min(c.blocks, c.resident(registers)/groups, c.shared/shared, c.threads/(groups*c.together))
	return 100 * blocks * groups * c.together / c.threads
}

// TestTileTable: docs/gpu.md has the table of the resources that tiles need, and their computed occupancy of three
// cards.
func TestTileTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| tile, rows × columns × steps | a thread's own | threads | shared bytes, f32 | multiplications for " +
		"each element read | registers, about |")
	for _, c := range cards {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 6+len(cards)) + "\n")
	for _, tile := range productTiles {
		if tile.rows < tile.columns || tile.threads() < 64 { // the transpose of another row, or for smaller devices
			continue
		}
		shared := 4 * tile.steps * (tile.rows + tile.columns)
		registers := tile.ownRows*tile.ownColumns + tile.ownRows + tile.ownColumns + addressing
		each := float64(tile.rows*tile.columns) / float64(tile.rows+tile.columns)
		fmt.Fprintf(&b, "| %d × %d × %d | %d × %d | %d | %d | %.3g | %d |", tile.rows, tile.columns, tile.steps, tile.ownRows,
			tile.ownColumns, tile.threads(), shared, each, registers)
		for _, c := range cards {
			fmt.Fprintf(&b, " %d %% |", c.occupancy(tile, shared, registers))
		}
		b.WriteString("\n")
	}
	const file = "../../docs/gpu.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), b.String()) {
		return
	}
	if !*rewriteTexts {
		t.Fatalf("%s does not have this table; go test ./internal/schedule -run TestTileTable -rewrite\n%s", file, b.String())
	}
	begin := strings.Index(string(text), "| tile, rows")
	end := begin + strings.Index(string(text[begin:]), "\n\n") + 1
	if err := os.WriteFile(file, []byte(string(text[:begin])+b.String()+string(text[end:])), 0o644); err != nil {
		t.Fatal(err)
	}
}
