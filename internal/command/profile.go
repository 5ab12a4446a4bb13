package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// row is a launch in a profile: its time in a run, and its speed relative to the probe.
type row struct {
	Kernel     string  `json:"kernel"`
	Nodes      string  `json:"nodes"`
	Backend    string  `json:"backend"`
	Count      int     `json:"count"`
	Ms         float64 `json:"ms"`
	Share      float64 `json:"share"`
	Operations int64   `json:"operations"` // for one launch's results
	Done       int64   `json:"done"`       // that one launch executes
	Bytes      int64   `json:"bytes"`
	GFLOPs     float64 `json:"gflops"`      // useful: Operations by time
	DoneRate   float64 `json:"done_gflops"` // Done by time
	Rate       float64 `json:"gb_per_s"`
	Bound      string  `json:"bound"`      // "arithmetic" or "memory": what the launch is nearer to the probe's limit of
	PeakShare  float64 `json:"peak_share"` // of the limit that applies
	Tiles      int64   `json:"tiles"`
	Alone      string  `json:"alone,omitempty"`         // why one worker computes it
	OneThread  float64 `json:"one_thread_ms,omitempty"` // its time in a program for one thread; 0 if it has no such launch
	// Why says why it takes more than twice the time of its limit; empty for launches that do not, or that are short.
	Why []string `json:"why,omitempty"`
}

// A launch has a reason for its time if it takes more than noticed of the run, and reaches less than half of its limit.
const (
	noticed  = 0.02
	half     = 0.5
	momentMs = 0.002 // of a launch: shorter ones take about as long as it takes to begin them
)

// why returns the reasons for a launch's time: what the generator found slower than scheduled, and then the parts of
// the estimated time.
func (r row) why(k weir.KernelTime) (reasons []string) {
	if r.Share <= noticed || r.PeakShare >= half {
		return nil
	}
	if r.Ms < momentMs*float64(r.Count) {
		reasons = append(reasons, "a launch is so short that its beginning takes a part of it")
	}
	reasons = append(append(reasons, k.Why...), k.Delays...)
	if reasons == nil {
		reasons = []string{"memory is copied, with nothing else to do meanwhile"}
	}
	return reasons
}

// rows compares launches with the probe, longest first. The memory limit is, for weights, the speed of the cache or
// memory that holds all weights of a run and, for other bytes, of the one that holds the launch's bytes.
func rows(list []weir.KernelTime, probe weir.Roofline) []row {
	total, weights := 0.0, int64(0)
	for _, k := range list {
		total += ms(k.Time)
		weights += k.Weights * int64(min(1, k.Count))
	}
	out := []row{}
	for _, k := range list {
		if k.Count == 0 {
			continue
		}
		r := row{Kernel: k.Kernel, Nodes: k.Nodes, Backend: k.Backend, Count: k.Count, Ms: ms(k.Time),
			Operations: k.Operations, Done: k.Done, Bytes: k.Bytes, Bound: "arithmetic", Tiles: k.Tiles, Alone: k.Alone}
		if k.Time > 0 {
			per := r.Ms * 1e6 / float64(k.Count)
			r.Share, r.GFLOPs, r.DoneRate, r.Rate = r.Ms/total, float64(k.Operations)/per, float64(k.Done)/per,
				float64(k.Bytes)/per
			r.PeakShare = float64(k.Slots) / per / probe.All
			rest := k.Bytes - k.Weights
			if share := (float64(k.Weights)/probe.ReadAll(weights) + float64(rest)/probe.ReadAll(rest)) /
				per; share > r.PeakShare {
				r.Bound, r.PeakShare = "memory", share
			}
			r.Why = r.why(k)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b row) int { return cmp.Compare(b.Ms, a.Ms) })
	return out
}

// printRows prints a profile: the sum for each code generator, and the rows.
func printRows(list []row) {
	times, counts, total := map[string]float64{}, map[string]int{}, 0.0
	for _, r := range list {
		times[r.Backend] += r.Ms
		counts[r.Backend]++
		total += r.Ms
	}
	stdout.Println()
	for _, b := range slices.Sorted(maps.Keys(times)) {
		stdout.Printf("%-14s %d launches, %.3f ms, %.1f %%\n", b, counts[b], times[b], 100*times[b]/max(total, 1e-9))
	}
	if limit := limitOf(list); total > 0 {
		stdout.Printf("%-14s %.3f ms, %.1f %%: the arithmetic that is executed at the probe's speed, or the reading, "+
			"whichever takes longer\n", "limit", limit, 100*limit/total)
	}
	stdout.Printf("\n%9s %6s %9s %9s %8s %6s %10s  %-9s %-24s %s\n", "ms", "share", "useful", "done", "GB/s", "probe",
		"bytes", "backend", "kernel", "nodes")
	for _, r := range list {
		name := r.Kernel
		if r.Count > 1 {
			name = fmt.Sprintf("%s ×%d", name, r.Count)
		}
		stdout.Printf("%9.4f %5.1f%% %9.2f %9.2f %8.2f %4.0f%%%s %10s  %-9s %-24s %s\n", r.Ms, 100*r.Share, r.GFLOPs,
			r.DoneRate,
			r.Rate, 100*r.PeakShare, r.Bound[:1], values.FormatBytes(r.Bytes), r.Backend, name, shortened(r.Nodes, 60))
	}
	stdout.Println("\nuseful, done: arithmetic of the results, and what is executed for it, in GFLOP/s")
	stdout.Println("probe: the share of its arithmetic that is executed (a), or of its reading (m) at the levels of " +
		"memory " +
		"that hold the bytes, whichever is more")
	printWhy(list)
}

// limitOf returns the time of a run whose launches all reach their limits.
func limitOf(list []row) (limit float64) {
	for _, r := range list {
		limit += r.Ms * min(r.PeakShare, 1)
	}
	return limit
}

// printWhy prints the launches that take more than twice the time of their limit, with the reasons.
func printWhy(list []row) {
	list = slices.DeleteFunc(slices.Clone(list), func(r row) bool { return r.Why == nil })
	if len(list) == 0 {
		return
	}
	stdout.Printf("\n%9s %6s %6s  %-24s %s\n", "ms", "share", "probe", "kernel", "why it takes more than twice its limit")
	for _, r := range list {
		for i, why := range r.Why {
			if i > 0 {
				stdout.Printf("%49s %s\n", "", why)
				continue
			}
			stdout.Printf("%9.4f %5.1f%% %4.0f%%%s  %-24s %s\n", r.Ms, 100*r.Share, 100*r.PeakShare, r.Bound[:1],
				shortened(r.Kernel, 24), why)
		}
	}
	stdout.Println("\n%: of the time that the compiler's estimate gives the kernel")
}

// shortened returns at most most characters of a string.
func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// addOneThread adds to rows the times of the same nodes in a program for one thread.
func addOneThread(list []row, one []weir.KernelTime) {
	times := map[string]float64{}
	for _, k := range one {
		times[k.Nodes+" "+k.Backend] += ms(k.Time)
	}
	counts := map[string]float64{}
	for _, r := range list {
		counts[r.Nodes+" "+r.Backend]++
	}
	for i, r := range list {
		key := r.Nodes + " " + r.Backend
		list[i].OneThread = times[key] / counts[key]
	}
}

// lost returns the time by which a launch is longer than its share of the time on one thread.
func (r row) lost(threads int) float64 {
	if r.OneThread == 0 {
		return 0
	}
	return max(0, r.Ms-r.OneThread/float64(threads))
}

// lostBy returns why a launch loses time on several threads, and for this launch more exactly.
func (r row) lostBy(threads int) (reason, exact string) {
	if r.Alone != "" {
		return r.Alone, r.Alone
	}
	rounds := (r.Tiles + int64(threads) - 1) / int64(threads)
	if even := float64(r.Tiles) / float64(rounds); even < 0.9*float64(threads) {
		return "few tiles", fmt.Sprintf("%d tiles: a gain of %.2f at most", r.Tiles, even)
	}
	reason = "hand-over, and operands in the other workers' caches"
	return reason, reason
}

// printThreads prints the gain of several threads, and where time is lost: in all, by reason, and in the launches that
// lose the most.
func printThreads(list []row, oneThread, all float64, threads int) {
	stdout.Printf("\nthreads        one %.3f ms, %d %.3f ms: a gain of %.2f\n", oneThread, threads, all, oneThread/all)
	reasons, total := map[string]float64{}, 0.0
	for _, r := range list {
		reason, _ := r.lostBy(threads)
		lost := r.lost(threads)
		reasons[reason] += lost
		total += lost
	}
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Compare(reasons[b], reasons[a])
	}) {
		if reasons[reason] > 0 {
			stdout.Printf("lost           %.4f ms: %s\n", reasons[reason], reason)
		}
	}
	slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(b.lost(threads), a.lost(threads)) })
	stdout.Printf("\n%9s %9s %9s %6s %6s  %-24s %s\n", "lost ms", "one", "all", "gain", "tiles", "kernel", "why")
	for i, r := range list {
		if i == mostLost || r.lost(threads) < total/100 {
			break
		}
		_, why := r.lostBy(threads)
		stdout.Printf("%9.4f %9.4f %9.4f %6.2f %6d  %-24s %s\n", r.lost(threads), r.OneThread, r.Ms, r.OneThread/r.Ms,
			r.Tiles, shortened(r.Kernel, 24), why)
	}
	stdout.Println("\nlost: by how much a launch is longer than its share of its time on one thread")
}

// mostLost is the most launches that printThreads lists.
const mostLost = 30
