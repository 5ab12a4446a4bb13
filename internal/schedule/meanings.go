package schedule

import "github.com/weirml/weir/internal/schedule/recipes"

// useRecipes replaces the loops of each kernel that states its meaning by those of the best recipe, and removes the
// meaning: the steps that follow change loops. Machines with blocks of threads have recipes of their own, which begin
// with a kernel's plain loops (block_*.go).
func (s *scheduler) useRecipes() {
	for _, k := range s.module.Kernels {
		if !s.off("recipes") && !s.machine.HasBlocks() {
			if better := recipes.For(k, s.dims, s.machine); better != nil {
				*k = *better
			}
		}
		k.Meaning = nil
	}
}
