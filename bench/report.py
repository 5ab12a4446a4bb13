"""Writes the benchmarks' document and its chart from the results that bench.py collected."""
import math

TITLES = {"weir": "Weir", "ort": "ONNX Runtime", "openvino": "OpenVINO f32", "openvino_bf16": "OpenVINO bf16", "ncnn": "ncnn", "iree": "IREE", "inductor": "PyTorch inductor",
          "torch": "PyTorch eager", "gomlx": "GoMLX (Go)"}
BUSY = "The machine did other work meanwhile; all that was measured had real-time priority. "
NO_RIVAL = {"weir", "openvino_bf16"}  # bf16 is another precision: it is shown, and no rival to f32


def number(x):
    if x is None:
        return "–"
    digits = 4 if x < 0.1 else 3 if x < 1 else 2 if x < 10 else 1 if x < 100 else 0
    return f"{x:.{digits}f}"


def best(cells):
    """The fastest rival's name and time."""
    times = [(c["min"], e) for e, c in cells.items() if e not in NO_RIVAL and "min" in c]
    return min(times, default=None)


def ratio(cells):
    rival, own = best(cells), cells.get("weir", {}).get("min")
    return rival[0] / own if rival and own else None


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def engines_of(results):
    found = []
    for by_threads in results.values():
        for cells in by_threads.values():
            found += [e for e in cells if e not in found]
    return found


def speeds(results, threads, engines):
    rows = []
    for name, by_threads in results.items():
        cells = by_threads.get(threads)
        if not cells:
            continue
        r, rival = ratio(cells), best(cells)
        row = [name]
        for e in engines:
            text = number(cells.get(e, {}).get("min"))
            row.append(f"**{text}**" if rival and e == rival[1] else text)
        gflops = cells.get("weir", {}).get("gflops")
        rows.append(row + [f"{r:.2f}" if r else "–", f"{gflops:.0f}" if gflops else "–"])
    return table(["model", *(TITLES[e] for e in engines), "Weir ahead", "GFLOP/s"], rows)


def mean(results, threads):
    """The geometric mean of the ratios, and how many there are."""
    ratios = [r for by in results.values() if threads in by and (r := ratio(by[threads]))]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None), len(ratios)


def costs(results, engines, key, unit=1):
    rows = []
    for name, by_threads in results.items():
        cells = by_threads[min(by_threads)]
        rows.append([name] + [number(cells[e][key] * unit) if "min" in cells.get(e, {}) else "–" for e in engines])
    return table(["model", *(TITLES[e] for e in engines)], rows)


def starts(start):
    rows = [[name, number(s["compile"]), number(s["artefact"]), number(s["load"]), number(s["start"]), number(s["first"]), number(s["steady"])] for name, s in start.items()]
    return table(["model", "compile", "artefact, MiB", "load", "start to first result", "first run", "fastest run"], rows)


def probes(results):
    """The best of the probes made beside Weir's measurements, for each number of threads."""
    found = {}
    for by_threads in results.values():
        for threads, cells in by_threads.items():
            probe = cells.get("weir", {}).get("probe")
            if probe and (threads not in found or probe["all_gflops"] > found[threads]["all_gflops"]):
                found[threads] = probe
    lines = []
    for threads, p in sorted(found.items()):
        reads = ", ".join(f"{m['range_bytes'] / 1024:.0f} KiB {m['all_gb_per_s']:.0f}" for m in p["memory"])
        lines.append(f"- {threads} threads: {p['all_gflops']:.1f} GFLOP/s of f32 multiply-adds ({p['cpu']}); reading, GB/s: {reads}")
    return "\n".join(lines) + "\n"


def failures(results):
    lines = []
    for name, by_threads in results.items():
        for e in engines_of({name: by_threads}):
            texts = {c[e]["failed"] for c in by_threads.values() if "failed" in c.get(e, {})}
            lines += [f"- {name}, {TITLES[e]}: {text}".replace("|", "\\|") for text in sorted(texts)]
    return "\n".join(lines) + "\n" if lines else "None.\n"


def chart(results):
    """Bars of how many times as fast as the best rival Weir is, as SVG."""
    threads = sorted({t for by in results.values() for t in by})
    colours = ["#2b6cb0", "#90cdf4", "#68d391", "#f6ad55"]
    left, width, bar = 150, 480, 9
    step = bar * len(threads) + 8
    most = max([2.0] + [r for by in results.values() for c in by.values() if (r := ratio(c))])
    scale = width / most
    height = 46 + step * len(results)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="14">times as fast as the fastest rival</text>']
    for i, t in enumerate(threads):
        x = left + 230 + i * 90
        out.append(f'<rect x="{x}" y="6" width="10" height="9" fill="{colours[i % 4]}"/><text x="{x + 14}" y="14">{t} thread{"s" if t != "1" else ""}</text>')
    for row, (name, by) in enumerate(results.items()):
        y = 26 + row * step
        out.append(f'<text x="{left - 6}" y="{y + step / 2 + 1:.1f}" text-anchor="end">{name}</text>')
        for i, t in enumerate(threads):
            r = ratio(by.get(t, {}))
            top = y + 3 + i * bar
            if r:
                out.append(f'<rect x="{left}" y="{top}" width="{r * scale:.1f}" height="{bar - 1}" fill="{colours[i % 4]}"/>')
            out.append(f'<text x="{left + (r or 0) * scale + 3:.1f}" y="{top + 8}" font-size="9">{f"{r:.2f}" if r else "no figure"}</text>')
    out.append(f'<line x1="{left + scale:.1f}" y1="22" x2="{left + scale:.1f}" y2="{height - 14}" stroke="#c53030"/>')
    out.append(f'<text x="{left + scale:.1f}" y="{height - 3}" text-anchor="middle" font-size="9" fill="#c53030">the fastest rival</text></svg>')
    return "\n".join(out) + "\n"


def write(data, document):
    results, engines = data["results"], engines_of(data["results"])
    m = data["machine"]
    about = f"{m.get('model name', 'unknown processor')} (family {m.get('cpu family', '?')}, model {m.get('model', '?')}), {m['cores']} cores"
    about += "".join(f", {level} {m[level]}" for level in ("L1", "L2", "L3") if level in m) + f"; {m['system']}; {data['date']}"
    threads = sorted({t for by in results.values() for t in by})
    text = ["# Benchmarks\n\n<!-- written by bench/bench.py -->\n",
            f"Weir beside other engines on the same models, all f32, in one run: `{data['command']}`. The machine: {about}. Engines: "
            + ", ".join(f"{TITLES[e]} {data['versions'].get(e, '')}".strip() for e in engines) + ".\n",
            f"Each engine runs in a process of its own, pinned to as many cores as it has threads, with its own best settings and warm; engines take turns, {data['rounds']} round{'s' * (data['rounds'] > 1)} of "
            f"{data['seconds']:g} s, and the fastest run counts. {BUSY * data.get('realtime', False)}Every output was compared with PyTorch's; an engine that fails or is off has no time. "
            "\"Weir ahead\" is the fastest rival's time (bold) over Weir's: above 1, Weir is faster.\n",
            "![how many times as fast as the fastest rival](benchmarks.svg)\n", "The probe of `weir bench`, in the same run:\n", probes(results)]
    for t in threads:
        average, count = mean(results, t)
        text.append(f"## {t} thread{'s' if t != '1' else ''}: milliseconds a run\n")
        text.append(speeds(results, t, engines))
        if average:
            text.append(f"Geometric mean of \"Weir ahead\" over {count} models: **{average:.2f}**.\n")
    text += [note + "\n" for note in data.get("notes", [])]
    if data.get("start"):
        text += ["## Starting, ms\n", "Of Weir with one thread: `weir compile`; from its artefact, what `weir bench` tells of loading (code is generated then) and of the first run; and a whole `weir run` of "
                 "the artefact, from the start of the process to its end.\n", starts(data["start"])]
    text += ["## First run, ms\n", "Of one thread, after loading.\n", costs(results, engines, "first"), "## Loading, ms\n",
             "From the model's file to an engine that can run; Weir's includes compiling, inductor compiles in its first run, ncnn and IREE load what was compiled before.\n",
             costs(results, engines, "load"), "## Peak resident memory, MiB\n",
             "Of the whole process, Python and its libraries included where the engine is used from there; Weir's is that of `weir run`.\n", costs(results, engines, "resident"),
             "## What failed\n", failures(results)]
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("\n".join(text))
    document.with_suffix(".svg").write_text(chart(results))
