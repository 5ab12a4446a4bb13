// Package array computes with arrays in Go: operations are methods of a scope, which owns their results.
//
//	s := array.NewScope("batch")
//	defer s.Close()
//	x := array.From(s, []float32{1, 2, 3, 4}, 2, 2)
//	y := s.Relu(s.Add(s.MatMul(x, x), s.Number(-8)))
//	list, err := array.Copy[float32](y)
//
// Jit compiles a function of arrays as a whole, and tells how much memory it takes; Grad differentiates one.
//
// # Memory
//
// A result belongs to the scope that ran the operation, whoever owns the operands. When the scope is closed, every byte
// of its arrays is given back; a result that is to live longer is moved out of it by Return. Nothing is left to the
// garbage collector.
package array
