package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// open returns a scope and a network's store; both are closed when the test ends, and memory that is left then fails
// it.
func open(t *testing.T, net nn.Layer) (*array.Scope, *nn.Params) {
	t.Helper()
	array.AssertNoLeaks(t)
	s := array.NewScope("test")
	p, err := nn.New(net, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close() // tests read the scope's error themselves
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, p
}

// elements returns a copy of an array's f32 elements.
func elements(t *testing.T, a *array.Array) []float32 {
	t.Helper()
	list, err := array.Copy[float32](a)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSequential: a network of two linear layers has the expected parameter names, computes what loops in Go compute,
// and adds nothing to the store's scope.
func TestSequential(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 4), nn.Relu, nn.Linear(4, 2, nn.NoBias))
	s, p := open(t, net)
	if got, want := p.Names(), []string{"0.weight", "0.bias", "2.weight"}; !slices.Equal(got, want) {
		t.Fatalf("the parameters are %v, not %v", got, want)
	}
	before := p.Scope().Stats()
	x := []float32{1, -2, 3, .5, 0, -1}
	y, err := nn.Predict(s, net, p, array.From(s, x, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	got := elements(t, y)
	w0, b0, w2 := elements(t, p.Get("0.weight")), elements(t, p.Get("0.bias")), elements(t, p.Get("2.weight"))
	for i := range 2 {
		for o := range 2 {
			sum := 0.0
			for h := range 4 {
				v := float64(b0[h])
				for k := range 3 {
					v += float64(x[i*3+k]) * float64(w0[k*4+h])
				}
				sum += max(v, 0) * float64(w2[h*2+o])
			}
			if math.Abs(sum-float64(got[i*2+o])) > 1e-5 {
				t.Errorf("element %d, %d is %v, not %v", i, o, got[i*2+o], sum)
			}
		}
	}
	if after := p.Scope().Stats(); len(after.Arrays) != len(before.Arrays) || after.Bytes != before.Bytes {
		t.Errorf("the store held %d arrays and holds %d", len(before.Arrays), len(after.Arrays))
	}
}

// TestShapeErrors: an input of 4 elements to an inner layer of 5 is one error, which names the layer's path, the input,
// the fix and the calling file.
func TestShapeErrors(t *testing.T) {
	inner := nn.Sequential(nn.Relu, nn.Linear(5, 2))
	net := nn.Sequential(nn.Linear(3, 4), inner)
	s, p := open(t, net)
	_, err := nn.Predict(s, net, p, s.Zeros(weir.F32, 2, 3))
	if err == nil {
		t.Fatal("4 elements went into a layer of 5")
	}
	for _, part := range []string{"1.1 (Linear(5, 2))", "f32[2,4]", "must have 5", "nn.Linear(4, 2)", "nn_test.go"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("several errors: %v", err)
	}
}

// TestSharing: a layer that a network contains twice has one set of parameters, Tie makes two parameters one and frees
// the memory of the first, and Freeze removes names from Trainable. Names and patterns that do not fit are errors.
func TestSharing(t *testing.T) {
	shared := nn.Linear(3, 3)
	net := nn.Sequential(shared, nn.Tanh, nn.Sequential(shared), nn.Linear(3, 3), nn.Linear(3, 3))
	_, p := open(t, net)
	if got := strings.Join(p.Names(), " "); got != "0.weight 0.bias 3.weight 3.bias 4.weight 4.bias" {
		t.Fatal(got)
	}
	if p.Get("2.0.weight") != p.Get("0.weight") || p.Get("2.0.weight") == nil {
		t.Error("a layer at two places has two weights")
	}
	bytes := p.Bytes()
	if err := p.Tie("4.weight", "3.weight"); err != nil {
		t.Fatal(err)
	}
	if p.Get("4.weight") != p.Get("3.weight") || p.Bytes() != bytes-36 {
		t.Errorf("%d bytes before, %d after tying 36", bytes, p.Bytes())
	}
	for _, bad := range [][2]string{{"4.weight", "4.bias"}, {"4.weight", "none"}} {
		if p.Tie(bad[0], bad[1]) == nil {
			t.Errorf("%v are tied", bad)
		}
	}
	if err := p.Freeze("0.*"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Trainable(), " "); got != "3.weight 3.bias 4.bias" {
		t.Error(got)
	}
	if p.Freeze("nothing*") == nil || p.Freeze("[") == nil {
		t.Error("a pattern that matches nothing is accepted")
	}
}

// TestInitialisers: for a weight of 200 × 100, each initialiser gives the root mean square that its formula says,
// within 2%, and stays within its bounds.
func TestInitialisers(t *testing.T) {
	cases := []struct {
		init            nn.Initializer
		deviation, most float64
	}{
		{nn.XavierUniform(1), math.Sqrt(6.0/300) / math.Sqrt(3), math.Sqrt(6.0 / 300)},
		{nn.XavierNormal(2), 2 * math.Sqrt(2.0/300), 2},
		{nn.KaimingUniform(0), math.Sqrt(2.0 / 200), math.Sqrt(6.0 / 200)},
		{nn.KaimingNormal(1), math.Sqrt(1.0 / 200), 1},
		{nn.Uniform(-.5, .5), 1 / math.Sqrt(12), .5},
		{nn.Normal(0, .3), .3, 3},
		{nn.TruncatedNormal(0, 1, -2, 2), .8796, 2},
		{nn.Constant(3), 3, 3},
		{nn.Zeros(), 0, 0},
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, p := open(t, nn.Linear(200, 100, nn.Weights(c.init)))
			sum, most := 0.0, 0.0
			w := elements(t, p.Get("weight"))
			for _, x := range w {
				sum += float64(x) * float64(x)
				most = max(most, math.Abs(float64(x)))
			}
			if got := math.Sqrt(sum / float64(len(w))); math.Abs(got-c.deviation) > .02*c.deviation || most > c.most+1e-6 {
				t.Errorf("the deviation is %v, not %v; the largest is %v of %v", got, c.deviation, most, c.most)
			}
		})
	}
}

// TestOrthogonal: the rows or columns of a weight, whichever are fewer, are orthogonal to each other and have the
// length 2 that was given as gain.
func TestOrthogonal(t *testing.T) {
	for _, size := range [][2]int{{5, 9}, {9, 5}, {6, 6}} {
		_, p := open(t, nn.Linear(size[0], size[1], nn.Weights(nn.Orthogonal(2))))
		w := elements(t, p.Get("weight")) // [in, out]
		in, out := size[0], size[1]
		for i := range min(in, out) {
			for k := range min(in, out) {
				sum, want := 0.0, 0.0
				for m := range max(in, out) {
					if in <= out {
						sum += float64(w[i*out+m]) * float64(w[k*out+m])
					} else {
						sum += float64(w[m*out+i]) * float64(w[m*out+k])
					}
				}
				if i == k {
					want = 4
				}
				if math.Abs(sum-want) > 1e-5 {
					t.Errorf("%v: vectors %d and %d: %v, not %v", size, i, k, sum, want)
				}
			}
		}
	}
}

// TestKeys: initial elements depend on the key and the parameter's name, and not on the network's other layers.
func TestKeys(t *testing.T) {
	_, p := open(t, nn.Sequential(nn.Linear(3, 4)))
	_, q := open(t, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4)))
	if !slices.Equal(elements(t, p.Get("0.weight")), elements(t, q.Get("0.weight"))) {
		t.Error("a layer more changes another's parameters")
	}
	if slices.Equal(elements(t, q.Get("0.bias")), elements(t, q.Get("1.bias"))) {
		t.Error("two parameters are drawn alike")
	}
	r := nn.Init(nn.Sequential(nn.Linear(3, 4)), 8)
	defer r.Close()
	if slices.Equal(elements(t, p.Get("0.weight")), elements(t, r.Get("0.weight"))) {
		t.Error("two keys draw alike")
	}
}

// TestTraced: a network in a compiled function, with a parameter as an input of the function, computes the same as
// Predict, and the derivative by that input has its shape.
func TestTraced(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 4), nn.Tanh, nn.Linear(4, 1))
	s, p := open(t, net)
	f := func(s *array.Scope, in ...*array.Array) []*array.Array {
		c := nn.Inference(s, p)
		c.Bind("0.weight", in[1])
		return []*array.Array{s.Sum(nn.One(c, net, in[0]))}
	}
	c, err := array.Jit(array.ValueAndGrad(f), array.Options{Name: "loss", Inputs: []array.Spec{
		array.SpecOf("x", weir.F32, "batch", 3), array.SpecOf("w", weir.F32, 3, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := array.From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	out := c.Call(s, x, p.Get("0.weight"))
	y, err := nn.Predict(s, net, p, x)
	if err != nil {
		t.Fatal(err)
	}
	list := elements(t, y)
	if got := elements(t, out[0])[0]; math.Abs(float64(got-list[0]-list[1])) > 1e-5 {
		t.Errorf("compiled %v, at once %v", got, list)
	}
	if got := fmt.Sprint(out[2]); got != "f32[3,4]" {
		t.Errorf("the derivative is %v", got)
	}
}
