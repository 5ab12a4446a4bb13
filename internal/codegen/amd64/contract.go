package amd64

import "github.com/weirml/weir/internal/loop"

// group emits a contraction group at the head of a body, and returns how many statements it is; 0 where there is none.
func (e *emitter) group(list []loop.Stmt) int { return 0 }

// contract emits a product of tiles in memory.
func (e *emitter) contract(s *loop.Contract) { refuse("a product") }
