package sources

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/torch"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// textModel is a model as Weir's text, an ir module: see docs/memory.md.
type textModel struct {
	source string
	parsed *ir.Module // as written; each compilation parses its own
	from   string     // names the code that built the module, if any
	once   bool       // there is no source: the first compilation takes parsed over
	taken  bool       // it has done so
	held   held       // the files that have the constants; nil if there are none
	// constants has the contents of constants that source omits, by name.
	constants map[string]*tensor.Tensor
	// initial has the first values of states, by their inputs' names.
	initial map[string]*tensor.Tensor
}

// held is files that a model's constants are views of.
type held interface {
	Blocks() []*mem.Block // mapped or read, and copies of constants
	Close() error
}

// archive is a file, nil for memory, and the claim of its reading.
type archive struct {
	file  *mem.Block
	claim *mem.Claim
}

func (a archive) Blocks() []*mem.Block {
	if a.file == nil {
		return a.claim.Blocks()
	}
	return append(a.claim.Blocks(), a.file)
}

func (a archive) Close() error {
	err := a.claim.Close()
	if a.file != nil {
		err = errors.Join(err, a.file.Close())
	}
	return err
}

// built returns the model of a module that other code built, and that nobody changes any more.
func built(from string, module *ir.Module) *textModel {
	t := &textModel{source: module.String(), parsed: module, from: from, constants: map[string]*tensor.Tensor{}}
	t.collect(module.Main.Body)
	return t
}

// exported returns a program that torch.export saved, an archive or the graph alone, in data: the bytes of a file, or
// memory if file is nil.
func exported(ctx context.Context, data []byte, file *mem.Block) (t *textModel, err error) {
	claim := mem.NewClaim(ctx, int64(len(data)))
	defer func() {
		claim.Alone()
		if err != nil {
			claim.Close()
		}
	}()
	form, parse := "torch.export, .pt2", torch.Parse
	if torch.IsGraph(data) {
		form, parse = "torch.export, a graph", torch.ParseGraph
	}
	m, initial, err := parse(claim, data)
	if err != nil {
		return nil, err
	}
	t = built(form, m)
	t.held, t.initial = archive{file, claim}, initial
	return t, nil
}

// isExported reports whether a file with this head is one of torch.export's.
func isExported(head []byte) bool { return torch.IsArchive(head) || torch.IsGraph(head) }

// collect records the contents of the constants in a block, at any depth.
func (t *textModel) collect(b *ir.Block) {
	for _, v := range b.Consts {
		t.constants[v.Name] = v.Const
	}
	for _, n := range b.Nodes {
		for _, r := range n.Regions {
			t.collect(r)
		}
	}
}

// mostText is the largest text that is read, in bytes.
const mostText = 64 << 20

// isText reports whether a file with this head is a text.
func isText(head []byte) bool {
	return len(head) >= 7 && string(head[:6]) == "weir 1" && head[6] <= ' '
}

// readText parses a text. Shapes and memory are checked when it is compiled, with the ranges that the dimensions have
// then.
func readText(data []byte) (*textModel, error) {
	if len(data) > mostText {
		return nil, diag.Unsupportedf("a text of more than %d bytes", mostText)
	}
	source := string(data)
	if words := strings.Fields(source[:min(len(source), 200)]); len(words) > 2 &&
		(words[2] == "program" || words[2] == "loop") {
		return nil, diag.Unsupportedf("a %s written as text; ir, which says what a model computes, can be read", words[2]).
			WithFix("weir dump MODEL --after import writes it, weir compile makes an artefact")
	}
	t := &textModel{source: source}
	m, err := t.parse()
	if err != nil {
		return nil, err
	}
	t.parsed = m
	return t, nil
}

// parse reads the text.
func (t *textModel) parse() (*ir.Module, error) {
	if t.once {
		if t.taken {
			return nil, diag.Internalf("%s is compiled twice", t.from)
		}
		t.taken = true
		return t.parsed, nil
	}
	if t.from != "" {
		return ir.Parse(t.source, ir.ParseOptions{Data: t.constant})
	}
	m, err := ir.Parse(t.source, ir.ParseOptions{})
	if err != nil {
		return nil, err
	}
	for _, list := range [][]*ir.Value{m.Main.Body.Params, m.Main.Body.Results} {
		for _, v := range list {
			if v.Type.DType == dtype.String {
				return nil, diag.Unsupportedf("a text whose inputs or outputs are strings").AtTensor(v.Name)
			}
		}
	}
	return m, ir.Complete(m)
}

// constant returns the contents of a constant that the text omits.
func (t *textModel) constant(name string, _ dtype.DType, _ []int64, _ int64) (*tensor.Tensor, error) {
	if c := t.constants[name]; c != nil {
		return c, nil
	}
	return nil, diag.Internalf("constant %s has no contents", name)
}

func (t *textModel) Metadata() map[string]string { return maps.Clone(t.parsed.Meta) }

// Blocks returns the files that have the constants, and the copies of constants.
func (t *textModel) Blocks() []*mem.Block {
	if t.held == nil {
		return nil
	}
	return t.held.Blocks()
}

// Close releases the files that have the constants, and the copies of constants.
func (t *textModel) Close() error {
	if t.held == nil {
		return nil
	}
	return t.held.Close()
}

func (t *textModel) First(input string, to *tensor.Tensor) error {
	return writeFirst(t.initial[input], to, input)
}

func (t *textModel) Written() bool     { return t.from == "" }
func (t *textModel) Fixed(string) bool { return false }

// Origins names the node that computes each value of the main function.
func (t *textModel) Origins(add func(name string, o Origin)) {
	for _, n := range t.parsed.Main.Body.Nodes {
		for _, v := range n.Outputs {
			add(v.Name, Origin{Node: n.Source, Op: n.Op.Name()})
		}
	}
}

// Build parses the module again.
func (t *textModel) Build(ctx context.Context, a Asked) (*Built, error) {
	m, err := t.again(ctx, a.Outputs)
	if err != nil {
		return nil, err
	}
	b := &Built{Module: m, Inputs: t.Inputs(), Outputs: PortsOf(m.Main.Body.Results)}
	for _, port := range b.Outputs {
		b.Results = append(b.Results, port.Name)
	}
	return b, nil
}

// again parses the module again; its results are the named values, or its own if names is nil.
func (t *textModel) again(ctx context.Context, names []string) (*ir.Module, error) {
	m, err := t.parse()
	if err != nil {
		return nil, err
	}
	m.Check = ctx.Err
	body := m.Main.Body
	if names != nil {
		values := map[string]*ir.Value{}
		for _, list := range [][]*ir.Value{body.Params, body.Consts} {
			for _, v := range list {
				values[v.Name] = v
			}
		}
		for _, n := range body.Nodes {
			for _, v := range n.Outputs {
				values[v.Name] = v
			}
		}
		was := body.Results
		body.Results = nil
		for _, name := range names {
			if values[name] == nil {
				return nil, diag.Inputf("nothing computes output %q", name).AtTensor(name)
			}
			body.Results = append(body.Results, values[name])
		}
		// A state whose new value is not among the results is not updated.
		states := m.Main.States[:0]
		for _, s := range m.Main.States {
			if i := slices.Index(body.Results, was[s.Out]); i >= 0 {
				states = append(states, ir.State{In: s.In, Out: i})
			}
		}
		m.Main.States = states
	}
	seen := map[string]bool{}
	for _, v := range body.Results {
		if seen[v.Name] {
			return nil, diag.Inputf("%s is returned twice", text.LocalName(v.Name)).AtTensor(v.Name)
		}
		seen[v.Name] = true
	}
	return m, nil
}

func (t *textModel) Outputs() []Port { return PortsOf(t.parsed.Main.Body.Results) }

// Inputs returns the parameters of the main function, with the states among them.
func (t *textModel) Inputs() []Port {
	list := PortsOf(t.parsed.Main.Body.Params)
	for _, s := range t.parsed.Main.States {
		i := slices.Index(t.parsed.Main.Body.Params, s.In)
		list[i].State, list[i].Initial = t.parsed.Main.Body.Results[s.Out].Name, t.initial[s.In.Name] != nil
	}
	return list
}

// format names the origin of the module.
func (t *textModel) format() string {
	if t.from != "" {
		return t.from
	}
	return "weir text, version 1"
}

// Describe counts the nodes and constants of the module.
func (t *textModel) Describe(func() (func(), error)) Description {
	d := Description{Format: t.format(), Producer: t.parsed.Meta["producer"], Ops: map[string]int{}, Opsets: []string{}}
	names := func(list []*ir.Value) []string {
		out := make([]string, len(list))
		for i, v := range list {
			if v != nil {
				out[i] = v.Name
			}
		}
		return out
	}
	var block func(b *ir.Block, path string)
	block = func(b *ir.Block, path string) {
		for _, v := range b.Consts {
			d.count(v.Type.DType, v.Const.Len())
		}
		for _, n := range b.Nodes {
			name := n.Source
			if name == "" && len(n.Outputs) > 0 {
				name = n.Outputs[0].Name
			}
			d.Ops[n.Op.Name()]++
			d.Nodes = append(d.Nodes, Node{path + name, n.Op.Name(), names(n.Inputs), names(n.Outputs)})
			for _, r := range n.Regions {
				block(r, path+name+"/")
			}
		}
	}
	block(t.parsed.Main.Body, "")
	for _, first := range t.initial {
		d.count(first.DType(), first.Len())
	}
	return d
}
