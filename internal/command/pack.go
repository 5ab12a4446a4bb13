package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/binpack"
	"github.com/weirml/weir/internal/binpack/validator"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/manifest"
	"github.com/weirml/weir/internal/values"
)

// packWork is the work limit of the search for the fewest nodes, some seconds.
const packWork = 1 << 24

// mostReplicas bounds the replicas of a model.
const mostReplicas = 1000

// packFlags are the flags of pack.
type packFlags struct {
	modelFlags
	manifestFlags
	node      int64
	nodes     int
	replicas  []string
	manifests string
	form      manifest.Form
}

// packCommand makes the command pack.
func (c *cli) packCommand() *cobra.Command {
	f := &packFlags{form: manifest.Deployment}
	cmd := &cobra.Command{
		Use: "pack DIR --node SIZE", Short: "Place a folder's models on as few servers as possible",
		Args: exactly(1, "one DIR"),
		Long: `Place a folder's models on as few servers as possible.

DIR has models in Triton's layout (m/1/model.onnx; the highest version counts), folders with a model file, or plain .onnx, .pt2 and .weir files, also in folders of
folders. Each model takes what weir-serve takes for it with --calls requests at a time; each node additionally has the server itself, once. The placement is
proved to have the fewest nodes, or its output gives the number that it may be improved to. A model that cannot be compiled, or fits no node, is reported, and the
others are placed.

--dim NAME=SIZES applies to each model that has the dimension, --dim MODEL/NAME=SIZES to one. Without it, max_batch_size of a config.pbtxt bounds the first dimension of all inputs.`,
		Example: `  weir pack models --node 8GiB --dim batch=1..32
  weir pack models --node 8GiB --nodes 3 --calls 4 --replicas bert=2 --json
  weir pack models --node 8GiB --manifests deploy --form kserve --storage s3://bucket/models`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.pack(cmd.Context(), args[0]) },
	}
	f.modelFlags.registerServed(cmd, c)
	flags := cmd.Flags()
	flags.Var(&size{to: &f.node}, "node", "the memory of each node for weir-serve's container, such as 8GiB (required)")
	flags.Var(from(&f.nodes, 0, 0), "nodes", "the number of nodes that there are (default as many as are needed)")
	flags.StringArrayVar(&f.replicas, "replicas", nil, "MODEL=N places a model on N different nodes (repeatable)")
	flags.StringVar(&f.manifests, "manifests", "",
		"write a manifest for each node into this folder, which is new or empty")
	flags.Var(formFlag{to: &f.form}, "form", "for --manifests: deployment, kserve or seldon")
	f.manifestFlags.register(cmd, "for --manifests")
	return cmd
}

// packed is the JSON output of pack.
type packed struct {
	Node    int64          `json:"node_bytes"`
	Server  int64          `json:"server_bytes"` // of each node, for the server itself
	Calls   int            `json:"calls"`
	Nodes   []packedNode   `json:"nodes"`
	Least   int            `json:"least_nodes"` // no placement has fewer
	Proven  bool           `json:"proven"`      // the placement has the fewest nodes
	Given   *int           `json:"given_nodes"` // --nodes
	Fits    bool           `json:"fits"`        // every model has its nodes
	Models  []*packedModel `json:"models"`
	Refused []refusedModel `json:"refused"`
}

// packedNode is a node.
type packedNode struct {
	Name   string   `json:"name"`
	Models []string `json:"models"`
	Bytes  int64    `json:"bytes"` // with the server itself
	Free   int64    `json:"free_bytes"`
	placed []int
}

// packedModel is a model that is placed.
type packedModel struct {
	Name string `json:"name"`
	File string `json:"file"`
	footprint
	Bytes    int64    `json:"bytes"`
	Replicas int      `json:"replicas"`
	Nodes    []string `json:"nodes"`
	path     string
	workers  int
	cpu      string
	free     []string // the dimensions without --dim, with their upper bounds
}

// refusedModel is a model that is not placed.
type refusedModel struct {
	Name  string      `json:"name"`
	File  string      `json:"file"`
	Error *weir.Error `json:"error"`
}

// pack places the models of a folder.
func (f *packFlags) pack(ctx context.Context, folder string) error {
	if f.node == 0 {
		return usageError{errors.New("--node SIZE is needed: the memory of each node")}
	}
	f.node &^= 4095 // a container's limit is rounded down to pages
	p := &packed{Node: f.node, Server: serverHeap + serverProgram, Calls: f.calls, Nodes: []packedNode{},
		Models: []*packedModel{}, Refused: []refusedModel{}}
	if f.node < p.Server+serverLeast {
		return diag.Inputf("a node has %s, and weir-serve itself takes %s, and %s at least for models", bytesText(f.node),
			bytesText(p.Server), bytesText(serverLeast)).WithFix("a node of %s is the smallest", bytesText(p.Server+serverLeast))
	}
	if f.nodes > 0 {
		p.Given = &f.nodes
	}
	if err := f.writable(); err != nil {
		return err
	}
	found, err := findModels(folder)
	if err != nil {
		if e := (*weir.Error)(nil); errors.As(err, &e) && e.Detail == "it is no folder" {
			return usageError{err}
		}
		return err
	}
	if len(found) == 0 {
		return diag.Inputf("it has no models").AtFile(folder).
			WithFix("a model is m/1/model.onnx, or a .onnx, .pt2 or .weir file")
	}
	replicas, err := f.replicasOf(found)
	if err != nil {
		return err
	}
	if err := f.compileAll(ctx, p, found, replicas); err != nil {
		return err
	}
	if err := p.place(ctx); err != nil {
		return err
	}
	if f.manifests != "" && len(p.Nodes) > 0 {
		if err := f.write(p); err != nil {
			return err
		}
	}
	return f.print(p)
}

// bytesText formats bytes as a number and, if it is not short, as a size.
func bytesText(n int64) string {
	if size := values.FormatBytes(n); size != fmt.Sprintf("%dB", n) {
		return fmt.Sprintf("%d bytes (%s)", n, size)
	}
	return fmt.Sprintf("%d bytes", n)
}

// replicasOf returns the number of replicas by model, of those that --replicas names.
func (f *packFlags) replicasOf(found []*foundModel) (map[string]int, error) {
	replicas := map[string]int{}
	for _, text := range f.replicas {
		at := strings.LastIndexByte(text, '=')
		if at < 0 {
			return nil, usageError{fmt.Errorf("--replicas %s: write MODEL=N", text)}
		}
		name := text[:at]
		n, err := strconv.Atoi(text[at+1:])
		if err != nil || n < 1 || n > mostReplicas {
			return nil, usageError{fmt.Errorf("--replicas %s: N is from 1 to %d", text, mostReplicas)}
		}
		known := false
		for _, m := range found {
			known = known || m.name == name
		}
		if !known || replicas[name] > 0 {
			return nil, usageError{fmt.Errorf("--replicas %s: there is no such model, or it is named twice", text)}
		}
		replicas[name] = n
	}
	return replicas, nil
}

// compileAll compiles the models one after the other, and fills in those that fit a node, and those that do not.
func (f *packFlags) compileAll(ctx context.Context, p *packed, found []*foundModel, replicas map[string]int) error {
	bar := f.c.progress(len(found), "compiling")
	quiet := *f.c
	quiet.terminal = nil // one bar for all
	used := map[string]bool{}
	for _, m := range found {
		one := f.modelFlags
		one.c = &quiet
		model, err := one.packable(ctx, m, f.node-p.Server, used)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.As(err, new(usageError)) {
			return err
		}
		bar.add(1)
		if err != nil {
			e := &weir.Error{}
			if !errors.As(err, &e) {
				e = &weir.Error{Kind: weir.ErrInput, Detail: err.Error()}
			}
			p.Refused = append(p.Refused, refusedModel{m.name, m.file, e})
			continue
		}
		model.Replicas = max(1, replicas[m.name])
		p.Models = append(p.Models, model)
	}
	bar.finish()
	for _, text := range f.dims {
		if !used[text] && len(p.Refused) == 0 {
			return diag.Inputf("--dim %s: no model has that dimension", text)
		}
	}
	return nil
}

// packable compiles a model, and returns what it takes. The error of one that takes more than the capacity has both
// numbers, and the budget with which it fits, if there is one. used gets the values of --dim that apply.
func (f *modelFlags) packable(ctx context.Context, m *foundModel, capacity int64, used map[string]bool) (*packedModel,
	error) {
	if m.err != nil {
		return nil, m.err
	}
	model, peak, err := f.measured(ctx, m, used)
	if err != nil || model.Bytes <= capacity {
		return model, err
	}
	e := &weir.Error{Kind: weir.ErrBudget, File: m.file, Detail: fmt.Sprintf("it takes %s for %s, and a node has %s "+
		"beside the server", bytesText(model.Bytes), counted(f.calls, "call"), bytesText(capacity)), Fix: "a larger --node"}
	if len(model.free) > 0 {
		e.Fix += ", or smaller sizes by --dim: " + strings.Join(model.free, ", ")
	}
	if budget := capacity - (model.Bytes - peak); f.budget == 0 && budget > 0 {
		within := *f
		within.budget = budget
		switch smaller, _, err := within.measured(ctx, m, used); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && smaller.Bytes <= capacity:
			e.Fix += fmt.Sprintf(", or a budget of %d, with which it takes %s, and is slower: see weir plan --budget %d; "+
				"weir compile --budget makes a .weir file of it", budget, bytesText(smaller.Bytes), budget)
		default:
			e.Fix += "; no budget makes it fit"
		}
	}
	return nil, e
}

// measured compiles a model, with those of the bound dimensions that it has, and returns its footprint and peak.
func (f *modelFlags) measured(ctx context.Context, m *foundModel, used map[string]bool) (*packedModel, int64, error) {
	all := f.dims
	defer func() { f.dims = all }()
	file, err := load(m.file)
	if err != nil {
		return nil, 0, err
	}
	has := map[string]bool{}
	for _, in := range file.Inputs() {
		for _, e := range in.Shape {
			has[e.Dim] = true
		}
	}
	rows := firstDimension(file)
	file.Close()
	f.dims = nil
	var decided []string // of sizes that data decide, perhaps
	for _, text := range dimsFor(m.name, all, used) {
		if name, _, _ := strings.Cut(text, "="); has[name] {
			f.dims = append(f.dims, text)
			used[text], used[m.name+"/"+text] = true, true
		} else {
			decided = append(decided, text)
		}
	}
	adjust := func(o *weir.Options, _ *weir.Model) {
		if _, given := o.Dims[rows]; m.rows > 0 && rows != "" && !given && !f.binds(rows) {
			o.Dims[rows] = weir.Range{Min: 1, Max: int64(m.rows)}
		}
	}
	l, bound, err := f.compile(ctx, m.file, adjust)
	if err != nil {
		return nil, 0, err
	}
	again := false
	for _, d := range l.program.Decided() {
		for _, text := range decided {
			if name, _, _ := strings.Cut(text, "="); name == d.Name {
				f.dims, again = append(f.dims, text), true
				used[text], used[m.name+"/"+text] = true, true
			}
		}
	}
	if again {
		l.Close()
		if l, bound, err = f.compile(ctx, m.file, adjust); err != nil {
			return nil, 0, err
		}
	}
	defer l.Close()
	if err := served(l.program); err != nil {
		return nil, 0, err
	}
	taken, err := footprintOf(l.program, f.calls, bound)
	if err != nil {
		return nil, 0, diag.As(err, weir.ErrInput).AtFile(m.file)
	}
	peak, err := peakOf(l.program.Memory(), f.calls, bound)
	if err != nil {
		return nil, 0, err
	}
	model := &packedModel{Name: m.name, File: m.file, footprint: taken, Bytes: taken.bytes(), Nodes: []string{},
		path: m.path, workers: l.program.Memory().Workers, cpu: l.program.CPU()}
	for _, d := range l.program.Dims() {
		if d.Max > d.Min && !f.binds(d.Name) {
			model.free = append(model.free, fmt.Sprintf("%s is up to %d", d.Name, d.Max))
		}
	}
	return model, peak, nil
}

// dimsFor returns the values of --dim that may apply to a model. NAME/DIM=SIZES, without NAME/, goes before DIM=SIZES,
// which used then gets.
func dimsFor(name string, all []string, used map[string]bool) (dims []string) {
	own := map[string]bool{}
	for _, text := range all {
		if rest, ok := strings.CutPrefix(text, name+"/"); ok {
			dim, _, _ := strings.Cut(rest, "=")
			dims, own[dim] = append(dims, rest), true
		}
	}
	for _, text := range all {
		if dim, _, _ := strings.Cut(text, "="); own[dim] {
			used[text] = true
		} else if !strings.HasPrefix(text, name+"/") {
			dims = append(dims, text)
		}
	}
	return dims
}

// binds reports whether --dim names a dimension.
func (f *modelFlags) binds(dim string) bool {
	for _, text := range f.dims {
		if name, _, _ := strings.Cut(text, "="); name == dim {
			return true
		}
	}
	return false
}

// firstDimension returns the dimension that is the first of all inputs, empty if there is none.
func firstDimension(m *weir.Model) (name string) {
	for i, in := range m.Inputs() {
		if len(in.Shape) == 0 || i > 0 && in.Shape[0].Dim != name {
			return ""
		}
		name = in.Shape[0].Dim
	}
	return name
}

// place packs the models, and checks the packing.
func (p *packed) place(ctx context.Context) error {
	capacity := p.Node - p.Server
	problem := binpack.Problem{Capacity: capacity}
	var items []validator.Item
	for _, m := range p.Models {
		problem.Items = append(problem.Items, binpack.Item{Size: m.Bytes, Copies: m.Replicas})
		items = append(items, validator.Item{Size: m.Bytes, Copies: m.Replicas})
	}
	s, err := binpack.Solve(ctx, problem, binpack.Options{Work: packWork})
	if err != nil {
		return err
	}
	if err := validator.Check(items, capacity, s.Bins, s.Least); err != nil {
		return diag.Internalf("the placement is wrong: %v", err)
	}
	p.Least, p.Proven = s.Least, s.Proven
	for i, bin := range s.Bins {
		n := packedNode{Name: fmt.Sprintf("weir-%d", i+1), Bytes: p.Server, placed: bin}
		for _, at := range bin {
			m := p.Models[at]
			n.Models = append(n.Models, m.Name)
			n.Bytes += m.Bytes
			m.Nodes = append(m.Nodes, n.Name)
		}
		n.Free = p.Node - n.Bytes
		p.Nodes = append(p.Nodes, n)
	}
	p.Fits = len(p.Refused) == 0 && (p.Given == nil || len(p.Nodes) <= *p.Given)
	return nil
}

// writable returns an error if the manifests cannot be written, or if their folder has files, which would be mistaken
// for this placement's.
func (f *packFlags) writable() error {
	if f.manifests == "" {
		return nil
	}
	if err := f.written().Check(); err != nil {
		return usageError{err}
	}
	entries, err := os.ReadDir(f.manifests)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diag.Inputf("manifests cannot be written there").AtFile(f.manifests).WithCause(err)
	}
	if len(entries) > 0 {
		return diag.Inputf("the folder for manifests has other files").AtFile(f.manifests).WithFix("name a new folder")
	}
	return nil
}

// written are the options of the manifests.
func (f *packFlags) written() manifest.Options {
	return manifest.Options{Form: f.form, Image: first(f.image, "weir-serve"), Storage: f.storage}
}

// write writes a manifest for each node.
func (f *packFlags) write(p *packed) error {
	var servers []manifest.Server
	for _, n := range p.Nodes {
		s := manifest.Server{Name: n.Name, Load: true, Spread: true}
		var terms []manifest.Term
		for _, at := range n.placed {
			m := p.Models[at]
			s.Threads = max(s.Threads, m.workers)
			s.Models = append(s.Models, manifest.Model{Name: m.Name, Path: m.path, Terms: m.terms(f.calls)})
			terms = append(terms, manifest.Term{Bytes: m.Bytes, What: fmt.Sprintf("%q", m.Name)})
		}
		s.Notes = f.notes(p.Models[n.placed[0]].cpu, fmt.Sprintf("%d models", len(n.placed)))
		describe(&s, terms)
		servers = append(servers, s)
	}
	files, err := manifest.Write(servers, f.written())
	if err != nil {
		return diag.Inputf("%v", err)
	}
	if err := os.MkdirAll(f.manifests, 0o777); err != nil {
		return diag.Inputf("it cannot be made").AtFile(f.manifests).WithCause(err)
	}
	for _, file := range files {
		path := filepath.Join(f.manifests, file.Name)
		err := values.WriteAtomic(path, func(w io.Writer) error {
			_, err := w.Write(file.Text)
			return err
		})
		if err != nil {
			return diag.Inputf("it cannot be written").AtFile(path).WithCause(err)
		}
	}
	return nil
}

// print prints the placement, and returns errFailed if a model has no node.
func (f *packFlags) print(p *packed) error {
	if f.c.json {
		if err := f.c.printJSON(p); err != nil {
			return err
		}
	} else {
		p.table()
	}
	if p.Fits {
		return nil
	}
	if n := len(p.Refused); n > 0 {
		fmt.Fprintf(os.Stderr, "weir: refused: %s\n", counted(n, "model"))
	}
	if p.Given != nil && *p.Given < len(p.Nodes) {
		fmt.Fprintln(os.Stderr, "weir:", p.lacking())
	}
	return errFailed
}

// table prints the placement for a person.
func (p *packed) table() {
	size := values.FormatBytes
	for _, n := range p.Nodes {
		stdout.Printf("%-10s %s: %s of %s, %s free\n", n.Name, counted(len(n.Models), "model"), size(n.Bytes),
			size(p.Node), size(n.Free))
		stdout.Printf("  %14d  the server\n", p.Server)
		for _, at := range n.placed {
			m := p.Models[at]
			replicas := ""
			if m.Replicas > 1 {
				replicas = fmt.Sprintf(", one of %d replicas", m.Replicas)
			}
			stdout.Printf("  %14d  %s%s\n", m.Bytes, printable(m.Name), replicas)
		}
	}
	for _, r := range p.Refused {
		stdout.Printf("refused    %s: %v\n", printable(r.Name), r.Error)
	}
	if len(p.Nodes) == 0 {
		return
	}
	stdout.Printf("nodes       %d\nlower bound %d\n", len(p.Nodes), p.Least)
	if p.Proven {
		stdout.Printf("proven      yes: no placement has fewer nodes\n")
	} else {
		stdout.Printf("proven      no: the search ended at its limit; %d to %d nodes are needed\n", p.Least, len(p.Nodes))
	}
	switch {
	case p.Given == nil:
	case *p.Given >= len(p.Nodes):
		stdout.Printf("given       %d: enough\n", *p.Given)
	default:
		stdout.Printf("given       %d: too few\n", *p.Given)
	}
}

// lacking describes given nodes that are fewer than those of the placement.
func (p *packed) lacking() string {
	if *p.Given < p.Least {
		return fmt.Sprintf("--nodes %d is proved to be too few: at least %d are needed", *p.Given, p.Least)
	}
	return fmt.Sprintf("--nodes %d: the search found no placement on fewer than %d, and did not prove that there is none",
		*p.Given, len(p.Nodes))
}

// printable returns a name as a terminal shows it: quoted, if it has other than visible characters.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
