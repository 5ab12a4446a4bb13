// Package schedule turns loop modules as lowering writes them into loop modules as machines run them.
//
// Lowering writes what is computed, one kernel per operator, in each-loops of full size; it chooses no tile, no vector,
// no thread. This package joins kernels into one pass where that is legal and fits the machine (fuse.go, inline.go,
// epilogue.go), has them write their results where later ones would move them to (parts.go), gives contractions their
// tiles (rows.go, contract.go), merges axes and loops that walk memory as one (rejoin.go, flatten.go), picks the vector
// loop (vector.go, transpose.go) and the parallel tiles (parallel.go). Every step asks Fit, the one accountant of what
// a kernel takes of the machine (fit.go), before it commits: kernels are joined only where the result exceeds no limit
// by more than they did, tiles are halved until they fit, and what still does not has its largest locals planned as
// buffers (outside.go), which always can be done. Steps are a table (schedule.go) and can be left out one by one
// (Options.Without); whatever a step does not recognise it leaves as it was, which is always right. What kernels
// compute, to the bit, depends on shapes and the machine's description, never on the number of threads; how large their
// tiles are may.
//
// # What lowering writes
//
// These forms are recognised. Anything else is legal too, and merely runs less fast.
//
// A map: one nest of each-loops around one store, at the loop variables themselves, of a pure expression. Broadcasting
// is an index 0 or a missing index in a load. Lets (and Checks) may stand before the store.
//
//	each i0 < a
//	  each i1 < b
//	    y[i0, i1] = add(x[i0, i1], bias[0, i1])
//
// A reduction: each-loops over the kept axes; inside, Vars, serial loops over the reduced axes with Reduce (or Set)
// inside, then stores. Softmax and the normalisations are each-loops over rows, around several such serial loops and a
// last each-loop (or nest of them) that stores. Use Reduce, not Set, wherever the order of combination does not matter:
// only a Reduce can be done in lanes.
//
//	each i < rows
//	  var m = lowest
//	  serial k < n
//	    m = max(m, x[i, k])          (Reduce)
//	  each k < n
//	    y[i, k] = sub(x[i, k], m)
//
// A contraction: inside any each-loops (batch, group, output row), a Local as large as the whole product, written by a
// nest of each-loops (zero, or the bias), then Contracts into it, possibly inside serial loops (the window of a
// convolution), then a nest of each-loops that reads the Local at its own loop variables and stores. Lowering chooses
// no tile sizes: the Local is cut along every axis along which all three parts can be, so it never exists at full size.
//
//	each b < batch
//	  local acc: f32 [M, N]
//	  each i < M
//	    each j < N
//	      acc[i, j] = 0
//	  contract M N K  C = acc[0, 0] row [1, 0] col [0, 1]
//	                  A = a[b, 0, 0] row [0, 1, 0] col [0, 0, 1]
//	                  B = w[0, 0] row [1, 0] col [0, 1]
//	  each i < M
//	    each j < N
//	      y[b, i, j] = acc[i, j]
//
// An axis of the Local is cut where the first and last nest loop over its whole extent, with the loop variable itself
// as the index, and each Contract either covers it whole from origin 0 (by its Row or Col) or names it by a loop
// variable of its own. A Contract that covers a part of an axis (a padded convolution, whose window leaves out the
// columns outside the image) is legal; that axis is then not cut. The Local may have more than two axes: a direct
// convolution writes
//
//	each n < batch
//	  each g < groups
//	    each r < rows                  (one output row)
//	      local acc: f32 [channels/groups, columns]
//	      …zero or bias…
//	      serial h < kernelHeight      (M, N or K may be empty for rows that lie in the padding)
//	        serial w < kernelWidth
//	          contract …  A = weight[h, w, g, …], B = x[n, g·…,
//	                   r·stride + h·dilation − pad, first + w·dilation − pad] with Col [0, 0, 0, stride]
//	      …store…
//
// Rows of such a convolution that are narrow stay together: the loop over them goes inside the window's, so that
// consecutive contractions share their left operand; let that one, the weights, not depend on the row.
//
// Wide contractions are fast ones: put the longer of the two output axes in N, and let B's columns (Col) and A's
// columns (K) be contiguous where a constant operand's layout is free.
//
// Several nests in one body run in order, and only loops at the top of a kernel can become parallel tiles. Top-level
// nests are spread over tiles together where they are seen to be independent: none reads what another writes, and two
// that store to one buffer store to index ranges that are provably apart along some axis (concatenation).
//
// # What register machines get
//
// Where target.Machine has a register tile, contractions are cut otherwise (panels.go): to one panel of columns, as
// wide as the tile, and at least 128 rows, inside loops over tiles of rows and, in those, over panels. What the local
// is then part of is a group that the code generator recognises: the local, the nest that begins the sums (rows
// outside, columns as the vector loop), the contractions in their serial loops, and the nest that reads it. Sums stay
// in registers through all of that where the group's nests are simple: sums, products, differences, quotients, square
// roots, absolute values, and bounds that are constants, of operands that lie row by row with columns side by side, or
// one element for all columns. Other nests read the sums from memory, a tile at a time.
//
// Constant right operands of f32 are packed (pack.go): their contractions' columns must be one axis from 0 on, whole;
// other axes may be indexed in any way. Their K need not be contiguous, and may run through several axes by serial
// loops. Right operands that are no constants are used where they lie if their columns lie side by side, and gathered
// into a local otherwise.
//
// # Advice
//
// Indices linear in the loop variables are fast: one loop per axis rather than one loop with quotients and remainders.
// Masks that are conjunctions (And) of comparisons (Le, Lt, …) between Index values, as Builder's Inside makes them,
// cost nothing per element. Shapes of Locals mention dimensions and constants only, never loop variables. A Check costs
// an integer per element; hoist it out of loops that do not change it.
package schedule
