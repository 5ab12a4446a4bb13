// Command recommender learns recommendations from users' judgements of films. It has a table of vectors for users and
// one for films; a step reads and writes only the rows of its batch.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/signal"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// Users like films of their own taste; one judgement in ten, at random, contradicts it.
const (
	users, films = 2000, 500
	tastes       = 5
	each         = 80 // the number of films that a user judged
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	epochs := flag.Int("epochs", 5, "how often to see each judgement")
	flag.Parse()
	if _, err := run(ctx, os.Stdout, *epochs); err != nil {
		fmt.Fprintln(os.Stderr, "recommender:", err)
		os.Exit(1)
	}
}

// recommender computes the logit that a user likes a film: the product of their vectors, plus a bias for the user and
// one for the film.
type recommender struct{ user, film, generous, popular nn.Layer }

// newRecommender makes a recommender.
func newRecommender(extent int) *recommender {
	small := nn.Weights(nn.Normal(0, 0.1))
	return &recommender{nn.Embedding(users, extent, small), nn.Embedding(films, extent, small),
		nn.Embedding(users, 1, small), nn.Embedding(films, 1, small)}
}

// Declare names the four tables.
func (r *recommender) Declare(d *nn.Declaration) {
	d.Layer("user", r.user)
	d.Layer("film", r.film)
	d.Layer("generous", r.generous)
	d.Layer("popular", r.popular)
}

// Apply takes the ids of users and of films.
func (r *recommender) Apply(c *nn.Context, x ...*array.Array) []*array.Array {
	product := c.Mul(c.One("user", r.user, x[0]), c.One("film", r.film, x[1]))
	bias := c.Add(c.One("generous", r.generous, x[0]), c.One("popular", r.popular, x[1]))
	return []*array.Array{c.Add(c.Sum(product, -1), c.Sum(bias, -1))}
}

// judgements are users' opinions of films.
type judgements struct {
	users, films []int32
	liked        []float32
}

func (j *judgements) data(o train.DataOptions) (*train.Data, error) {
	return train.NewData(train.Column(j.users), train.Column(j.liked), o, train.Column(j.films))
}

// judge draws judgements: a user likes nine of ten films of the user's taste, and one of ten others. The last tenth is
// for tests.
func judge(r *rand.Rand) (seen, unseen judgements) {
	for u := range users {
		for i := range each {
			f, list := r.Intn(films), &seen
			if i*10 >= each*9 {
				list = &unseen
			}
			liked := float32(0)
			if (f%tastes == u%tastes) != (r.Intn(10) == 0) {
				liked = 1
			}
			list.users, list.films, list.liked = append(list.users, int32(u)), append(list.films, int32(f)),
				append(list.liked, liked)
		}
	}
	return seen, unseen
}

// right returns the share of judgements that the logits' signs predict.
type right struct{ right, seen float64 }

// Observe counts the logits whose sign is right.
func (m *right) Observe(rows [][]float32, targets []float64) error {
	for i, row := range rows {
		for _, x := range row {
			if m.seen++; (x > 0) == (targets[i] > 0.5) {
				m.right++
			}
		}
	}
	return nil
}

func (m *right) Value() float64 { return m.right / max(m.seen, 1) }

func (m *right) String() string { return fmt.Sprintf("%.1f %% right", 100*m.Value()) }

// run trains, and returns the share of correct predictions among the judgements for tests.
func run(ctx context.Context, w io.Writer, epochs int) (float64, error) {
	seen, unseen := judge(rand.New(rand.NewSource(1)))
	data, err := seen.data(train.DataOptions{Shuffle: true, Key: 1, Prefetch: 1})
	if err != nil {
		return 0, err
	}
	test, err := unseen.data(train.DataOptions{})
	if err != nil {
		return 0, err
	}
	net := newRecommender(6)
	params := nn.Init(net, 1)
	defer params.Close()
	t, err := train.New(net, params, train.BCEWithLogits, train.Adam(0.01), train.Options{Lazy: []string{"*"}})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	for epoch := range epochs {
		var mean train.Mean
		for batch := range data.Batches(256) {
			m, err := t.Step(ctx, batch)
			if err != nil {
				return 0, err
			}
			mean.Add(m.Loss, 1)
		}
		if err := data.Err(); err != nil {
			return 0, err
		}
		fmt.Fprintf(w, "epoch %d: loss %.4f\n", epoch+1, mean.Value())
	}
	bytes, err := t.Memory().Peak(1, weir.Dims{"batch": 256})
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "a step of 256 judgements takes %d bytes, and %d of tables and moments\n", bytes, t.StateBytes())
	m := &right{}
	loss, err := t.Evaluate(ctx, test.Batches(256), m)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "%d judgements that it never saw: loss %.4f, %v (90 %% is the most: one in ten is drawn against the "+
		"taste)\n", test.Len(), loss, m)
	return m.Value(), nil
}
