"""Times Weir beside its rivals, all in one run, and writes docs/benchmarks.md with its chart.

Everything is set up below .cache/bench first: virtual environments with what requirements.txt (PyTorch, for the models; about 6 GB) and rivals.txt pin, and the models.
Engines take turns, model by model, round after round, each in a process of its own pinned to as many cores as it has threads. Each is told the number of threads and has
its own best settings otherwise. Of its rounds the fastest counts; the median is that of all rounds' medians. Outputs are compared with PyTorch's; an engine that is
further from them than TOLERANCE, or fails, has no time.

  bench.py                                          everything, the thirteen core models
  bench.py --models resnet50 unet_64 --rounds 1     a look
  bench.py --engines weir,ort --models all          other models too
  bench.py --report RESULTS.json                    only writes the document from results that there are
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
CACHE = ROOT / ".cache" / "bench"
TOLERANCE = 1e-3
REPEATS = 3
CORE = ["resnet50", "resnet50_b8", "mobilenet_v2", "vgg16", "vit_b_16", "bert_base_s128", "bert_base_s128_b8", "gpt2_prefill_s128", "gpt2_decode_p127", "unet_64",
        "lstm_s64", "mlp_b1", "mlp_b256"]
ENGINES = ["weir", "ort", "openvino", "ncnn", "iree"]  # inductor, torch, openvino_bf16 and gomlx on request
PYTORCH = ["inductor", "torch"]


def environment(folder, requirements, extra=()):
    """A virtual environment with what the file pins; one that is there already is used as it is."""
    if not (folder / "bin/python").exists():
        print("setting up", folder, file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        try:
            subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", BENCH / requirements, *extra], check=True)
        except subprocess.CalledProcessError:
            shutil.rmtree(folder)
            raise
    return folder / "bin/python"


def cores():
    """One logical processor of each core that this process may use: siblings share its units."""
    chosen, seen = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        file = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings = file.read_text().strip() if file.exists() else str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            chosen.append(cpu)
    return chosen


def pinned(command, threads, realtime=False, timeout=600):
    """Runs a command on so many cores; returns what it printed and its peak resident MiB. It raises RuntimeError with the last line of what went wrong."""
    allowed = cores()[:threads]

    def begin():
        os.sched_setaffinity(0, allowed)
        if realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, preexec_fn=begin)
        deadline = time.monotonic() + timeout
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                process.kill()
                os.wait4(process.pid, 0)
                raise RuntimeError(f"not done in {timeout} s")
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if status != 0:
            lines = err.read().decode(errors="replace").strip().splitlines() or [f"exit status {process.returncode}"]
            raise RuntimeError(lines[-1][:300])
        return out.read().decode(), usage.ru_maxrss / 1024


def inputs_of(folder):
    return [text for i in range(len(list(folder.glob("x*.npy")))) for text in ("--input", f"x{i}={folder / f'x{i}.npy'}")]


class Bench:
    def __init__(self, options):
        self.options = options
        self.python = self.torch = None
        if set(options.engines) - {"weir", "gomlx"} or not options.weir:
            self.python = environment(options.rivals, "rivals.txt")
        self.weir = options.weir or self.build()
        self.errors, self.refused = {}, set()

    def build(self):
        binary = CACHE / "weir"
        subprocess.run(["go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/weir"], cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        return binary

    def pytorch(self):
        self.torch = self.torch or environment(self.options.pytorch, "requirements.txt")
        return self.torch

    def model(self, name):
        folder = self.options.folder / name
        if not (folder / "model.onnx").exists():
            subprocess.run([self.pytorch(), BENCH / "models.py", self.options.folder, name], check=True)
        if "iree" in self.options.engines and not (folder / "m.vmfb").exists() and name not in self.refused:
            self.refused.add(name)
            with contextlib.suppress(subprocess.SubprocessError):  # the engine says then that there is nothing to run
                subprocess.run([self.python, BENCH / "engine.py", "compile-iree", folder], check=True, capture_output=True, timeout=self.options.compile_seconds)
        return folder

    def measure(self, engine, name, threads):
        """One process's figures."""
        folder = self.model(name)
        if engine == "weir":
            return self.run_weir(folder, threads)
        if engine == "gomlx":
            return self.run_gomlx(folder, threads)
        python = self.pytorch() if engine in PYTORCH else self.python
        text, _ = pinned([python, BENCH / "engine.py", engine, folder, threads, self.options.seconds], threads, self.options.realtime)
        return json.loads(text.strip().splitlines()[-1])

    def run_weir(self, folder, threads):
        """Times are `weir bench`'s; the error and the resident size those of a `weir run`, since bench holds more than one run does."""
        flags = ["--threads", threads, *self.options.flags.split()]
        key = folder.name, threads
        if key not in self.errors:
            with tempfile.TemporaryDirectory() as out:
                _, resident = pinned([self.weir, "run", folder / "model.onnx", "--output", out, *flags, *inputs_of(folder)], threads)
                text, _ = pinned([self.python or sys.executable, BENCH / "distance.py", folder, out], threads)
                self.errors[key] = float(text), resident
        text, _ = pinned([self.weir, "bench", folder / "model.onnx", "--json", "--seconds", self.options.seconds, *flags, *inputs_of(folder)], threads, self.options.realtime)
        b = json.loads(text)
        wrong, resident = self.errors[key]
        return {"min": b["latency_ms"]["min"], "median": b["latency_ms"]["p50"], "runs": b["runs"], "load": b["load_ms"] + b["compile_ms"], "first": b["first_ms"], "error": wrong,
                "resident": resident, "gflops": b["operations"] / b["latency_ms"]["min"] / 1e6, "predicted": b["predicted_bytes"], "measured": b["measured_bytes"],
                "probe": b["probe"]}

    def start(self, name):
        """How long it takes to get to a first result, in ms, with one thread: compiling the model, and starting from the artefact. Of REPEATS the fastest."""
        folder = self.model(name)
        inputs, threads = inputs_of(folder), ["--threads", 1]
        with tempfile.TemporaryDirectory() as work:
            artefact = pathlib.Path(work) / "m.weir"
            compiled = json.loads(pinned([self.weir, "compile", folder / "model.onnx", "-o", artefact, "--json", *threads], 1, self.options.realtime)[0])
            found = {"compile": compiled["compile_ms"], "artefact": artefact.stat().st_size / 2**20}
            for _ in range(REPEATS):
                b = json.loads(pinned([self.weir, "bench", artefact, "--json", "--seconds", 0.1, *threads, *inputs], 1, self.options.realtime)[0])
                begin = time.perf_counter()
                pinned([self.weir, "run", artefact, "-q", *threads, *inputs], 1, self.options.realtime)
                wall = (time.perf_counter() - begin) * 1e3
                now = {"load": b["load_ms"] + b["compile_ms"], "first": b["first_ms"], "steady": b["latency_ms"]["min"], "start": wall}
                for key, value in now.items():
                    found[key] = min(value, found.get(key, value))
        return found

    def run_gomlx(self, folder, threads):
        binary = CACHE / "gomlx"
        if not binary.exists():
            subprocess.run(["go", "build", "-o", binary, "."], cwd=BENCH / "gomlx", env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        text, _ = pinned([binary, folder, self.options.seconds], threads, self.options.realtime)
        return json.loads(text.strip().splitlines()[-1])


def rounds(bench, options, save):
    """All engines in turn; results by model, threads and engine."""
    results = {}
    for number in range(options.rounds):
        for name in options.models:
            for threads in options.threads:
                for engine in options.engines:
                    cell = results.setdefault(name, {}).setdefault(str(threads), {}).setdefault(engine, {})
                    if "failed" in cell and "min" not in cell:
                        continue  # it will not do better
                    try:
                        merge(cell, bench.measure(engine, name, threads))
                    except (RuntimeError, ValueError, subprocess.CalledProcessError) as e:
                        cell["failed"] = str(e)
                    print(f"round {number + 1}  {name:20} {threads} threads  {engine:10} {cell.get('min', cell.get('failed'))}", file=sys.stderr, flush=True)
                save(results)
    return results


def merge(cell, now):
    """Of several rounds the fastest, but for the median, whose median counts, and memory, of which the most does."""
    medians = cell.get("medians", []) + [now["median"]]
    resident, probe = max(cell.get("resident", 0), now["resident"]), now.get("probe")
    if probe and "probe" in cell:
        probe = max(probe, cell["probe"], key=lambda p: p["all_gflops"])
    for key in ("first", "load"):
        now[key] = min(now[key], cell.get(key, now[key]))
    if "min" not in cell or now["min"] < cell["min"]:
        cell.update(now)
    cell.update(medians=medians, median=sorted(medians)[len(medians) // 2], resident=resident, first=now["first"], load=now["load"])
    if probe:
        cell["probe"] = probe
    if not cell["error"] <= TOLERANCE:  # NaN is wrong too
        cell["failed"] = f"wrong: error {cell['error']:.2g}"
        del cell["min"]


def machine():
    """The processor, its caches and the system, as this system tells them."""
    about = {"system": platform.system(), "cores": len(cores())}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu family", "model") and key.strip() not in about:
            about[key.strip()] = value.strip()
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (index / "type").read_text().strip()
        if kind != "Instruction":
            about["L" + (index / "level").read_text().strip()] = (index / "size").read_text().strip()
    return about


def versions(bench, options):
    found = {"weir": subprocess.run(["git", "describe", "--tags", "--always"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "this tree"}
    pythons = [bench.python] if bench.python else []
    if set(options.engines) & set(PYTORCH):
        pythons.append(bench.pytorch())
    for python in pythons:
        for package in json.loads(subprocess.run([python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"], capture_output=True, check=True).stdout):
            found.setdefault(package["name"], package["version"])
    names = {"ort": "onnxruntime", "openvino": "openvino", "openvino_bf16": "openvino", "ncnn": "ncnn", "iree": "iree-base-compiler", "inductor": "torch", "torch": "torch"}
    return {e: found[names.get(e, e)] for e in options.engines if names.get(e, e) in found}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", default=",".join(ENGINES), help="with commas; inductor, torch, openvino_bf16 and gomlx are there too")
    p.add_argument("--models", nargs="+", default=CORE, help="names of models.py, or all")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1, help="of each measurement")
    p.add_argument("--compile-seconds", type=float, default=900, help="how long IREE may compile a model")
    p.add_argument("--realtime", action="store_true", help="measure at real-time priority, which needs the right to: for a machine that does other work as well")
    p.add_argument("--flags", default="", help="more flags for weir, such as '--cpu avx2'")
    p.add_argument("--weir", type=pathlib.Path, help="the command to time, instead of one built here")
    p.add_argument("--rivals", type=pathlib.Path, default=CACHE / "rivals", help="a virtual environment with the rivals")
    p.add_argument("--pytorch", type=pathlib.Path, default=CACHE / "pytorch", help="one with PyTorch, for models and its two engines")
    p.add_argument("--folder", type=pathlib.Path, default=CACHE / "models", help="where the models are")
    p.add_argument("--results", type=pathlib.Path, default=CACHE / "results.json")
    p.add_argument("--report", type=pathlib.Path, help="results to write the document from, without measuring")
    p.add_argument("--document", type=pathlib.Path, default=ROOT / "docs" / "benchmarks.md")
    o = p.parse_args()
    o.engines = o.engines.split(",")
    o.threads = [min(int(t), len(cores())) for t in o.threads.split(",")]
    return o


def command(options):
    """What makes the same document elsewhere: where things lie is left out."""
    words = ["bench/bench.py", "--engines", ",".join(options.engines), "--threads", ",".join(map(str, options.threads)), "--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    if options.models != CORE:
        words += ["--models", *options.models]
    if options.compile_seconds != 900:
        words += ["--compile-seconds", f"{options.compile_seconds:g}"]
    return " ".join(words + ["--realtime"] * options.realtime + (["--flags", repr(options.flags)] if options.flags else []))


def main():
    import report

    options = arguments()
    if not options.report:
        CACHE.mkdir(parents=True, exist_ok=True)
        bench = Bench(options)
        if options.models == ["all"]:
            options.models = subprocess.run([bench.pytorch(), "-c", "import models; print(*models.ALL)"], cwd=BENCH, check=True, capture_output=True, text=True).stdout.split()
        about = {"machine": machine(), "versions": versions(bench, options), "command": command(options),
                 "date": time.strftime("%Y-%m-%d", time.gmtime()), "rounds": options.rounds, "realtime": options.realtime, "seconds": options.seconds}

        def save(results):
            options.results.write_text(json.dumps({**about, "results": results}, indent=1))

        if "weir" in options.engines:
            about["start"] = {name: bench.start(name) for name in options.models}
        rounds(bench, options, save)
    report.write(json.loads((options.report or options.results).read_text()), options.document)


if __name__ == "__main__":
    main()
