// Command weir runs, plans, checks, measures and compiles models. `weir help` lists its commands.
package main

import (
	"os"

	"github.com/weirml/weir/internal/command"
)

func main() { os.Exit(command.Main(nil)) }
