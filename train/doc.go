// Package train trains networks of package nn. A step is one program: the forward pass, the backward pass and the
// optimiser's update are compiled together. Parameters, moments and running statistics are its states, updated in
// place. Its certificate is a formula in the extents of the batch.
//
//	t, err := train.New(net, p, train.CrossEntropy, train.AdamW(1e-3), train.Options{})
//	defer t.Close()
//	for batch := range data.Batches(64) {
//		m, err := t.Step(ctx, batch)
//		…
//	}
package train
