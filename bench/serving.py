"""weir-serve under load, beside MLServer and a minimal FastAPI server, both with onnxruntime.

Usage: serving.py [--seconds S] [--models FOLDER] [--rivals VENV] [--write]

Without options it does everything: it builds weir-serve and the load generator (serve/internal/load), installs bench/serving/requirements.txt into
.cache/serving/venv, and exports the models by the PyTorch of `make pytorch`. The servers run one after the other in each turn, with the same requests of the
same generator, on the same processors, and the others stay idle meanwhile. Small models have two turns, of which the better one counts, for each server; others have one longer turn. --write puts the
figures into docs/serving-speed.md. Every server's answers are compared with the others' first.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
WORK = ROOT / ".cache/serving"
DOCUMENT = ROOT / "docs/serving-speed.md"
MODELS = {"digits": ("image FP32 1,1,8,8", "1"), "mlp": ("x0 FP32 1,64", "1"), "mobilenet_v2": ("x0 FP32 1,3,224,224", "1"),
          "bert": ("x0 INT64 1,L 30000;x1 INT64 1,L 2", "8,16,24,32,48,64,96,128"), "resnet50": ("x0 FP32 1,3,224,224", "1")}
CLIENTS = (1, 8, 64)


def free_ports(n):
    import socket
    some = [socket.socket() for _ in range(n)]
    for s in some:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in some]
    for s in some:
        s.close()
    return ports


class Server:
    def __init__(self, name, command, rest, grpc, way, ready, **environment):
        self.name, self.way, self.addresses = name, way, {"rest": rest, "text": rest, "grpc": grpc}
        self.process = subprocess.Popen(command, stdout=open(WORK / f"{name}.log", "w"), stderr=subprocess.STDOUT, env=os.environ | environment,
                                        start_new_session=True)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{rest}{ready}", timeout=5).read()
                return
            except OSError as e:
                if getattr(e, "code", 0) == 404 or self.process.poll() is not None:
                    break
                time.sleep(0.2)
        if self.process.poll() is not None:
            sys.exit(f"{name} did not start: {WORK}/{name}.log")

    def pids(self):
        """The server's processes: a session of its own."""
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                if int(stat.read_text().rpartition(")")[2].split()[3]) == self.process.pid:
                    yield stat.parent
            except OSError:
                pass

    def memory(self):
        def status(p, name):
            return int(re.search(rf"{name}:\s+(\d+) kB", (p / "status").read_text())[1]) / 1024
        some = list(self.pids())
        return sum(status(p, "VmRSS") for p in some), sum(status(p, "VmHWM") for p in some)

    def load(self, protocol, model, *flags):
        inputs, lengths = MODELS[model]
        done = subprocess.run([WORK / "load", "-protocol", protocol, "-address", f"127.0.0.1:{self.addresses[protocol]}", "-model", model, "-inputs", inputs,
                               "-lengths", lengths, *flags], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{self.name}, {model}, {protocol}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def end(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def start(models, rivals):
    """The three servers: weir-serve, MLServer, FastAPI. MLServer has no binary data in REST, so its REST requests are JSON text."""
    a, b, c, d, e, f = free_ports(6)
    folder = WORK / "mlserver"
    for name in MODELS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "model-settings.json").write_text(json.dumps({"name": name, "implementation": "mlserver_runtime.OnnxModel",
                                                                       "parameters": {"uri": str(models / f"{name}.onnx")}}))
    (folder / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "http_port": c, "grpc_port": d, "metrics_port": e, "parallel_workers": 0,
                                                      "debug": False, "access_log": False}))
    environment = {"SERVING_THREADS": str(os.cpu_count()), "PYTHONPATH": str(HERE / "serving")}
    return [Server("weir-serve", [WORK / "weir-serve", models, "--listen", f"127.0.0.1:{a}", "--grpc", f"127.0.0.1:{b}"], a, b, ("rest", "grpc"),
                   "/v2/health/ready"),
            Server("MLServer", [rivals / "bin/mlserver", "start", folder], c, d, ("text", "grpc"), "/v2/health/ready", **environment),
            Server("FastAPI", [rivals / "bin/python", HERE / "serving/fastapi_server.py", models, str(f)], f, 0, ("rest",), "/", **environment)]


def compare(servers):
    """Compares the servers' answers, and returns the greatest difference by model."""
    worst = {}
    for model in MODELS:
        answers = [s.load(way, model, "-once") for s in servers for way in s.way]
        for other in answers[1:]:
            for x, y in zip(answers[0], other, strict=True):
                assert len(x) == len(y), (model, len(x), len(y))
                scale = max(1.0, max(map(abs, x)))
                worst[model] = max(worst.get(model, 0), max(abs(p - q) for p, q in zip(x, y)) / scale)
        assert worst[model] < 1e-3, (model, worst[model])
    return worst


def measure(servers, seconds):
    figures = {}
    for model in MODELS:
        for n in CLIENTS:
            heavy = model not in ("digits", "mlp")  # a turn that is longer, with time for several rounds of all clients
            span = seconds * (1 + n / 16) if heavy else seconds
            for _ in range(1 if heavy else 2):
                for s in servers:
                    for way in s.way:
                        try:
                            got = s.load(way, model, "-clients", str(n), "-for", f"{span}s")[0]
                        except RuntimeError as e:
                            print(e, file=sys.stderr)
                            continue
                        key = (model, n, s.name, "gRPC" if way == "grpc" else "REST")
                        if key not in figures or figures[key]["rate"] < got["rate"]:
                            figures[key] = got
            for key, got in figures.items():
                if key[:2] == (model, n):
                    print(*key, {k: round(v) for k, v in got.items()}, flush=True)
    return figures


def report(figures, memory, worst):
    lines = ["| model | clients | protocol | weir-serve | MLServer | FastAPI | × MLServer | × FastAPI |", "|---|---|---|---|---|---|---|---|"]

    def cell(got):
        return "" if got is None else f"{got['rate']:.0f}/s · {got['p50_us'] / 1e3:.2f} · {got['p99_us'] / 1e3:.1f}"
    for model in MODELS:
        for protocol in ("REST", "gRPC"):
            for n in CLIENTS:
                some = [figures.get((model, n, s, protocol)) for s in ("weir-serve", "MLServer", "FastAPI")]
                ratios = ["" if x is None or some[0] is None else f"{some[0]['rate'] / x['rate']:.2f}" for x in some[1:]]
                lines.append(f"| {model} | {n} | {protocol} | " + " | ".join([*map(cell, some), *ratios]) + " |")
    lines += ["", "| resident memory, MB | loaded | at most |", "|---|---|---|"]
    lines += [f"| {name} | {before:.0f} | {after:.0f} |" for name, (before, after) in memory.items()]
    lines += ["", "The greatest difference between two servers' answers, beside the greatest element: "
              + ", ".join(f"{model} {d:.0e}" for model, d in worst.items()) + "."]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--models", type=pathlib.Path, default=WORK / "models")
    p.add_argument("--rivals", type=pathlib.Path, default=WORK / "venv")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for name, package in (("weir-serve", "./cmd/weir-serve"), ("load", "./internal/load")):
        subprocess.run(["go", "build", "-trimpath", "-o", WORK / name, package], cwd=ROOT / "serve", check=True, env=os.environ | {"CGO_ENABLED": "0"})
    if not (a.rivals / "bin/mlserver").exists():
        subprocess.run([sys.executable, "-m", "venv", a.rivals], check=True)
        subprocess.run([a.rivals / "bin/pip", "install", "--quiet", "-r", HERE / "serving/requirements.txt"], check=True)
    a.models.mkdir(parents=True, exist_ok=True)
    (a.models / "digits.onnx").write_bytes((ROOT / "examples/digits/data/digits.onnx").read_bytes())
    if not all((a.models / f"{m}.onnx").exists() for m in MODELS):
        subprocess.run([ROOT / ".cache/compare/venv/bin/python", HERE / "serving/export.py", a.models], check=True)
    servers = []
    try:
        servers = start(a.models, a.rivals)
        before = {s.name: s.memory()[0] for s in servers}
        worst = compare(servers)
        figures = measure(servers, a.seconds)
        text = report(figures, {s.name: (before[s.name], s.memory()[1]) for s in servers}, worst)
    finally:
        for s in servers:
            s.end()
    print(text)
    if a.write:
        begin, end = "<!-- load -->\n", "\n<!-- end of load -->"
        head, _, rest = DOCUMENT.read_text().partition(begin)
        DOCUMENT.write_text(head + begin + text + end + rest.partition(end)[2])


if __name__ == "__main__":
    main()
