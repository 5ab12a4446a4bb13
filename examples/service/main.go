// Command service answers over HTTP which digits are in pictures, with the model inside it or one in a file.
//
//	go run ./examples/service -listen localhost:8080
//	curl -s localhost:8080/classify -d "{\"images\": [\"$(base64 -w0 examples/digits/data/images/07.png)\"]}"
//	curl -s localhost:8080/metrics
//	curl -s -X POST localhost:8080/reload      # after the file given by -model was replaced (by rename)
//
// All pictures of a request are one run: the model's batch dimension is free. At most -calls runs are active at once,
// each with its own planned memory, and a request waits for one no longer than its deadline. So the service's memory
// has a ceiling that is known before the first request: it is logged at the start, and /metrics shows what is used of
// it. With -memory it is enforced: tensors, weights and files have weir.SetLimit, Go's heap the rest (GOMEMLIMIT's
// place), reloads included.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	s := settings{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&s.model, "model", "", "ONNX file to serve; without it, the model inside")
	flag.IntVar(&s.calls, "calls", 4, "runs that may be active at once")
	flag.IntVar(&s.batch, "batch", 64, "the most pictures in one request")
	flag.DurationVar(&s.deadline, "deadline", 2*time.Second, "the longest that a request may take")
	flag.Int64Var(&s.memory, "memory", 0, "bytes that the container has, which the service keeps within; without it, as much as it takes")
	flag.Parse()
	if err := serve(*listen, s); err != nil {
		s.log.Error("service ended", "error", err)
		os.Exit(1)
	}
}

// serve runs until it is interrupted, and then lets the requests that it has begun come to an end.
func serve(address string, s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	service, err := newService(ctx, s)
	if err != nil {
		return err
	}
	defer service.close()
	server := &http.Server{Addr: address, Handler: service.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	s.log.Info("listening", "address", address)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.Background(), s.deadline+time.Second)
		defer cancel()
		return server.Shutdown(last)
	}
}
