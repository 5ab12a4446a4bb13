// Package validator checks a memory plan against the problem it claims to solve. It shares no code with the planner: it
// is given buffers, offsets and formulas, and decides by itself whether any two buffers that are alive together
// overlap, whether alignments, aliases and the arena's bounds hold, and whether the arena and the lower bound are
// right.
//
// [Check] does so at one binding of the dimensions, by a sweep over the steps. [Prove] tries to show separation for
// every binding at once; a pair that it cannot separate is no error, but the plan is then checked at samples. [Verify]
// does both.
package validator
