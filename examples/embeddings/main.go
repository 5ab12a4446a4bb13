// Command embeddings is an HTTP service that turns texts into vectors with a model of sentence-transformers. Texts of
// all clients share runs.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
)

// deadline is the longest that a request may take.
const deadline = 5 * time.Second

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	model := flag.String("model", "model", "a folder of sentence-transformers, or an ONNX file beside a tokenizer")
	calls := flag.Int("calls", 1, "runs that are active at once")
	budget := flag.Int64("budget", 0, "the most bytes that the model may take; 0: what it needs for large runs")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		err = serve(ctx, listener, *model, weir.Options{Calls: *calls, Budget: *budget}, log)
	}
	if err != nil {
		log.Error("service ended", "error", err)
		os.Exit(1)
	}
}

// serve answers requests until ctx ends, and then completes the requests in progress.
func serve(ctx context.Context, listener net.Listener, model string, o weir.Options, log *slog.Logger) error {
	m, err := embed.Load(ctx, model, embed.Options{Compile: o})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info("listening", "address", listener.Addr().String(), "dimensions", m.Dimensions(), "tokens", m.MaxTokens(),
		"certificate_bytes", m.Memory().Held())
	server := &http.Server{Handler: service{m}, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.Background(), deadline+time.Second)
		defer cancel()
		log.Info("ending")
		if err = server.Shutdown(last); err != nil {
			err = errors.Join(err, server.Close()) // clients that are still there lose their connection
		}
	}
	return errors.Join(err, m.Close())
}
