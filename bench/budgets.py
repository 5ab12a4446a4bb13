"""Shows what a budget costs: peak against time, from what a model takes by itself down to the smallest budget that works, in ten steps.

    python bench/budgets.py --models DIR [--weir ./weir] [--threads 2] [NAME...]

DIR/NAME/model.onnx is as bench.py exports it; training_step comes from testdata. It writes docs/budgets.md and, from its tables, docs/budgets.svg, which `--draw`
draws again. --realtime gives what is timed real-time priority, on a machine that does other work meanwhile.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys

import picture

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
STEPS = 10
DOCUMENT = os.path.join(ROOT, "docs", "budgets.md")


def first(args):
    """Runs in a timed process before its command."""
    if args.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def weir(args, *words):
    command = [args.weir, *words, *(() if words[0] == "env" else ("--threads", str(args.threads))), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, preexec_fn=(lambda: first(args)) if words[0] == "bench" else None)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def curve(args, model, extra):
    free = weir(args, "plan", model, *extra)
    refused = weir(args, "plan", model, *extra, "--budget", "1")
    least = int(re.search(r"budget of (\d+) bytes works", refused["error"]["fix"]).group(1))
    points = []
    for i in range(STEPS + 1):
        budget = free["peak_bytes"] - (free["peak_bytes"] - least) * i // STEPS
        plan = weir(args, "plan", model, *extra, "--budget", str(budget))
        bench = weir(args, "bench", model, *extra, "--budget", str(budget), "--seconds", str(args.seconds))
        kinds = {}
        for s in plan.get("savings") or []:
            how = [s["kind"]]
            if s["kind"] == "page":
                how += ["by rows"] * (s.get("rows", 0) > 0) + ["in parts"] * (s.get("pieces", 0) > 1)
            kinds[" ".join(how)] = kinds.get(" ".join(how), 0) + 1
        if bench["predicted_bytes"] != bench["measured_bytes"]:
            raise SystemExit(f"{model} within {budget}: {bench['predicted_bytes']} predicted, {bench['measured_bytes']} measured")
        points.append({"budget": budget, "peak": bench["predicted_bytes"], "arena": plan["arena_bytes"], "spill": plan.get("spill_bytes") or 0, "ms": bench["latency_ms"]["min"], "kinds": kinds})
        print(os.path.dirname(model), points[-1], file=sys.stderr, flush=True)
    return {"points": points, "floor": free["peak_bytes"] - free["arena_bytes"] + free["largest_step_bytes"], "step": free["largest_step_bytes"], "bound": free["lower_bound_bytes"]}


def mib(n):
    return f"{n / 2**20:.2f}" if n < 2**24 else f"{n / 2**20:.1f}"


def enough(n):
    """A budget in MiB, rounded up, so that --budget accepts the printed number."""
    digits = 2 if n < 2**24 else 1
    return f"{math.ceil(n / 2**20 * 10**digits) / 10**digits:.{digits}f}"


def read(document):
    """The curves of a document: for each model, shares of the peak with times, and the share for which the largest step
    fits uncut.
    """
    curves = {}
    for block in document.split("\n## ")[1:]:
        name, _, rest = block.partition("\n")
        whole, arena, step = (float(n) for n in re.search(r"By itself ([\d.]+) MiB, of which the arena is ([\d.]+); its largest step needs ([\d.]+)", rest).groups())
        points = [(float(row["peak"]) / whole, float(row["times"])) for row in picture.rows("# " + block, name)]
        curves[name] = points, (whole - arena + step) / whole
    return curves


def chart(document):
    """Draws times as multiples of the unconstrained run's, against shares of the unconstrained peak, from the
    document's tables.
    """
    curves = read(document)
    wide, deep, left, right, top, low = 800, 420, 60, 24, 52, 62
    most = max(times for points, _ in curves.values() for _, times in points) * 1.05
    x = lambda share: left + (wide - left - right) * share
    y = lambda times: top + (deep - top - low) * (1 - times / most)
    out = [picture.text(16, 24, "What a budget costs")]
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        out += [picture.line(x(share), y(0), x(share), top), picture.text(x(share), y(0) + 17, f"{share:.0%}", "middle", "soft")]
    for times in range(0, int(most) + 1, max(1, int(most) // 6)):
        out += [picture.line(left, y(times), wide - right, y(times)), picture.text(left - 6, y(times) + 4, f"{times}×", "end", "soft")]
    out += [picture.text(16, top - 8, "time of a run, of that without a budget", kind="soft"),
            picture.text((left + wide) / 2, deep - 26, "peak, of the model's without a budget", "middle", "soft"),
            picture.text((left + wide) / 2, deep - 9, "dashed: the peak for which the largest step fits uncut, with all weights in memory", "middle", "soft")]
    for i, (name, (points, floor)) in enumerate(curves.items()):
        colour, path = f"s{i % 5}", " ".join(f"{x(share):.1f},{y(times):.1f}" for share, times in points)
        out += [picture.line(x(min(floor, 1)), top, x(min(floor, 1)), y(0), colour, ' stroke-dasharray="4 4"'),
                f'<polyline points="{path}" style="fill: none; stroke: var(--{colour}); stroke-width: 2"/>']
        out += [f'<circle cx="{x(share):.1f}" cy="{y(times):.1f}" r="3" style="fill: var(--{colour})"/>' for share, times in points]
    begin = x(0.62)
    out.append(f'<rect x="{begin - 8:.1f}" y="{top + 6}" width="185" height="{17 * len(curves) + 8}" style="fill: var(--paper)"/>')
    for i, name in enumerate(curves):
        out += [f'<rect x="{begin:.1f}" y="{top + 12 + 17 * i}" width="10" height="10" style="fill: var(--s{i % 5})"/>', picture.text(begin + 16, top + 21 + 17 * i, name)]
    return picture.page(wide, deep, "What a budget costs: the time of a run against the peak, of five models", out)


def document(args, curves):
    machine = weir(args, "env")
    level = machine["target"].split(":")[0]
    lines = ["# What a budget costs", "", "<!-- written by bench/budgets.py -->", "",
             f"Each model is compiled for its own peak and for ten smaller budgets, down to the smallest that works (`bench/budgets.py --threads {args.threads}`). Within a budget stretches are computed in pieces, results are computed",
             "again or spilled to a file, and weights are left in their file, from which they come whole, by rows or in parts ([memory](memory.md)); the results stay the same. What was predicted was measured, to the byte, at every point. Time is the fastest run's.", "",
             f"The machine: {machine['processor']}, {machine['caches']}, {args.threads} threads, code for {level} ({machine['version']}, {machine['go']}). Another level has other code and lays weights out otherwise: its smallest budgets",
             "are a few per cent to two fifths larger or smaller. Budgets are rounded up: `--budget 8.01MiB` takes one as it stands here.", "",
             "![peak against time](budgets.svg)", ""]
    for name, c in curves.items():
        first = c["points"][0]
        lines += [f"## {name}", "", f"By itself {mib(first['peak'])} MiB, of which the arena is {mib(first['arena'])}; its largest step needs {mib(c['step'])} MiB of that uncut.", "",
                  "| budget, MiB | peak | share | arena | spilled | ms | times | what was done |", "|---:|---:|---:|---:|---:|---:|---:|---|"]
        for p in c["points"]:
            done = ", ".join(f"{n} × {kind}" for kind, n in p["kinds"].items()) or "nothing"
            lines.append(f"| {enough(p['budget'])} | {mib(p['peak'])} | {p['peak'] / first['peak']:.0%} | {mib(p['arena'])} | {mib(p['spill'])} | {p['ms']:.3g} | {p['ms'] / first['ms']:.2f} | {done} |")
        lines.append("")
    return "\n".join(lines)


def measure(args):
    """Writes the document."""
    curves = {name: curve(args, os.path.join(args.models, name, "model.onnx"), []) for name in args.names}
    curves["training_step (n = 4096)"] = curve(args, os.path.join(ROOT, "testdata", "onnx", "training_step", "model.onnx"), ["--dim", "n=4096"])
    with open(DOCUMENT, "w") as f:
        f.write(document(args, curves))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", default=["resnet50", "vgg16", "bert_base_s128", "gpt2_prefill_s128"])
    p.add_argument("--models", default="models")
    p.add_argument("--weir", default=os.path.join(ROOT, "weir"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--realtime", action="store_true")
    p.add_argument("--draw", action="store_true", help="measure nothing: draw the document's tables again")
    args = p.parse_args()
    if not args.draw:
        measure(args)
    with open(DOCUMENT) as f, open(DOCUMENT.removesuffix(".md") + ".svg", "w") as drawn:
        drawn.write(chart(f.read()))


if __name__ == "__main__":
    main()
