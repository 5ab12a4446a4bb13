"""Times Weir beside its rivals, all in one run, and writes docs/benchmarks.md with its chart.

Everything is set up below .cache/bench first: virtual environments with what requirements.txt (PyTorch, for the models;
about 6 GB), rivals.txt and sweep/trees.txt pin, and the models. Engines take turns, model by model, round after round,
each in a process of its own pinned to as many cores as it has threads. Each is told the number of threads and has its
own best settings otherwise. Of its rounds the fastest counts; the median is that of all rounds' medians. Outputs are
compared with PyTorch's, or for models of other tools with those of ONNX Runtime without optimisations; an engine that is
further from them than the part's tolerance, or fails, has no time.

  bench.py                                          every part; parts.py lists them
  bench.py --parts sweep --threads 1 --rounds 1     the sweep, a look
  bench.py --models resnet50 unet_64                of all parts these models only
  bench.py --parts exported --engines weir,ort,torch,inductor     other engines
  bench.py --parts training --update                only the section of this part; the document keeps the others
  bench.py --report RESULTS.json                    only writes the document from results that there are
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

import parts

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
CACHE = ROOT / ".cache" / "bench"
REPEATS = 3
PYTORCH = ["inductor", "torch"]
PRECISIONS = {"weir": [], "weir_bf16": ["--precision", "bf16"], "weir_int8": ["--precision", "int8"]}


def environment(folder, requirements, extra=()):
    """A virtual environment with the packages that the file pins; an existing one is used as it is."""
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


def beginning(threads, realtime):
    """What a process does before its command: it pins itself to as many cores as it has threads."""
    allowed = cores()[:threads]

    def begin():
        os.sched_setaffinity(0, allowed)
        if realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    return begin


def pinned(command, threads, realtime=False, timeout=600):
    """Runs a command on so many cores, and returns its output and its peak resident MiB. RuntimeError has the last line
    of its errors.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, preexec_fn=beginning(threads, realtime))
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
        self.environments, self.errors, self.refused, self.built, self.steps = {}, {}, set(), {}, {}

    @property
    def python(self):
        return self.environment(self.options.rivals, "rivals.txt")

    @property
    def weir(self):
        return self.options.weir or self.build("weir", "./cmd/weir", ROOT, "-ldflags=-s -w")

    def build(self, name, package, module, *flags):
        """A command of a module, built once."""
        if name not in self.built:
            self.built[name] = CACHE / name
            subprocess.run(["go", "build", "-trimpath", *flags, "-o", self.built[name], package], cwd=module, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        return self.built[name]

    def environment(self, folder, requirements):
        if folder not in self.environments:
            self.environments[folder] = environment(folder, requirements)
        return self.environments[folder]

    def pytorch(self):
        return self.environment(self.options.pytorch, "requirements.txt")

    def make(self, name):
        """The command that makes a model's folder."""
        if name in parts.QUANTISED:
            self.model(parts.QUANTISED[name])
            return [self.python, BENCH / "sweep/quantised.py"]
        if name in parts.TREES:
            return [self.environment(self.options.trees, "sweep/trees.txt"), BENCH / "sweep/trees.py"]
        return [self.pytorch(), BENCH / ("sweep/export.py" if name in parts.SWEEP else "models.py")]

    def model(self, name):
        folder = self.options.folder / name
        if not (folder / "model.onnx").exists():
            pinned([*self.make(name), self.options.folder, name], len(cores()))
        return folder

    def prepared(self, engine, name):
        """A model's folder with the file that the engine runs."""
        folder = self.model(name)
        if engine in ("ort_int8", "openvino_int8") and not (folder / "int8.onnx").exists():
            pinned([self.python, BENCH / "sweep/quantised.py", "--beside", folder], len(cores()))
        if engine == "iree" and not (folder / "m.vmfb").exists() and name not in self.refused:
            self.refused.add(name)
            with contextlib.suppress(subprocess.SubprocessError):  # the engine then reports that the file is missing
                subprocess.run([self.python, BENCH / "engine.py", "compile-iree", folder], check=True, capture_output=True, timeout=self.options.compile_seconds)
        return folder

    def measure(self, engine, name, threads):
        """The figures of one process."""
        if name in parts.STEPS:
            return self.step(engine, name, threads)
        folder = self.prepared(engine, name)
        if engine in PRECISIONS:
            return self.run_weir(engine, folder, threads)
        if engine == "gomlx":
            return self.run_gomlx(folder, threads)
        python = self.pytorch() if engine in PYTORCH else self.python
        text, _ = pinned([python, BENCH / "engine.py", engine, folder, threads, self.options.seconds], threads, self.options.realtime)
        return json.loads(text.strip().splitlines()[-1])

    def step(self, engine, name, threads):
        """A training step's figures, and the growth of the process in bytes. If a budget is refused, the smallest that
        works is taken.
        """
        if engine == "weir_budget":
            try:
                return self.timed_step(engine, name, threads, self.budget(name, threads))
            except RuntimeError as e:
                least = re.search(r"a budget of (\d+) bytes works", str(e))
                if not least:
                    raise
                return {**self.timed_step(engine, name, threads, int(least.group(1))), "refused": str(e)}
        return self.timed_step(engine, name, threads, 0)

    def timed_step(self, engine, name, threads, budget):
        if engine in PYTORCH:
            command = [self.pytorch(), BENCH / "steps.py", engine, name, threads, self.options.seconds]
        elif engine == "gomlx":
            command = [self.build("gomlx_steps", "./steps", BENCH / "gomlx"), name, self.options.seconds]
        else:
            command = [self.build("steps", "./bench/steps", ROOT), name, self.options.seconds, budget]
        text, _ = pinned([*self.options.prefix.split(), *command], threads, self.options.realtime)
        found = json.loads(text.strip().splitlines()[-1])
        if engine == "weir":
            self.steps[name, threads] = found
        return {**found, "resident": found["peak"] / 2**20, "error": 0}

    def budget(self, name, threads):
        """The budget's share of a step's bytes, plus the states."""
        if (name, threads) not in self.steps:
            self.step("weir", name, threads)
        found = self.steps[name, threads]
        return int(parts.BUDGET * (found["certificate"] - found["states"]))

    def run_weir(self, engine, folder, threads):
        """Times are those of `weir bench`; error and resident size are those of `weir run`, since bench holds more than
        one run.
        """
        flags = ["--threads", threads, *PRECISIONS[engine], *self.options.flags.split()]
        key = engine, folder.name, threads
        if key not in self.errors:
            with tempfile.TemporaryDirectory() as out:
                _, resident = pinned([self.weir, "run", folder / "model.onnx", "--output", out, *flags, *inputs_of(folder)], threads)
                text, _ = pinned([self.python, BENCH / "distance.py", folder, out], threads)
                self.errors[key] = float(text), resident
        text, _ = pinned([self.weir, "bench", folder / "model.onnx", "--json", "--seconds", self.options.seconds, *flags, *inputs_of(folder)], threads, self.options.realtime)
        b = json.loads(text)
        wrong, resident = self.errors[key]
        return {"min": b["latency_ms"]["min"], "median": b["latency_ms"]["p50"], "runs": b["runs"], "load": b["load_ms"] + b["compile_ms"], "first": b["first_ms"], "error": wrong,
                "resident": resident, "gflops": b["operations"] / b["latency_ms"]["min"] / 1e6, "predicted": b["predicted_bytes"], "measured": b["measured_bytes"],
                "moved": b["moved_bytes"], "dims": b["dims"], "compile": b["compile_ms"], "probe": b["probe"]}

    def fixed(self, name, dims):
        """The time of compiling with all sizes given, in ms."""
        sizes = [word for dim, size in dims.items() for word in ("--dim", f"{dim}={size}")]
        with tempfile.TemporaryDirectory() as work:
            text, _ = pinned([self.weir, "compile", self.model(name) / "model.onnx", "-o", pathlib.Path(work) / "m.weir", "--json", "--threads", 1, *sizes], 1, self.options.realtime)
        return json.loads(text)["compile_ms"]

    def start(self, name):
        """The time to a first result in ms, on one thread, from the model and from the artefact: the fastest of
        REPEATS.
        """
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
        text, _ = pinned([self.build("gomlx", ".", BENCH / "gomlx"), folder, self.options.seconds], threads, self.options.realtime)
        return json.loads(text.strip().splitlines()[-1])


def rounds(bench, options, chosen, save):
    """All engines in turn; results by part, model, threads and engine."""
    results = {}
    for number in range(options.rounds):
        for part in chosen:
            for name in part.models:
                for threads in options.threads:
                    cells = results.setdefault(part.name, {}).setdefault(name, {}).setdefault(str(threads), {})
                    for engine in part.engines:
                        turn(bench, part, cells.setdefault(engine, {}), engine, name, threads)
                        print(f"round {number + 1}  {part.name:9} {name:20} {threads} threads  {engine:13} {cells[engine].get('min', cells[engine].get('failed'))}", file=sys.stderr, flush=True)
                save(results)
    return results


def turn(bench, part, cell, engine, name, threads):
    """One engine's turn, added to its cell."""
    if "failed" in cell and "min" not in cell:
        return  # another round would not be better
    try:
        merge(cell, bench.measure(engine, name, threads), part.tolerance_of(name))
        if engine == part.engines[0] and cell.get("dims") and "fixed" not in cell and threads == min(bench.options.threads):
            cell["fixed"] = bench.fixed(name, cell["dims"])
    except (RuntimeError, ValueError, subprocess.CalledProcessError) as e:
        cell["failed"] = str(e)


def merge(cell, now, tolerance):
    """The fastest of several rounds; of medians the median, and of memory the maximum."""
    medians = cell.get("medians", []) + [now["median"]]
    resident, probe = max(cell.get("resident", 0), now["resident"]), now.get("probe")
    if probe and "probe" in cell:
        probe = max(probe, cell["probe"], key=lambda p: p["all_gflops"])
    least = {key: min(now[key], cell.get(key, now[key])) for key in ("first", "load", "compile") if key in now}
    if "min" not in cell or now["min"] < cell["min"]:
        cell.update(now)
    cell.update(medians=medians, median=sorted(medians)[len(medians) // 2], resident=resident, **least)
    if probe:
        cell["probe"] = probe
    if not cell["error"] <= tolerance:  # NaN is wrong too
        cell["failed"] = f"wrong: error {cell['error']:.2g}"
        del cell["min"]


def machine():
    """The processor, its caches and the system, as the system reports them."""
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


def versions(bench, engines):
    found = {"weir": subprocess.run(["git", "describe", "--tags", "--always"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "this tree",
             "gomlx": re.search(r"gomlx/gomlx v(\S+)", (BENCH / "gomlx/go.mod").read_text()).group(1)}
    names = {"weir": "weir", "ort": "onnxruntime", "openvino": "openvino", "ncnn": "ncnn", "iree": "iree-base-compiler", "inductor": "torch", "torch": "torch", "gomlx": "gomlx"}
    families = {e.split("_")[0] for e in engines}
    pythons = ([bench.python] if families - {"weir", "gomlx", *PYTORCH} else []) + ([bench.pytorch()] if families & set(PYTORCH) else [])
    for python in pythons:
        for package in json.loads(subprocess.run([python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"], capture_output=True, check=True).stdout):
            found.setdefault(package["name"], package["version"])
    return {e: found[names[e]] for e in names if e in families and names[e] in found}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--parts", default=",".join(part.name for part in parts.PARTS), help="with commas")
    p.add_argument("--engines", help="instead of the parts' own, with commas, Weir first; inductor, torch and gomlx are there too")
    p.add_argument("--models", nargs="+", help="instead of all of the parts' models; of the part exported also the others of models.py")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1, help="of each measurement")
    p.add_argument("--compile-seconds", type=float, default=900, help="how long IREE may compile a model")
    p.add_argument("--realtime", action="store_true", help="measure at real-time priority, which needs the right to: for a machine that does other work as well")
    p.add_argument("--prefix", default="", help="words in front of each command that times a training step, such as 'nice -n -5'")
    p.add_argument("--update", action="store_true", help="write only the sections of the parts that are measured into the document that there is")
    p.add_argument("--flags", default="", help="more flags for weir, such as '--cpu avx2'")
    p.add_argument("--weir", type=pathlib.Path, help="the command to time, instead of one built here")
    p.add_argument("--rivals", type=pathlib.Path, default=CACHE / "rivals", help="a virtual environment with the rivals")
    p.add_argument("--pytorch", type=pathlib.Path, default=CACHE / "pytorch", help="one with PyTorch, for models and its two engines")
    p.add_argument("--trees", type=pathlib.Path, default=CACHE / "trees", help="one with scikit-learn and LightGBM, for models")
    p.add_argument("--folder", type=pathlib.Path, default=CACHE / "models", help="where the models are")
    p.add_argument("--results", type=pathlib.Path, default=CACHE / "results.json")
    p.add_argument("--report", type=pathlib.Path, help="results to write the document from, without measuring")
    p.add_argument("--document", type=pathlib.Path, default=ROOT / "docs" / "benchmarks.md")
    o = p.parse_args()
    o.threads = list(dict.fromkeys(min(int(t), len(cores())) for t in o.threads.split(",")))
    return o


def chosen(options):
    """The requested parts, with their engines and models."""
    found = []
    for part in parts.PARTS:
        if part.name not in options.parts.split(","):
            continue
        if options.engines:
            part = part._replace(engines=options.engines.split(","))
        if options.models:
            extra = parts.EXTRA if part.name == "exported" else []
            part = part._replace(models=[m for m in options.models if m in [*part.models, *extra]])
        found.append(part)
    return [part for part in found if part.models]


def command(options):
    """The command that makes the same document elsewhere, without paths."""
    words = ["bench/bench.py", "--parts", options.parts, "--threads", ",".join(map(str, options.threads)), "--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    if options.engines:
        words += ["--engines", options.engines]
    if options.models:
        words += ["--models", *options.models]
    if options.compile_seconds != 900:
        words += ["--compile-seconds", f"{options.compile_seconds:g}"]
    return " ".join(words + ["--update"] * options.update + ["--realtime"] * options.realtime + (["--flags", repr(options.flags)] if options.flags else []))


def main():
    import report

    options = arguments()
    if not options.report:
        CACHE.mkdir(parents=True, exist_ok=True)
        bench, asked = Bench(options), chosen(options)
        engines = [e for part in asked for e in part.engines]
        about = {"machine": machine(), "versions": versions(bench, engines), "command": command(options),
                 "date": time.strftime("%Y-%m-%d", time.gmtime()), "rounds": options.rounds, "realtime": options.realtime, "seconds": options.seconds}

        def save(results):
            options.results.write_text(json.dumps({**about, "results": results}, indent=1))

        about["start"] = {name: bench.start(name) for part in asked if part.name == "exported" and "weir" in part.engines for name in part.models}
        rounds(bench, options, asked, save)
    (report.update if options.update else report.write)(json.loads((options.report or options.results).read_text()), options.document)


if __name__ == "__main__":
    main()
