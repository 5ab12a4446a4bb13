// Package nn builds networks of layers: a Layer is the computation, and a Params holds the learnt parameters.
//
//	net := nn.Sequential(nn.Linear(784, 256), nn.Relu, nn.Linear(256, 10))
//	p := nn.Init(net, 7)
//	defer p.Close()
//	y, err := nn.Predict(s, net, p, x)
//
// You can write a layer yourself: it is a Go type with two methods. Declare names its parameters, Apply computes with
// them. Parameters have PyTorch's names and, in files, PyTorch's shapes, so that each library reads the other's files.
//
// # Memory
//
// Parameters belong to the store's scope, which accepts no arrays after the store is made. Results belong to the scope
// in which the network is applied, so no layer can leave an array among the parameters.
package nn
