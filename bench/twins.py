"""Compares models that have named sizes with their twins of fixed sizes: compilation, memory, runs and certificates.

  twins.py FOLDER...                      each folder has model.onnx and its inputs x0.npy …, as bench.py and sweep/export.py make them
  twins.py --weir ./weir --refuse FOLDER... also the time to refuse a budget that nothing can keep

The twin is the same file with --dim NAME=SIZE..SIZE for each name. Compilation is measured as processor time on one thread, so that
other work on the machine matters little, and as the peak of the resident bytes: all, and those of no file. The two programs run in
turns, pinned to one core; of all turns the fastest run counts. With --realtime they run at real-time priority.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading

from bench import beginning, inputs_of

COLUMNS = ["model", "compile, ms", "twin", "ratio", "resident, MiB", "twin", "of no file", "twin", "run, ms", "twin", "twin / run", "bytes", "twin"]


def watch(process, peak, stop):
    """Notes in peak the most KiB of no file that a process has in memory, until it ends."""
    while not stop.wait(0.005):
        found = re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        peak[0] = max(peak[0], int(found.group(1)) if found else 0)


def run(command, realtime=False, allowed=(0,)):
    """A command's result as JSON or, of a refusal, as text, its processor time in seconds, and its peaks in MiB."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors, preexec_fn=beginning(1, realtime),
                                   env={**os.environ, "GOMAXPROCS": "1"})
        peak, stop = [0], threading.Event()
        watcher = threading.Thread(target=watch, args=(process, peak, stop))
        watcher.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its status file stays until wait4
        stop.set()
        watcher.join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        text = out.read().decode()
        if process.returncode not in allowed:
            raise SystemExit(f"{' '.join(map(str, command))}: {errors.read().decode().strip() or text}")
        return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, peak[0] / 1024


def compiled(options, folder, artefact, sizes):
    """The fastest of several compilations in ms, and the peaks of resident MiB, all and of no file."""
    command = [options.weir, "compile", folder / "model.onnx", "-o", artefact, "--json", "--threads", 1, *sizes]
    runs = [run(command)[1:] for _ in range(options.rounds)]
    return 1e3 * min(r[0] for r in runs), max(r[1] for r in runs), max(r[2] for r in runs)


def measured(options, folder, work):
    """The cells of a model's row; None of a model without named sizes."""
    timing = ["--json", "--threads", 1, *inputs_of(folder), "--seconds"]
    dims = json.loads(run([options.weir, "bench", folder / "model.onnx", *timing, 0.01])[0])["dims"]
    if not dims:
        return None
    sizes = [word for name, size in dims.items() for word in ("--dim", f"{name}={size}..{size}")]
    kinds = [(work / "named.weir", []), (work / "fixed.weir", sizes)]
    builds = [compiled(options, folder, artefact, given) for artefact, given in kinds]
    least, bytes_ = [float("inf")] * 2, [0] * 2
    for _ in range(options.turns):
        for i, (artefact, _) in enumerate(kinds):
            found = json.loads(run([options.weir, "bench", artefact, *timing, options.seconds], options.realtime)[0])
            least[i], bytes_[i] = min(least[i], found["latency_ms"]["min"]), found["predicted_bytes"]
    (named, resident, own), (fixed, resident_twin, own_twin) = builds
    row = [folder.name, f"{named:.0f}", f"{fixed:.0f}", f"{named / fixed:.2f}", f"{resident:.0f}", f"{resident_twin:.0f}", f"{own:.0f}",
           f"{own_twin:.0f}", f"{least[0]:.3g}", f"{least[1]:.3g}", f"{least[1] / least[0]:.2f}", *map(str, bytes_)]
    if options.refuse:
        _, seconds, _, _ = run([options.weir, "plan", folder / "model.onnx", "--threads", 1, "--budget", 1, *sizes], allowed=range(256))
        row.append(f"{seconds:.1f}")
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+", type=pathlib.Path)
    p.add_argument("--weir", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "weir")
    p.add_argument("--rounds", type=int, default=2, help="compilations of each, of which the fastest counts")
    p.add_argument("--turns", type=int, default=4, help="turns of each program")
    p.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    p.add_argument("--realtime", action="store_true", help="run at real-time priority, which needs the right to")
    p.add_argument("--refuse", action="store_true", help="also the processor time, in s, of a refusal of a budget of one byte, of fixed sizes")
    options = p.parse_args()
    columns = COLUMNS + ["refusal, s"] * options.refuse
    print("| " + " | ".join(columns) + " |\n|---|" + "---:|" * (len(columns) - 1), flush=True)
    with tempfile.TemporaryDirectory() as work:
        for folder in options.folders:
            row = measured(options, folder, pathlib.Path(work))
            if row:
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
