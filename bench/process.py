"""Shows what the process takes beside what is promised, from load to last run, with and without budgets.

    python bench/process.py --models DIR [--weir ./weir] [--threads 2] [NAME...]

DIR/NAME/model.onnx is a model whose inputs have fixed sizes, with x0.npy, x1.npy, ... for its inputs, or random values. Each
model is run by a process of its own: without a budget, and within --share of what it takes by itself, or within the smallest
budget that works. /proc/PID/status is read every two milliseconds; Linux only, and nothing but Python. It writes docs/process.md.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
EVERY = 0.002  # seconds


def watched(command):
    """Runs a command, and returns the peaks of its process: of memory without a file behind it, and of all memory."""
    anonymous = resident = 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as f:
                rows = dict(line.split(":", 1) for line in f)
            kib = {name: int(rows[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmHWM") if name in rows}
        except (OSError, ValueError, IndexError):
            break
        anonymous = max(anonymous, kib.get("RssAnon", 0) + kib.get("RssShmem", 0))
        resident = max(resident, kib.get("VmHWM", 0))
        time.sleep(EVERY)
    error = process.stderr.read()
    if process.wait() != 0:
        raise SystemExit(f"{' '.join(command)}: {error}")
    return anonymous << 10, resident << 10


def plan(args, model, *words):
    command = [args.weir, "plan", model, *words, "--threads", str(args.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def row(args, folder, model, budget):
    words = ["--budget", str(budget)] if budget else []
    told = plan(args, model, *words)
    if "error" in told:  # it does not fit, and the fix names a budget that does
        budget = int(re.search(r"budget (?:of )?(\d+)", told["error"]["fix"]).group(1))
        words = ["--budget", str(budget)]
        told = plan(args, model, *words)
    given = sorted(glob.glob(os.path.join(folder, "x*.npy"))) or ["random"]
    inputs = [word for x in given for word in ("--input", x)]
    anonymous, resident = watched([args.weir, "run", model, *inputs, *words, "--threads", str(args.threads), "--quiet"])
    asked = told["asked"]
    return {"budget": budget, "peak": told["peak_bytes"], "files": asked["files_bytes"], "paged": asked["paged_bytes"],
            "anonymous": anonymous, "beyond": anonymous - told["peak_bytes"], "resident": resident}


def measure(args, name):
    folder = os.path.join(args.models, name)
    model = os.path.join(folder, "model.onnx")
    rows = []
    for share in (0, args.share):
        budget = int(share * rows[0]["peak"]) if share else 0
        rows.append(row(args, folder, model, budget))
        print(name, rows[-1], flush=True)
    return os.path.getsize(model), rows


def mib(n):
    return f"{n / 2**20:.2f}" if 0 <= n < 2**20 else f"{n / 2**20:.1f}"


def document(args, models):
    lines = ["# The process beside the promise", "", "<!-- written by bench/process.py -->", "",
             f"Each row is one process, `weir run MODEL --threads {args.threads}`, from its start to its end: it loads, compiles and runs the model. `bench/process.py` measures it.",
             "*Promised* is the certificate's peak; *In files, paged* are the bytes of files that stay",
             "mapped (`Asked.Files`), and those of them in the program's own file. *Anonymous* is the peak of memory that no file backs (RssAnon and RssShmem, read every 2 ms); *beyond*",
             "is anonymous minus promised: Go's heap of the compiler and of the command. It is negative if weights are read in their file.",
             "*All* is VmHWM, which also counts clean pages of the model's file; the operating system can reclaim these at any time.", "",
             "| model | file, MiB | budget | promised | in files, paged | anonymous | beyond | all |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, (size, rows) in models.items():
        for r in rows:
            budget = mib(r["budget"]) if r["budget"] else "none"
            lines.append(f"| {name} | {mib(size)} | {budget} | {mib(r['peak'])} | {mib(r['files'])}, {mib(r['paged'])} "
                         f"| {mib(r['anonymous'])} | {mib(r['beyond'])} | {mib(r['resident'])} |")
    return "\n".join(lines + [""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", help="folders of DIR; all, if none is named")
    p.add_argument("--models", required=True)
    p.add_argument("--weir", default=os.path.join(ROOT, "weir"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--share", type=float, default=0.25)
    args = p.parse_args()
    names = args.names or sorted(n for n in os.listdir(args.models) if os.path.exists(os.path.join(args.models, n, "model.onnx")))
    models = {name: measure(args, name) for name in names}
    with open(os.path.join(ROOT, "docs", "process.md"), "w") as f:
        f.write(document(args, models))


if __name__ == "__main__":
    main()
