module github.com/weirml/weir

go 1.26
