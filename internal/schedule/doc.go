// Package schedule turns loop modules as lowering writes them into modules that run fast on a machine.
//
// Lowering writes one kernel per operator, in each-loops of full size; it chooses no tile, no vector, no thread. This
// package joins kernels where that is legal and fits the machine (fuse.go, inline.go, epilogue.go), lets them write
// their results directly where later kernels would copy them (parts.go), gives contractions their tiles (rows.go,
// contract.go), merges axes and loops that are contiguous in memory (rejoin.go, flatten.go), and picks the vector loop
// (vector.go, transpose.go) and the parallel tiles (parallel.go).
//
// Every step asks Fit, which counts all resources of the machine that a kernel uses (fit.go), before it commits.
// Kernels are joined only if the result exceeds no limit by more than they did, and tiles are halved until they fit. If
// a kernel still does not fit, its largest locals become buffers (outside.go), which is always possible. Steps are a
// table (schedule.go), and each can be left out (Options.Without). A step leaves every form that it does not recognise
// as it is, which is always correct. The results of kernels, to the bit, depend on shapes and the machine's
// description, never on the number of threads; the sizes of tiles may depend on it.
//
// # Recipes
//
// A kernel can state its meaning: the operator that it computes. The first step (meanings.go) then replaces its loops
// by those of a recipe of package recipes, which has blocks, copies and products that suit the shapes and the machine,
// in the forms below. Machines with blocks of threads have recipes of their own, for loops of some forms (block_*.go).
//
// # Forms that lowering writes
//
// These forms, which recipes write too, are recognised. Other forms are legal too, but run slower.
//
// A map: one nest of each-loops around one store, at the loop variables themselves, of a pure expression. Broadcasting
// is an index 0 or a missing index in a load. Lets (and Checks) may precede the store.
//
//	each i0 < a
//	  each i1 < b
//	    y[i0, i1] = add(x[i0, i1], bias[0, i1])
//
// A reduction: each-loops over the kept axes; inside, Vars, serial loops over the reduced axes with Reduce (or Set)
// inside, then stores. Softmax and the normalisations are each-loops over rows, around several such serial loops and a
// last each-loop (or nest of them) that stores. Use Reduce, not Set, wherever the order of combination does not matter:
// only a Reduce can run in lanes.
//
//	each i < rows
//	  var m = lowest
//	  serial k < n
//	    m = max(m, x[i, k])          (Reduce)
//	  each k < n
//	    y[i, k] = sub(x[i, k], m)
//
// A contraction: inside any each-loops (batch, group, output row), a Local as large as the entire product, written by a
// nest of each-loops (zero, or the bias), then Contracts into it, possibly inside serial loops (the window of a
// convolution), then a nest of each-loops that reads the Local at its own loop variables and stores. Lowering chooses
// no tile sizes: the Local is cut along every axis along which the first nest, the Contracts and the last nest can be
// cut, so it never exists at full size.
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
// An axis of the Local is cut if the first and last nest loop over its entire extent, with the loop variable itself as
// the index, and each Contract either covers the entire axis from origin 0 (by its Row or Col) or indexes it by a
// variable of a loop around it. A Contract that covers only some of an axis (a padded convolution, whose window omits
// the columns outside the image) is legal; that axis is then not cut. The Local may have more than two axes: a direct
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
// Narrow rows of such a convolution stay together: the loop over rows moves inside the loops over the window, so that
// consecutive contractions share their left operand, the weights, which must not depend on the row.
//
// Wide contractions are fast: put the longer of the two output axes in N, and let B's columns (Col) and A's columns (K)
// be contiguous if the layout of a constant operand can be chosen.
//
// Several nests in one body run in order, and only loops at the top of a kernel can become parallel tiles. Top-level
// nests share tiles if they are proved to be independent: no nest reads what another writes, and two nests that store
// to the same buffer store to ranges of indices that are disjoint along some axis (concatenation).
//
// # Register machines
//
// If target.Machine has a register tile, contractions are cut differently (panels.go): to one panel of columns, as wide
// as the register tile, and at least 128 rows, inside loops over tiles of rows around loops over panels. The code
// generator recognises the group around the local: the local, the nest that begins the sums (rows outside, columns as
// the vector loop), the contractions in their serial loops, and the nest that reads the local. Sums stay in registers
// through the group if its nests are simple: sums, products, differences, quotients, square roots, absolute values and
// constant bounds, of operands that lie row by row with contiguous columns, or have one element for all columns. Other
// nests read the sums from memory, one tile at a time.
//
// Constant right operands of f32 are packed (pack.go): the columns of their contractions must be one entire axis from 0
// on; other axes may be indexed in any way. K need not be contiguous, and may run through several axes by serial loops.
// Other right operands are used in place if their columns are contiguous, and gathered into a local otherwise.
// Panels of f16, bf16 or bytes that many rows add up in f32 are widened into a local, once (widen.go); few rows widen
// them as they read them.
//
// # Advice
//
// Indices linear in the loop variables are fast: use one loop per axis rather than one loop with quotients and
// remainders. Masks that are conjunctions (And) of comparisons (Le, Lt, …) between Index values, as Builder's Inside
// makes them, cost nothing per element. Shapes of Locals mention dimensions and constants only, never loop variables. A
// Check costs an integer operation per element; hoist it out of loops that do not change it.
package schedule
