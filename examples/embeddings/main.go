// Command embeddings is an HTTP service that turns strings into vectors. It joins the requests of many clients into
// runs.
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
	"runtime"
	"syscall"
	"time"
)

// deadline is the longest that a request may take.
const deadline = 5 * time.Second

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	wait := flag.Duration("wait", 2*time.Millisecond, "how long a text waits for others to be in its run")
	cores := flag.Int("cores", runtime.GOMAXPROCS(0), "cores to use")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		err = serve(ctx, listener, *cores, *wait, log)
	}
	if err != nil {
		log.Error("service ended", "error", err)
		os.Exit(1)
	}
}

// serve answers requests until ctx ends, and then completes the requests in progress.
func serve(ctx context.Context, listener net.Listener, cores int, wait time.Duration, log *slog.Logger) error {
	e, err := newEncoder(ctx, cores, wait)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info("listening", "address", listener.Addr().String(), "cores", cores, "calls", e.calls, "threads", e.threads,
		"certificate_bytes", e.batcher.Memory().Peak())
	server := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second}
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
	return errors.Join(err, e.close())
}
