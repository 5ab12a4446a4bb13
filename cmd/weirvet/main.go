// Command weirvet finds leaks in Go programs that use Weir: scopes, programs, results and tensors that are not closed
// on some path, arrays kept beyond their scope, and results that nobody holds. docs/weirvet.md describes each finding.
//
//	go install github.com/weirml/weir/cmd/weirvet@latest
//	weirvet ./...
//	go vet -vettool=$(which weirvet) ./...
//
// It is a module of its own, so that a program that imports Weir does not come to depend on golang.org/x/tools.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/weirml/weir/cmd/weirvet/leak"
)

func main() { singlechecker.Main(leak.Analyzer) }
