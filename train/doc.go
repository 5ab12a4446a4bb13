// Package train trains networks of package nn. A step is one program, in which forward, backward and the optimiser's
// update are compiled together: parameters, moments and running statistics are its states, updated in place, and its
// certificate is a formula over the batch.
//
//	t, err := train.New(net, p, train.CrossEntropy, train.AdamW(1e-3), train.Options{})
//	defer t.Close()
//	for batch := range data.Batches(64) {
//		m, err := t.Step(ctx, batch)
//		…
//	}
package train
