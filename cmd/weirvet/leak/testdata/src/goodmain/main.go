// Command goodmain ends with its process: what it holds goes with that.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

func main() {
	m, err := weir.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	p, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s := array.NewScope("main")
	fmt.Println(p.Outputs(), s.Err())
}
