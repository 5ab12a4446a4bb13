"""Shows what a budget costs: peak against time, from what a model takes by itself down to the smallest budget that works, in ten steps.

    python bench/budgets.py --models DIR [--weir ./weir] [--threads 2] [NAME...]

DIR/NAME/model.onnx is as bench.py exports it; training_step comes from testdata. It writes docs/budgets.md and docs/budgets.svg. --realtime gives what is timed real-time
priority, on a machine that does other work meanwhile.
"""
import argparse
import html
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
STEPS = 10
COLOURS = ["#3366cc", "#dc3912", "#109618", "#ff9900", "#990099"]


def first(args):
    """Run before a command that is timed."""
    if args.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def weir(args, *words):
    command = [args.weir, *words, "--threads", str(args.threads), "--json"]
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


def chart(curves):
    """Time as a multiple of the unconstrained run's, against the peak as a share of the unconstrained one's."""
    wide, high, left, top = 760, 360, 60, 20
    most = max(p["ms"] / c["points"][0]["ms"] for c in curves.values() for p in c["points"]) * 1.05
    x = lambda share: left + (wide - left - 20) * share
    y = lambda times: top + (high - top - 50) * (1 - times / most)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12">', f'<rect width="{wide}" height="{high}" fill="white"/>']
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        out.append(f'<line x1="{x(share):.1f}" y1="{y(0):.1f}" x2="{x(share):.1f}" y2="{top}" stroke="#ddd"/><text x="{x(share):.1f}" y="{y(0) + 16:.1f}" text-anchor="middle">{share:.0%}</text>')
    for times in range(0, int(most) + 1, max(1, int(most) // 6)):
        out.append(f'<line x1="{left}" y1="{y(times):.1f}" x2="{wide - 20}" y2="{y(times):.1f}" stroke="#ddd"/><text x="{left - 6}" y="{y(times) + 4:.1f}" text-anchor="end">{times}×</text>')
    out.append(f'<text x="{(left + wide) / 2}" y="{high - 12}" text-anchor="middle">peak, of what the model takes by itself (dashed: the least for which its largest step fits uncut, weights in memory)</text>')
    for i, (name, c) in enumerate(curves.items()):
        colour, whole, alone = COLOURS[i % len(COLOURS)], c["points"][0]["peak"], c["points"][0]["ms"]
        line = " ".join(f"{x(p['peak'] / whole):.1f},{y(p['ms'] / alone):.1f}" for p in c["points"])
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(p["peak"] / whole):.1f}" cy="{y(p["ms"] / alone):.1f}" r="3" fill="{colour}"/>' for p in c["points"]]
        out.append(f'<line x1="{x(c["floor"] / whole):.1f}" y1="{top}" x2="{x(c["floor"] / whole):.1f}" y2="{y(0):.1f}" stroke="{colour}" stroke-dasharray="4 4"/>')
        out.append(f'<text x="{left + 10}" y="{top + 16 + 16 * i}" fill="{colour}">{html.escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])


def document(args, curves):
    lines = ["# What a budget costs", "", "<!-- written by bench/budgets.py -->", "",
             f"Each model is compiled for its own peak and for ten smaller budgets, down to the smallest that works (`bench/budgets.py --threads {args.threads}`). Within a budget stretches are computed in pieces, results are computed",
             "again or spilled to a file, and weights are left in their file, from which they come whole, by rows or in parts ([memory](memory.md)); the results stay the same. What was predicted was measured, to the byte, at every point. Time is the fastest run's.", "",
             "![peak against time](budgets.svg)", ""]
    for name, c in curves.items():
        first = c["points"][0]
        lines += [f"## {name}", "", f"By itself {mib(first['peak'])} MiB, of which the arena is {mib(first['arena'])}; its largest step needs {mib(c['step'])} MiB of that uncut.", "",
                  "| budget, MiB | peak | share | arena | spilled | ms | times | what was done |", "|---:|---:|---:|---:|---:|---:|---:|---|"]
        for p in c["points"]:
            done = ", ".join(f"{n} × {kind}" for kind, n in p["kinds"].items()) or "nothing"
            lines.append(f"| {mib(p['budget'])} | {mib(p['peak'])} | {p['peak'] / first['peak']:.0%} | {mib(p['arena'])} | {mib(p['spill'])} | {p['ms']:.3g} | {p['ms'] / first['ms']:.2f} | {done} |")
        lines.append("")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", default=["resnet50", "vgg16", "bert_base_s128", "gpt2_prefill_s128"])
    p.add_argument("--models", required=True)
    p.add_argument("--weir", default=os.path.join(ROOT, "weir"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--realtime", action="store_true")
    args = p.parse_args()
    curves = {name: curve(args, os.path.join(args.models, name, "model.onnx"), []) for name in args.names}
    curves["training_step (n = 4096)"] = curve(args, os.path.join(ROOT, "testdata", "onnx", "training_step", "model.onnx"), ["--dim", "n=4096"])
    with open(os.path.join(ROOT, "docs", "budgets.md"), "w") as f:
        f.write(document(args, curves))
    with open(os.path.join(ROOT, "docs", "budgets.svg"), "w") as f:
        f.write(chart(curves))


if __name__ == "__main__":
    main()
