"""Writes the benchmarks' document from the results that bench.py collected, and its pictures from the document's tables."""
import math
import pathlib
import sys

import parts
import picture

TITLES = {"weir": "Weir", "weir_budget": "Weir with a budget", "weir_bf16": "Weir bf16", "weir_int8": "Weir int8", "ort": "ONNX Runtime", "ort_int8": "ONNX Runtime int8",
          "openvino": "OpenVINO f32", "openvino_bf16": "OpenVINO bf16", "openvino_int8": "OpenVINO int8", "ncnn": "ncnn", "iree": "IREE",
          "inductor": "PyTorch inductor", "torch": "PyTorch eager", "gomlx": "GoMLX (Go)"}
BUSY = "The machine did other work at the same time; the measured processes had real-time priority. "


def number(x):
    if x is None:
        return "–"
    digits = 4 if x < 0.1 else 3 if x < 1 else 2 if x < 10 else 1 if x < 100 else 0
    return f"{x:.{digits}f}"


def precision(engine):
    return engine.partition("_")[2]


def best(cells, own):
    """The time and name of the fastest rival of Weir's own engine; engines of another precision are not rivals."""
    times = [(c["min"], e) for e, c in cells.items() if not e.startswith("weir") and precision(e) == precision(own) and "min" in c]
    return min(times, default=None)


def ratio(cells, own):
    rival, time = best(cells, own), cells.get(own, {}).get("min")
    return rival[0] / time if rival and time else None


def own_of(results):
    """Weir's own engine in a part: the first."""
    return next((e for e in engines_of(results) if e.startswith("weir")), "weir")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def engines_of(results):
    found = []
    for by_threads in results.values():
        for cells in by_threads.values():
            found += [e for e in cells if e not in found]
    return found


def speeds(results, threads):
    engines, own, rows = engines_of(results), own_of(results), []
    counted = any("gflops" in c for by in results.values() for cells in by.values() for c in cells.values())
    for name, by_threads in results.items():
        cells = by_threads.get(threads)
        if not cells:
            continue
        r, rival = ratio(cells, own), best(cells, own)
        row = [name]
        for e in engines:
            text = number(cells.get(e, {}).get("min"))
            row.append(f"**{text}**" if rival and e == rival[1] else text)
        gflops = cells.get(own, {}).get("gflops")
        rows.append(row + [f"{r:.2f}" if r else "–"] + ([f"{gflops:.0f}" if gflops else "–"] if counted else []))
    return table(["model", *(TITLES[e] for e in engines), "Weir ahead"] + ["GFLOP/s"] * counted, rows)


def tokens(results, threads):
    """Tokens per second, and Weir's share of the memory rate that its probe reads."""
    engines, rows = engines_of(results), []
    for name, by_threads in results.items():
        cells, row = by_threads.get(threads, {}), [name]
        for e in engines:
            cell = cells.get(e, {})
            text = number(1e3 / cell["min"]) if "min" in cell else "–"
            if "min" in cell and "probe" in cell:
                memory = cell["probe"]["memory"][-1]["all_gb_per_s"] * 1e6  # bytes a millisecond
                text += f" ({100 * cell['moved'] / cell['min'] / memory:.0f} %)"
            row.append(text)
        rows.append(row)
    return table(["model", *(TITLES[e] for e in engines)], rows)


def summary(results, threads):
    """A sentence with the geometric mean of the ratios, and the numbers of models and of slower ones."""
    own = own_of(results)
    ratios = [r for by in results.values() if (r := ratio(by.get(threads, {}), own))]
    if not ratios:
        return ""
    average = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"Geometric mean of \"Weir ahead\" over {len(ratios)} models: **{average:.2f}**; below 0.97 in {sum(r < 0.97 for r in ratios)}.\n"


def costs(results, key):
    engines, rows = engines_of(results), []
    for name, by_threads in results.items():
        cells = by_threads[min(by_threads)]
        rows.append([name] + [number(cells[e][key]) if "min" in cells.get(e, {}) else "–" for e in engines])
    return table(["model", *(TITLES[e] for e in engines)], rows)


def starts(start):
    rows = [[name, number(s["compile"]), number(s["artefact"]), number(s["load"]), number(s["start"]), number(s["first"]), number(s["steady"])] for name, s in start.items()]
    return table(["model", "compile", "artefact, MiB", "load", "start to first result", "first run", "fastest run"], rows)


def compiling(results):
    """Compile times of models with named sizes, and with the sizes given."""
    rows = []
    for name, by_threads in results.items():
        cell = by_threads[min(by_threads)].get(own_of(results), {})
        if "fixed" in cell:
            rows.append([name, str(len(cell["dims"])), number(cell["compile"]), number(cell["fixed"]), f"{cell['compile'] / cell['fixed']:.2f}"])
    return table(["model", "named sizes", "compile, ms", "with the sizes given", "ratio"], rows) if rows else ""


def probes(data):
    """The best of the probes during Weir's measurements, for each number of threads."""
    found = {}
    for results in data.values():
        for by_threads in results.values():
            for threads, cells in by_threads.items():
                for cell in cells.values():
                    probe = cell.get("probe")
                    if probe and (threads not in found or probe["all_gflops"] > found[threads]["all_gflops"]):
                        found[threads] = probe
    lines = []
    for threads, p in sorted(found.items()):
        reads = ", ".join(f"{m['range_bytes'] / 1024:.0f} KiB {m['all_gb_per_s']:.0f}" for m in p["memory"])
        lines.append(f"- {threads} thread{'s' * (threads != '1')}: {p['all_gflops']:.1f} GFLOP/s of f32 multiply-adds ({p['cpu']}); reading, GB/s: {reads}")
    return "\n".join(lines) + "\n"


def failures(data):
    lines = []
    for part, results in data.items():
        for name, by_threads in results.items():
            for e in engines_of({name: by_threads}):
                texts = {c[e][key] for c in by_threads.values() for key in ("failed", "refused") if key in c.get(e, {})}
                lines += [f"- {part}, {name}, {TITLES[e]}: {text}".replace("|", "\\|") for text in sorted(texts)]
    return "\n".join(lines) + "\n" if lines else "None.\n"


def unlike(data):
    """The runs whose memory differed from the prediction."""
    lines = []
    for part, results in data.items():
        for name, by_threads in results.items():
            for threads, cells in by_threads.items():
                lines += [f"- {part}, {name}, {threads} threads: predicted {c['predicted']}, measured {c['measured']}"
                          for c in cells.values() if c.get("predicted") != c.get("measured")]
    return "\n".join(lines) + "\n" if lines else "Predicted and measured bytes are equal in every run of Weir.\n"


def chart(document, part):
    """Draws a part's tables in a document: how many times as fast as the fastest rival Weir is, with the milliseconds of both. None if there are no such tables."""
    found = {threads: picture.rows(document, f"{part.title}, {threads} thread{'s' * (threads > 1)}: milliseconds a run") for threads in (1, 2)}
    models = {row["model"]: {} for table in found.values() for row in table}
    for threads, table in found.items():
        for row in table:
            rival = next(((name, cell.strip("*")) for name, cell in row.items() if cell.startswith("**")), None)
            if rival and row.get("Weir", "–") != "–":
                models[row["model"]][threads] = (row["Weir"], *rival, float(row["Weir ahead"]))
    models = {name: cells for name, cells in models.items() if cells}
    if not models:
        return None
    ratios = [cells[-1] for by in models.values() for cells in by.values()]
    low, high = math.floor(math.log2(min(ratios + [0.7]))), math.ceil(math.log2(max(ratios + [2])))
    left, wide, bar, head = 410, 400, 15, 66
    x = lambda ratio: left + wide * (math.log2(ratio) - low) / (high - low)
    deep = head + sum(bar * len(by) + 8 for by in models.values())
    out = [picture.text(16, 24, f"{part.title}: Weir beside the fastest rival"), picture.text(250, head - 12, "Weir, ms", "end", "soft"),
           picture.text(258, head - 12, "rival, ms", kind="soft")]
    for i, threads in enumerate(t for t in (1, 2) if found[t]):
        out += [f'<rect x="{left + 90 * i}" y="33" width="10" height="10" style="fill: var(--s{threads - 1})"/>',
                picture.text(left + 14 + 90 * i, 42, f"{threads} thread{'s' * (threads > 1)}")]
    for power in range(low, high + 1):
        out += [picture.line(x(2 ** power), head - 6, x(2 ** power), deep), picture.text(x(2 ** power), deep + 16, f"{2.0 ** power:g}×", "middle", "soft")]
    y = head
    for name, by in models.items():
        out.append(picture.text(16, y + bar * len(by) / 2 + 4, name))
        for threads, (own, rival, time, ratio) in by.items():
            begin, end = sorted([x(1), x(ratio)])
            out += [picture.text(250, y + 11, own, "end"), picture.text(258, y + 11, f"{time} {rival.removesuffix(' f32')}"),
                    f'<rect x="{begin:.1f}" y="{y + 2:.1f}" width="{max(1, end - begin):.1f}" height="{bar - 4}" style="fill: var(--s{threads - 1})"/>',
                    picture.text(end + 5, y + 11, f"{ratio:.2f}")]
            y += bar
        y += 8
    out += [picture.line(x(1), head - 6, x(1), deep, "line"),
            picture.text(left + wide / 2, deep + 34, "times as fast as the fastest rival: right of 1× Weir is faster, left of it the rival is", "middle", "soft")]
    return picture.page(left + wide + 50, deep + 46, f"{part.title}: how many times as fast as the fastest rival Weir is, on one and two threads", out)


# The pictures, by the part that each is of, beside the document.
PICTURES = {"exported": "benchmarks.svg", "sweep": "benchmarks_sweep.svg"}


def draw(document):
    """Draws the document's tables into the pictures beside it."""
    for name, file in PICTURES.items():
        drawn = chart(document.read_text(), next(p for p in parts.PARTS if p.name == name))
        if drawn:
            (document.parent / file).write_text(drawn)


def section(part, results):
    """The tables of a part."""
    text = [f"## {part.title}\n", part.about + "\n"]
    if part.name in PICTURES:
        text.append(f"![how many times as fast as the fastest rival]({PICTURES[part.name]})\n")
    threads = sorted({t for by in results.values() for t in by})
    for t in threads:
        unit = {"decode": "tokens a second", "training": "milliseconds a step"}.get(part.name, "milliseconds a run")
        text += [f"### {part.title}, {t} thread{'s' * (t != '1')}: {unit}\n", (tokens if part.name == "decode" else speeds)(results, t)]
        if part.name != "decode":
            text.append(summary(results, t))
    if part.name == "training":
        text += ["### Training: MiB of tensors\n", "The most bytes that are live in a step, including parameters and the optimiser's memory. Weir's number is its certificate, which is known before "
                 "the run and also counts machine code and scratch; PyTorch's is recorded by its profiler. GoMLX has no count of its buffers.\n", sizes(results, tensors),
                 "### Training: MiB that the process grew by\n", "The growth from the start to the peak of a step, including each engine's heap and compiler.\n", sizes(results, resident)]
    return text + [f"### {part.title}: what failed, and budgets that were refused\n", failures({part.name: results})] * (part.name == "training")


def tensors(cell):
    return cell.get("certificate", cell.get("tensors"))


def resident(cell):
    return cell["resident"] * 2**20


def sizes(results, size):
    """A table of MiB for one number of threads."""
    engines, rows = engines_of(results), []
    for name, by_threads in results.items():
        cells = by_threads[min(by_threads)]
        found = [size(cells[e]) if "min" in cells.get(e, {}) else None for e in engines]
        rows.append([name] + [number(bytes / 2**20) if bytes else "–" for bytes in found])
    return table(["model", *(TITLES[e] for e in engines)], rows)


def origin(data):
    """The command and the machine of the figures."""
    m = data["machine"]
    about = f"{m.get('model name', 'unknown processor')} (family {m.get('cpu family', '?')}, model {m.get('model', '?')}), {m['cores']} core{'s' * (m['cores'] != 1)}"
    about += "".join(f", {level} {m[level]}" for level in ("L1", "L2", "L3") if level in m) + f"; {m['system']}; {data['date']}"
    return (f"`{data['command']}`. The machine: {about}. Engines: " + ", ".join(f"{TITLES[e].removesuffix(' f32')} {version}".strip() for e, version in data["versions"].items()) + ".\n")


def update(data, document):
    """Writes the sections of the measured parts, each with its command, into a document that keeps the rest."""
    head, *blocks = document.read_text().split("\n## ")
    for part in parts.PARTS:
        if part.name not in data["results"]:
            continue
        text = section(part, data["results"][part.name])
        text.insert(1, f"Made by {origin(data)}\nEach engine runs in a process of its own, pinned to as many cores as it has threads; engines take turns, {data['rounds']} "
                    f"round{'s' * (data['rounds'] > 1)} of {data['seconds']:g} s, and the fastest run counts. {BUSY * data.get('realtime', False)}\n".replace(" \n", "\n"))
        block = "\n".join(t for t in text if t).removeprefix("## ")
        titles = [b.partition("\n")[0] for b in blocks]
        if part.title in titles:
            blocks[titles.index(part.title)] = block
        else:
            later = [p.title for p in parts.PARTS[parts.PARTS.index(part) + 1:]] + ["Starting, ms", "Memory"]
            blocks.insert(next((i for i, t in enumerate(titles) if t in later), len(blocks)), block)
    document.write_text("\n## ".join([head, *blocks]))


def write(data, document):
    results = data["results"]
    engines = [e for part in results.values() for e in engines_of(part)]
    text = ["# Benchmarks\n\n<!-- written by bench/bench.py -->\n",
            "Weir and other engines on the same models, measured by " + origin(data),
            f"Each engine runs in a process of its own, pinned to as many cores as it has threads, with its own best settings, after warming up; engines take turns, {data['rounds']} round{'s' * (data['rounds'] > 1)} of "
            f"{data['seconds']:g} s, and the fastest run counts. {BUSY * data.get('realtime', False)}Every output was compared with PyTorch's, or, for models of other tools, with that of ONNX Runtime without "
            "optimisations; an engine that fails or whose output differs has no time. \"Weir ahead\" is the time of the fastest rival of the same precision (bold) divided by Weir's: above 1, Weir is faster.\n",
            "The machine's speed, measured by the probe of `weir bench` in the same run:\n", probes(results)]
    for part in parts.PARTS:
        if part.name in results:
            text += section(part, results[part.name])
    if data.get("start"):
        text += ["## Starting, ms\n", "The times of Weir with one thread: `weir compile`; `weir bench` of its artefact, for loading (which generates code) and the first run; and `weir run` of "
                 "the artefact, from the start of the process to its end.\n", starts(data["start"])]
    for name in ("exported", "sweep"):
        if name not in results:
            continue
        part, title = results[name], next(p.title for p in parts.PARTS if p.name == name)
        text += [f"## {title}: first run, ms\n", "With one thread, after loading.\n", costs(part, "first"), f"## {title}: loading, ms\n",
                 "The time from the model's file to an engine that can run. Weir's includes compilation; inductor compiles in its first run; ncnn and IREE load models that were compiled before.\n",
                 costs(part, "load"), f"## {title}: peak resident memory, MiB\n",
                 "The memory of the whole process, including Python and its libraries if the engine runs in Python. Weir's process is `weir run`.\n", costs(part, "resident")]
        if named := compiling(part):
            text += [f"## {title}: compiling for named sizes\n", "With one thread, compared with the same model and `--dim` for each of its sizes.\n", named]
    text += ["## Memory\n", unlike(results), "## What failed\n", failures({name: part for name, part in results.items() if name != "training"})]
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("\n".join(t for t in text if t))
    draw(document)
    assert set(engines) <= set(TITLES), engines


if __name__ == "__main__":  # python bench/report.py docs/benchmarks.md draws the pictures again
    draw(pathlib.Path(sys.argv[1]))
