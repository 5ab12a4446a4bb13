// Command weir-parquet is the command weir, whose run --each also reads the rows of Parquet files.
package main

import (
	"os"

	"github.com/weirml/weir/internal/command"
	"github.com/weirml/weir/internal/offline"
	"github.com/weirml/weir/parquet/internal/parquet"
)

func main() { os.Exit(command.Main(offline.Readers{".parquet": parquet.Open})) }
