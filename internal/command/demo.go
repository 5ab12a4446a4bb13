package command

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
	"github.com/weirml/weir/internal/values"
)

// demoCommand makes the command demo.
func (c *cli) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Read twenty handwritten digits with a built-in model", Args: exactly(0, "nothing"),
		Example: "  weir demo",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.demo(cmd.Context()) },
	}
}

// shades are the characters for a pixel's grey, from paper to ink.
const shades = " .:-=+*#%@"

// demo runs the digits model on its pictures, and prints them with the results. It fails if a result or the peak is
// wrong.
func (c *cli) demo(ctx context.Context) error {
	// without flags: the settings of the environment
	settings := modelFlags{c: c, calls: 1, precision: "f32", cache: "f32"}
	o, _, err := settings.options()
	if err != nil {
		return err
	}
	begin := time.Now()
	m, err := weir.LoadBytes(data.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer p.Close()
	ready := time.Since(begin)
	pictures := data.Pictures()
	var pixels []float32
	for _, pic := range pictures {
		pixels = append(pixels, pic.Pixels...)
	}
	x, err := weir.FromSlice(pixels, len(pictures), 1, data.Side, data.Side)
	if err != nil {
		return err
	}
	in := weir.Inputs{"image": x}
	begin = time.Now()
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	took := time.Since(begin)
	scores, err := weir.Copy[float32](r.Get("scores"))
	if err != nil {
		return err
	}
	r.Close()
	right := c.drawDigits(pictures, scores)
	seen, err := p.Measure(ctx, in)
	if err != nil {
		return err
	}
	peak, err := p.Memory().Peak(1, weir.Dims{"batch": int64(len(pictures))})
	if err != nil {
		return err
	}
	if c.json {
		if err := c.printJSON(map[string]any{"right": right, "pictures": len(pictures), "compile_ms": ms(ready),
			"run_ms": ms(took), "threads": p.Memory().Workers,
			"peak_formula":    p.Memory().Formula(1).String(),
			"predicted_bytes": peak, "measured_bytes": seen.Peak(1)}); err != nil {
			return err
		}
	} else {
		stdout.Printf("%d of %d right; compiled in %.1f ms, run in %.2f ms on %d threads\n", right, len(pictures), ms(ready),
			ms(took), p.Memory().Workers)
		stdout.Printf("memory: peak = %s bytes\n", p.Memory().Formula(1))
		stdout.Printf("        predicted for %d pictures %d bytes, measured %d\n", len(pictures), peak, seen.Peak(1))
	}
	if right != len(pictures) || seen.Peak(1) != peak {
		return errFailed
	}
	return nil
}

// drawDigits prints the pictures in rows, with the best digit and its score under each, unless the output is JSON. It
// returns how many are right. scores has a row of data.Digits for each picture.
func (c *cli) drawDigits(pictures []data.Picture, scores []float32) (right int) {
	const columns = 5
	for row := 0; row < len(pictures); row += columns {
		for y := range data.Side {
			if c.json {
				break
			}
			for i := row; i < min(row+columns, len(pictures)); i++ {
				for x := range data.Side {
					shade := shades[int(pictures[i].Pixels[y*data.Side+x]*float32(len(shades)-1))]
					stdout.Printf("%c%c", shade, shade)
				}
				stdout.Print("  ")
			}
			stdout.Println()
		}
		for i := row; i < min(row+columns, len(pictures)); i++ {
			best := 0
			for d := range data.Digits {
				if scores[i*data.Digits+d] > scores[i*data.Digits+best] {
					best = d
				}
			}
			mark := "wrong"
			if best == pictures[i].Label {
				right++
				mark = "right"
			}
			if c.json {
				continue
			}
			stdout.Printf("%-18s", fmt.Sprintf("%d  %.1f%% %s", best, 100*scores[i*data.Digits+best], mark))
		}
		if !c.json {
			stdout.Print("\n\n")
		}
	}
	return right
}

// envCommand makes the command env.
func (c *cli) envCommand() *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: "Print the machine's properties and every setting", Args: exactly(0, "nothing"),
		Example: "  weir env",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.env() },
	}
}

// variables are the environment variables that weir reads, with the meaning of an unset one.
var variables = []struct{ name, otherwise string }{
	{"WEIR_TARGET", "cpu"}, {"WEIR_CPU", "native"}, {"WEIR_THREADS", "GOMAXPROCS"}, {"WEIR_MAP", "on"},
	{"WEIR_PIPELINES", "none kept"}, {"WEIR_DEBUG", "nothing"}, {"NO_COLOR", "not set"}, {"GOMEMLIMIT", "no limit"},
}

// version returns the module's version, or devel for a build of a work tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// env prints the version, the machine and the environment variables.
func (c *cli) env() error {
	here := weir.HostProcessor()
	rows := [][2]string{{"version", version()}, {"go", runtime.Version()}, {"os", runtime.GOOS},
		{"architecture", runtime.GOARCH}, {"threads", fmt.Sprint(runtime.GOMAXPROCS(0))},
		{"processor", here.Name}, {"features", strings.Join(here.Features, " ")}, {"caches", caches(here.Cache)},
		{"target", here.CPU + ": " + here.Why}, {"page size", fmt.Sprint(values.PageSize())},
		{"memory outside go's heap", fmt.Sprint(values.OutsideHeap())},
		{"probe", probed()}}
	devices, none := weir.Devices()
	settings := map[string]map[string]string{}
	for _, v := range variables {
		value, from := os.Getenv(v.name), "environment"
		if value == "" {
			value, from = v.otherwise, "default"
		}
		settings[v.name] = map[string]string{"value": value, "from": from}
	}
	if c.json {
		all := map[string]any{"settings": settings, "devices": devices}
		for _, r := range rows {
			all[r[0]] = r[1]
		}
		return c.printJSON(all)
	}
	for _, r := range rows {
		stdout.Printf("%-24s %s\n", r[0], r[1])
	}
	printDevices(devices, none)
	for _, v := range variables {
		stdout.Printf("%-24s %s (%s)\n", v.name, settings[v.name]["value"], settings[v.name]["from"])
	}
	return nil
}

// caches formats the sizes of the processor's caches.
func caches(sizes [3]int64) string {
	return fmt.Sprintf("L1 %s, L2 %s, L3 %s", values.FormatBytes(sizes[0]), values.FormatBytes(sizes[1]),
		values.FormatBytes(sizes[2]))
}

// probed formats the machine's measured limits.
func probed() string {
	peak, err := weir.Probe("", runtime.GOMAXPROCS(0))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.2f GFLOP/s on one core, %.2f on %d threads (%s)", peak.Core, peak.All, peak.Threads, peak.CPU)
}
