package arm64

import "github.com/weirml/weir/internal/codegen/lanes"

var _ lanes.Vectors = (*builder)(nil)
var _ lanes.Elements = (*builder)(nil)
