// Package memplan decides where in an arena every buffer of a program lies, and proves how many bytes the arena takes.
//
// A [Problem] is a list of buffers, each with a size in bytes (a symbolic integer over named dimensions), an alignment
// and the steps it is alive in. [Plan] answers with a [Solution]: offsets, the arena's size as a formula, and a lower
// bound that no plan of the same problem can beat. The package knows nothing of tensors, operators or kernels.
//
// # Orders, and why the formula holds for every binding
//
// A plan is an order: for every two buffers that are ever alive together it says which lies below. A buffer's offset is
// then the greatest end of those below it, rounded up to its alignment, and the arena is the highest end of all. Both
// are maxima of sums of sizes, so they hold for every binding of the dimensions, not only for those that the planner
// tried. Planning chooses the order; it runs a portfolio of heuristics on concrete sizes at sample bindings and keeps
// the order that is best over the range. If no single order is good everywhere, a solution has up to four layouts and
// conditions that choose among them; the arena is then the least of the layouts' formulas. A term of a formula is left
// out only when sym proves that it can never be the maximum: because each of its parts is covered by parts of another
// term, which is asked once for two sizes, or else as a whole.
//
// # The search that proves
//
// If no heuristic reaches the lower bound at a sample, a complete search takes the bound as a ceiling: it finds a
// placement under it, refutes it or runs out of the work that it is allowed, which is counted in steps and never by a
// clock. It branches at one point of time at a time: one of the groups that fit there comes next, or none does and some
// bytes are wasted. Groups alive throughout a range of points are put on top of it, ranges that no group joins are
// solved separately, every point's remaining sizes must fit under the ceiling in any order, and refuted states are
// kept. Several orders of branching take turns. A refuted ceiling raises the least possible height, Solution.Least; a
// ceiling that stays undecided leaves a gap.
//
// # The lower bound
//
// Buffers alive at one step are disjoint. Those of them that are aligned to at least A lie at multiples of A, so their
// sizes rounded up to A add up, and only the topmost one need not be rounded: they take that sum less the greatest
// single padding. The bound is the greatest such number over all steps and all alignments A alive there; where sizes
// are multiples of the alignment, it is the greatest sum of live sizes. It takes lifetimes and aliases as
// given: a better order of operators ([Order] looks for one) or other aliases may have a lower bound.
//
// # Sources
//
// Greedy orders and fits: Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference", arXiv
// 2001.03288. The lowest gap filled first: E. Burke, G. Kendall, G. Whitwell, "A New Placement Heuristic for the
// Orthogonal Stock-Cutting Problem", 2004, as T. Sekiyama et al. use it for buffers, arXiv 1804.10001. The ceiling,
// sections, dominance and separate parts: M. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", ASPLOS 2023. Branching where failures were: F. Boussemart et al., "Boosting
// Systematic Search by Weighting Constraints", ECAI 2004. Operator order: B. Ahn et al., "Ordering Chaos: Memory-Aware
// Scheduling of Irregularly Wired Neural Networks for Edge Devices", MLSys 2020.
package memplan
