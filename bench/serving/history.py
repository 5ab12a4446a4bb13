"""A random history of loads, requests and unloads on weir-serve and on MLServer with onnxruntime: a hundred models, under a limit in which half of their bytes fit.

Usage: history.py [--seconds S] [--models N] [--rivals VENV] [--work FOLDER]

Both servers start without a model. Their limit is what they hold then, half of the models' bytes, and 64 MiB for requests: as a memory cgroup if the system lets
this program make one (else compare the memory that is told). They get the same kind of history from the same clients, one after the other. A server that is killed or ends is started again. Needs the
environment of serving.py (.cache/serving/venv) and Go.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
REQUESTS = 64 << 20
CGROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


def networks(folder, count, rivals):
    """Writes networks of random sizes, and returns the widths of their inputs by name and the bytes of all files."""
    script = """
import json, sys
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
folder, count = sys.argv[1], int(sys.argv[2])
random, widths, size = numpy.random.default_rng(38), {}, 0
for i in range(count):
    a, b, c = (int(random.integers(1, most)) for most in (600, 2400, 400))
    weights = [numpy_helper.from_array(random.standard_normal(s).astype("f4") / 50, n) for n, s in (("v", (a, b)), ("w", (b, c)))]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
    graph = helper.make_graph(nodes, "net", [value("x", a)], [value("y", c)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = model.SerializeToString()
    open(f"{folder}/net{i}.onnx", "wb").write(text)
    widths[f"net{i}"], size = a, size + len(text)
print(json.dumps([widths, size]))
"""
    done = subprocess.run([rivals / "bin/python", "-c", script, folder, str(count)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Server:
    """A server that is started again whenever it ends."""

    def __init__(self, name, command, port, limit, log, **environment):
        self.name, self.command, self.port, self.limit, self.log, self.environment = name, command, port, limit, log, environment
        self.starts, self.peak, self.confined = 0, 0, False
        self.start()

    def start(self):
        self.starts += 1
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT, env=os.environ | self.environment, start_new_session=True)
        self.confined = self.confine()
        for _ in range(600):
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/live", timeout=5).read()
            except OSError:
                time.sleep(0.1)
                if self.process.poll() is not None:
                    break
        sys.exit(f"{self.name} does not start within {self.limit} bytes")

    def confine(self):
        if not self.limit:
            return False
        for root, file in CGROUPS:
            group = pathlib.Path(root, f"weir-history-{self.process.pid}")
            try:
                group.mkdir()
                for name, value in ((file, self.limit), ("cgroup.procs", self.process.pid)):
                    with open(group / name, "r+") as f:  # the system makes the files of a group
                        f.write(str(value))
                return True
            except OSError:
                if group.is_dir():
                    group.rmdir()
        return False

    def watch(self, until):
        while time.time() < until:
            if self.process.poll() is not None:
                self.start()
            self.peak = max(self.peak, self.anonymous())
            time.sleep(0.02)

    def anonymous(self):
        """The resident bytes that are no pages of files."""
        try:
            text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        return sum(int(n) << 10 for n in re.findall(r"(?:RssAnon|RssShmem):\s+(\d+) kB", text))

    def ask(self, path, body=None):
        """Returns the status and the text of an answer, 0 if the connection broke."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            a = urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}), timeout=60)
            return a.status, a.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(errors="replace")
        except (OSError, ValueError) as e:
            return 0, repr(e)
        except Exception as e:  # http.client's
            return 0, repr(e)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for root, _ in CGROUPS:
            for group in pathlib.Path(root).glob("weir-history-*"):
                try:
                    group.rmdir()
                except OSError:
                    pass


def client(server, seed, widths, until, counts, reasons):
    r = random.Random(seed)
    while time.time() < until:
        name = f"net{r.randrange(10) if r.random() < 2 / 3 else r.randrange(len(widths))}"
        what = r.choices(("unload", "load", "infer"), (1, 3, 16))[0]
        if what == "infer":
            rows = r.randint(1, 16)
            status, text = server.ask(f"/v2/models/{name}/infer", {"inputs": [{"name": "x", "shape": [rows, widths[name]], "datatype": "FP32",
                                                                                 "data": [0.5] * (rows * widths[name])}]})
        else:
            status, text = server.ask(f"/v2/repository/models/{name}/{what}")
        counts[what, status] += 1
        if status != 200:
            reasons[f"{what} {status}: " + re.sub(r"net\d+|\d+", "…", text)[:110]] += 1


def live(server, widths, seconds):
    """Drives a server, and returns what happened."""
    counts, reasons, until = collections.Counter(), collections.Counter(), time.time() + seconds
    threads = [threading.Thread(target=client, args=(server, i, widths, until, counts, reasons)) for i in range(6)]
    for t in threads:
        t.start()
    server.watch(until)
    for t in threads:
        t.join()
    server.end()
    print(f"{server.name}: limit {server.limit >> 20} MiB ({'a cgroup' if server.confined else 'no cgroup'}), at most {server.peak >> 20} MiB; "
          f"ended {server.starts - 1} times by itself or by the system; " + ", ".join(f"{w} {s}: {n}" for (w, s), n in sorted(counts.items())))
    for reason, n in reasons.most_common(6):
        print(f"  {n} × {reason}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--models", type=int, default=100)
    p.add_argument("--rivals", type=pathlib.Path, default=ROOT / ".cache/serving/venv")
    p.add_argument("--work", type=pathlib.Path, default=ROOT / ".cache/serving/history")
    a = p.parse_args()
    folder, rival = a.work / "models", a.work / "mlserver"
    for f in (folder, rival):
        f.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-trimpath", "-o", a.work.resolve() / "weir-serve", "./cmd/weir-serve"], cwd=ROOT / "serve", check=True,
                   env=os.environ | {"CGO_ENABLED": "0"})
    widths, size = networks(folder, a.models, a.rivals)
    sys.path.insert(0, str(HERE.parent))
    import serving
    weir_port, rest, grpc, metrics = serving.free_ports(4)
    for name in widths:
        (rival / name).mkdir(exist_ok=True)
        (rival / name / "model-settings.json").write_text(json.dumps({"name": name, "implementation": "mlserver_runtime.OnnxModel",
                                                                      "parameters": {"uri": str((folder / f"{name}.onnx").resolve())}}))
    (rival / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "http_port": rest, "grpc_port": grpc, "metrics_port": metrics, "parallel_workers": 0,
                                                     "debug": False, "access_log": False, "load_models_at_startup": False}))
    print(f"{len(widths)} models of {size >> 20} MiB")
    for name, port, command, environment in (
            ("weir-serve", weir_port, [a.work / "weir-serve", folder, "--mode", "explicit", "--evict", "--listen", f"127.0.0.1:{weir_port}", "--grpc", "",
                                       "--cache", a.work / "cache"], {}),
            ("MLServer", rest, [a.rivals / "bin/mlserver", "start", rival], {"SERVING_THREADS": str(os.cpu_count()), "PYTHONPATH": str(HERE)})):
        with open(a.work / f"{name}.log", "w") as log:
            idle = Server(name, command, port, 0, log, **environment)
            limit = idle.anonymous() + REQUESTS + size // 2
            idle.end()
            live(Server(name, command + ["--limit", str(limit)] * (name == "weir-serve"), port, limit, log, **environment), widths, a.seconds)


if __name__ == "__main__":
    main()
