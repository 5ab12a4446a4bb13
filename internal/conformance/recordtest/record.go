package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// spirvLevel begins the names of levels for SPIR-V; the name of a profile follows.
const spirvLevel = "spirv-"

// profiles are the recorded profiles of devices: one that has few features, and one that has most.
var profiles = []string{"minimum", "desktop"}

// levelNames returns the levels that can be recorded.
func levelNames() []string {
	names := slices.DeleteFunc(compiler.Levels(), func(name string) bool { return name == target.PortableName })
	for _, p := range profiles {
		names = append(names, spirvLevel+p)
	}
	return names
}

// machineOf returns the machine of a level; it is the same on every processor.
func machineOf(level string) (m target.Machine, err error) {
	const threads = 2
	if profile, ok := strings.CutPrefix(level, spirvLevel); ok {
		m, err = target.ParseLimits(profile)
		m.Threads = threads
		return m, err
	}
	return target.Assumed(level, threads)
}

// record compiles cases at levels, several cases at a time, and returns their lines in order.
func record(ctx context.Context, cases []aCase, levels []string) (all []line, err error) {
	lines := make([][]line, len(cases))
	var next atomic.Int64
	var workers diag.Group
	for range min(runtime.GOMAXPROCS(0), len(cases)) {
		workers.Go("recording", func() error {
			for at := next.Add(1) - 1; at < int64(len(cases)); at = next.Add(1) - 1 {
				var err error
				if lines[at], err = cases[at].record(ctx, levels); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(lines...), nil
}

// record compiles a case at levels. A case that is refused has a line that says so.
func (c *aCase) record(ctx context.Context, levels []string) (lines []line, err error) {
	m, err := c.opened(ctx)
	if err != nil {
		return []line{without(key{c.name, "-", "-", "-"}, err)}, nil
	}
	for _, level := range levels {
		machine, err := machineOf(level)
		if err != nil {
			return nil, err
		}
		weighs := false // products of weights may have another precision
		for _, precision := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I8} {
			if precision != dtype.F32 && (!weighs || machine.HasBlocks()) {
				continue
			}
			o := compiler.Options{Machine: machine, Precision: precision, Written: m.written}
			of := key{name: c.name, level: level, precision: precision.String()}
			made, weights := compile(ctx, m, o, of)
			lines, weighs = append(lines, made...), weighs || weights
		}
	}
	return lines, m.close()
}

// opened opens a case; a panic is an error.
func (c *aCase) opened(ctx context.Context) (m model, err error) {
	defer diag.Recover(&err, "opening "+c.name)
	return c.open(ctx)
}

// errSeen ends a compilation after its code was seen.
var errSeen = errors.New("the code is seen")

// compile compiles a model, and returns the lines of its kernels; weighs reports whether it has matrices of f32 as
// weights.
func compile(ctx context.Context, m model, o compiler.Options, of key) (lines []line, weighs bool) {
	err := func() (err error) {
		defer diag.Recover(&err, "compiling")
		var module *ir.Module
		if module, o.Names, err = m.build(ctx); err != nil {
			return err
		}
		// The host's part of a program for a device is portable, as the host's level is not of interest.
		o.Foreign, o.Portable = true, o.Machine.HasBlocks()
		o.Planned = func(c *compiler.Compiled) error {
			lines, weighs = linesOf(c, of), matrices(c.Loop)
			return errSeen
		}
		_, err = compiler.Compile(module, o)
		return err
	}()
	if !errors.Is(err, errSeen) {
		lines = []line{without(of, cmp.Or(err, errors.New("compiling did not reach the code")))}
	}
	return lines, weighs
}

// matrices reports whether a module has weights of f32 of two dimensions or more.
func matrices(m *loop.Module) (found bool) {
	loop.EachBuffer(m.Body, func(b *loop.Buffer) {
		b = b.Root()
		found = found || b.Kind == loop.Weight && b.Data != nil && b.Data.DType() == dtype.F32 && len(b.Data.Shape()) > 1
	})
	return found
}

// without returns the line of a case without code, for a reason.
func without(of key, why error) line {
	if of.kernel == "" {
		of.kernel = "-"
	}
	return line{key: of, code: "refused: " + short(why.Error()), left: true}
}

// short returns the beginning of a reason, as one field.
func short(reason string) string {
	reason, _, _ = strings.Cut(reason, "\n")
	reason = strings.ReplaceAll(reason, "\t", " ")
	return fmt.Sprintf("%.200s", reason)
}

// linesOf returns the lines of a compiled module's kernels. Kernels of one name are numbered.
func linesOf(c *compiler.Compiled, of key) (lines []line) {
	left := map[string]string{}
	for _, l := range c.Device.Refused {
		left[l.Kernel] = "on the host: " + l.Reason
	}
	for _, l := range c.Code.Left {
		left[l.Kernel] = "portable: " + l.Reason
	}
	times := map[string]int{}
	for _, k := range c.Code.Kernels {
		l := line{key: of}
		l.kernel = k.Name()
		if times[l.kernel]++; times[l.kernel] > 1 {
			l.kernel = fmt.Sprintf("%s#%d", k.Name(), times[k.Name()])
		}
		sum := sha256.New()
		fmt.Fprintf(sum, "tiles %s\nscratch %s\n", k.TilesFormula(), k.ScratchFormula())
		switch code := k.(type) {
		case interface{ Routines() [][]byte }:
			for _, routine := range code.Routines() {
				l.bytes += len(routine)
				write(sum, routine)
			}
		case target.Blocks:
			b := code.Binary()
			l.bytes = 4 * len(b.Words)
			write(sum, binary.LittleEndian.AppendUint64(nil, uint64(len(b.Words))))
			for _, w := range b.Words {
				sum.Write(binary.LittleEndian.AppendUint32(nil, w))
			}
			fmt.Fprintf(sum, "entries %+v\n", b.Entries)
		default:
			l.left, l.code = true, short(cmp.Or(left[k.Name()], "portable, without a reason"))
		}
		if !l.left {
			l.code = fmt.Sprintf("%x", sum.Sum(nil)[:8])
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		of.kernel = "-"
		lines = append(lines, line{key: of, code: "no kernels", left: true})
	}
	return lines
}

// write adds bytes, after their number, to a hash.
func write(to hash.Hash, data []byte) {
	to.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(data))))
	to.Write(data)
}

// sorted returns the keys of a record in the order of their texts.
func sorted(lines map[key]string) []key {
	return slices.SortedFunc(maps.Keys(lines), func(a, b key) int { return cmp.Compare(a.String(), b.String()) })
}
