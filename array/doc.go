// Package array computes with arrays in Go: operations are methods of a scope, which owns their results.
//
//	s := array.NewScope("batch")
//	defer s.Close()
//	x := array.From(s, []float32{1, 2, 3, 4}, 2, 2)
//	y := s.Relu(s.Add(s.MatMul(x, x), s.Number(-8)))
//	list, err := array.Copy[float32](y)
//
// Jit compiles a function of arrays into one program with a memory certificate; Grad differentiates a function.
//
// # Memory
//
// A result belongs to the scope that ran the operation, even if another scope owns the operands. Closing a scope frees
// all of its arrays; Return moves a result that must live longer out of it. Nothing is left to the garbage collector.
package array
