// Command decode writes text with a transformer that keeps the keys and values of earlier positions in a cache, which
// is a state of the program: each run updates it in place.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var s size
	flag.IntVar(&s.width, "width", 256, "elements of a position")
	flag.IntVar(&s.blocks, "blocks", 4, "layers of attention")
	flag.IntVar(&s.most, "most", 512, "positions that the cache has room for")
	tokens := flag.Int("tokens", 128, "tokens to write")
	flag.Parse()
	if err := run(ctx, os.Stdout, s, "Once upon a time", *tokens); err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
}

// run writes so many tokens after a prompt, and prints the speed and the bytes.
func run(ctx context.Context, w io.Writer, s size, prompt string, tokens int) error {
	d, err := newDecoder(ctx, s)
	if err != nil {
		return err
	}
	defer d.close()
	total, err := d.program.Memory().Peak(1, weir.Dims{"new": int64(s.most)})
	if err != nil {
		return err
	}
	caches, err := d.cacheBytes() // arguments, which the certificate does not count
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "certificate: %d bytes of the program, and %d of its cache of %d positions\n", total, caches, s.most)

	begin := time.Now()
	next, err := d.step(ctx, []byte(prompt))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "prompt: %d tokens in %v\n", len(prompt), time.Since(begin).Round(time.Microsecond))
	written := []byte{next}
	begin = time.Now()
	for len(written) < tokens {
		if next, err = d.step(ctx, []byte{next}); err != nil {
			return err
		}
		written = append(written, next)
	}
	if seconds := time.Since(begin).Seconds(); tokens > 1 {
		fmt.Fprintf(w, "written: %d tokens, %.0f a second\n", tokens, float64(tokens-1)/seconds)
	}
	_, err = fmt.Fprintf(w, "%q\n", written)
	return err
}

// letters is the number of tokens: each byte is one.
const letters = 256

// size is the size of a network.
type size struct{ width, blocks, most int }

// heads returns the number of attention heads, of 32 elements each.
func (s size) heads() int { return max(1, s.width/32) }

// transformer computes the scores of the byte after each position. With caches, the inputs are the positions after the
// first count, whose keys and values are in the caches; the results are then the scores of the last position and the
// new caches.
type transformer struct {
	size
	cached bool
}

func (t transformer) String() string { return "transformer" }

func (t transformer) table() nn.Layer { return nn.Embedding(letters, t.width) }

func (t transformer) positions() nn.Layer { return nn.Embedding(t.most, t.width) }

// attention returns a block's attention.
func (t transformer) attention() nn.Layer {
	if t.cached {
		return nn.CachedAttention(t.width, t.heads())
	}
	return nn.MultiHeadAttention(t.width, t.heads(), nn.Causal)
}

func (t transformer) inner() nn.Layer {
	return nn.Sequential(nn.LayerNorm(t.width), nn.Linear(t.width, 4*t.width), nn.Gelu, nn.Linear(4*t.width, t.width))
}

// Declare names the parameters, which are the same with and without caches.
func (t transformer) Declare(d *nn.Declaration) {
	d.Layer("table", t.table())
	d.Layer("positions", t.positions())
	for i := range t.blocks {
		d.Layer(fmt.Sprintf("norm%d", i), nn.LayerNorm(t.width))
		d.Layer(fmt.Sprintf("attention%d", i), t.attention())
		d.Layer(fmt.Sprintf("inner%d", i), t.inner())
	}
	d.Layer("scores", nn.Linear(t.width, letters))
}

// Apply takes ids[1, new] and, with caches, count[1] and the keys and values of each block.
func (t transformer) Apply(c *nn.Context, in ...*array.Array) []*array.Array {
	ids := in[0]
	position := c.Sub(c.CumSum(c.OnesLike(ids), 1), c.OnesLike(ids)) // 0, 1, 2, …
	if t.cached {
		position = c.Add(position, in[1])
	}
	x := c.Add(c.One("table", t.table(), ids), c.One("positions", t.positions(), position))
	var caches []*array.Array
	for i := range t.blocks {
		inputs := []*array.Array{c.One(fmt.Sprintf("norm%d", i), nn.LayerNorm(t.width), x)}
		if t.cached {
			inputs = append(inputs, in[2+2*i], in[3+2*i], in[1])
		}
		y := c.Call(fmt.Sprintf("attention%d", i), t.attention(), inputs...)
		if c.Err() != nil {
			return y
		}
		caches = append(caches, y[1:]...)
		x = c.Add(x, y[0])
		x = c.Add(x, c.One(fmt.Sprintf("inner%d", i), t.inner(), x))
	}
	if t.cached {
		x = c.Scope.Index(x, array.All, -1)
	}
	return append([]*array.Array{c.One("scores", nn.Linear(t.width, letters), x)}, caches...)
}

// specs returns the inputs of a transformer with caches.
func (t transformer) specs() []array.Spec {
	list := []array.Spec{array.SpecOf("ids", weir.I64, 1, "new"), array.SpecOf("count", weir.I64, 1)}
	for i := range t.blocks {
		for _, name := range []string{"keys", "values"} {
			list = append(list, array.SpecOf(fmt.Sprint(name, i), weir.F32, 1, t.heads(), t.most, t.width/t.heads()))
		}
	}
	return list
}

// decoder is a program and its cache.
type decoder struct {
	size
	program *weir.Program
	caches  weir.Inputs // as Update
	tensors []*weir.Tensor
	count   int // the number of positions in the cache
}

// newDecoder makes the model, and compiles it with its caches as states.
func newDecoder(ctx context.Context, s size) (d *decoder, err error) {
	net := transformer{s, true}
	params := nn.Init(net, 1)
	defer params.Close()
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, params, net.specs()...); err != nil {
		return nil, err
	}
	model, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		return nil, err
	}
	defer model.Close()
	// The first output is the scores, the others are the caches in the order of the inputs.
	states := map[string]string{}
	for i, spec := range net.specs()[2:] {
		states[spec.Name] = model.Outputs()[1+i].Name
	}
	d = &decoder{size: s, caches: weir.Inputs{}}
	d.program, err = weir.Compile(ctx, model, weir.Options{States: states,
		Dims: map[string]weir.Range{"new": {Min: 1, Max: int64(s.most)}}})
	if err != nil {
		return nil, err
	}
	for _, info := range d.program.Inputs() {
		if info.State == "" {
			continue
		}
		var shape []int
		for _, e := range info.Shape {
			shape = append(shape, int(e.Size))
		}
		cache, err := weir.New(info.DType, shape...)
		if err != nil {
			d.close()
			return nil, err
		}
		d.tensors = append(d.tensors, cache)
		d.caches[info.Name] = weir.Update(cache)
	}
	return d, nil
}

// close frees all memory.
func (d *decoder) close() {
	d.program.Close()
	for _, t := range d.tensors {
		t.Close()
	}
}

// cacheBytes returns the size of the cache, from the program's states.
func (d *decoder) cacheBytes() (total int64, err error) {
	for _, s := range d.program.States() {
		n, err := s.Bytes.Max()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// step adds tokens to the cache, and returns the most likely one after them.
func (d *decoder) step(ctx context.Context, tokens []byte) (byte, error) {
	scores, err := d.scores(ctx, tokens)
	if err != nil {
		return 0, err
	}
	return byte(slices.Index(scores, slices.Max(scores))), nil
}

// scores adds tokens to the cache, and returns the scores of the token after them.
func (d *decoder) scores(ctx context.Context, tokens []byte) ([]float32, error) {
	if d.count+len(tokens) > d.most {
		return nil, fmt.Errorf("the cache has room for %d positions, and this is number %d", d.most, d.count+len(tokens))
	}
	ids := make([]int64, len(tokens))
	for i, c := range tokens {
		ids[i] = int64(c)
	}
	x, err := weir.FromSlice(ids, 1, len(ids))
	if err != nil {
		return nil, err
	}
	count, err := weir.FromSlice([]int64{int64(d.count)}, 1)
	if err != nil {
		return nil, err
	}
	d.caches["ids"], d.caches["count"] = x, count
	results, err := d.program.Run(ctx, d.caches)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	d.count += len(tokens)
	return weir.Copy[float32](results.At(0))
}
