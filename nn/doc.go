// Package nn builds networks of layers: what a network computes is a Layer, and what it has learnt is a Params.
//
//	net := nn.Sequential(nn.Linear(784, 256), nn.Relu, nn.Linear(256, 10))
//	p := nn.Init(net, 7)
//	defer p.Close()
//	y, err := nn.Predict(s, net, p, x)
//
// A layer of one's own is a Go type with two methods: Declare names its parameters, Apply computes with them.
// Parameters have the names, and in files the shapes, of PyTorch's, so that a file of one is read by the other.
//
// # Memory
//
// Parameters belong to the store's scope, which takes no arrays once the store is made. Results belong to the scope in
// which the network is applied: no layer can leave an array behind with the parameters.
package nn
