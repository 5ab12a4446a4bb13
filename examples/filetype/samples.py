"""Makes testdata/: sample files of many types, and what the package magika says about each.

    pip install magika==1.0.3 numpy==2.4.6 onnx==1.22.0
    python samples.py                  # needs go and javac as well

Half of the samples are copied from Go's own source tree, the others are written here by the usual tools. testdata/README.md says
where each one is from. expected.json holds, for each sample, magika's answer and the SHA-256 of the model's input (2,048 numbers,
little-endian int32) as the package extracts it.
"""
import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import random
import shutil
import sqlite3
import struct
import subprocess
import tarfile
import tempfile
import wave
import zipfile
import zlib
from pathlib import Path

import numpy as np
import onnx
from magika import Magika, PredictionMode
from magika.types import Seekable

HERE = Path(__file__).resolve().parent / "testdata"
SAMPLES = HERE / "samples"

# name of the sample: path in Go's tree
FROM_GO = {
    "make.bat": "src/make.bat", "build.sh": "src/make.bash", "syscalls.pl": "src/syscall/mksysnum_freebsd.pl", "goreposum.py": "lib/hg/goreposum.py",
    "gopher.js": "misc/chrome/gophertool/gopher.js", "stacks.html": "src/cmd/vendor/github.com/google/pprof/internal/driver/html/stacks.html",
    "common.css": "src/cmd/vendor/github.com/google/pprof/internal/driver/html/common.css", "hello.c": "src/debug/elf/testdata/multiple-code-sections.c",
    "libinit.c": "src/runtime/cgo/gcc_libinit.c", "unsupported.cc": "src/debug/dwarf/testdata/cppunsuptypes.cc", "asm.h": "src/runtime/asm_amd64.h",
    "preempt.s": "src/runtime/preempt_arm64.s", "reverse.go": "src/slices/iter.go", "go-sum": "src/go.sum", "Makefile": "src/cmd/vendor/golang.org/x/arch/x86/x86asm/Makefile",
    "Dockerfile": "src/crypto/internal/fips140/nistec/fiat/Dockerfile", "answer.f90": "src/cmd/cgo/internal/testfortran/testdata/testprog/answer.f90",
    "objc.m": "src/cmd/link/internal/ld/testdata/issue32233/lib/ObjC.m", "race.patch": "src/runtime/race/internal/amd64v3/race_linux.patch",
    "unify.yaml": "src/simd/archsimd/_gen/unify/testdata/unify.yaml", "events.json": "src/cmd/internal/test2json/testdata/issue23036.json",
    "policy.pem": "src/crypto/x509/testdata/policy_intermediate_mapped.pem", "readme.zip": "src/archive/zip/testdata/readme.zip",
    "headers.tar": "src/archive/tar/testdata/ustar-file-devs.tar", "sparse.tar.bz2": "src/archive/tar/testdata/gnu-sparse-many-zeros.tar.bz2",
    "video.jpeg": "src/image/testdata/video-001.q50.422.jpeg", "triangle.gif": "src/image/testdata/triangle-001.gif", "grey.png": "src/image/png/testdata/pngsuite/basn0g08.png",
    "linux-exec": "src/debug/elf/testdata/gcc-amd64-linux-exec", "relocations.obj": "src/debug/elf/testdata/go-relocation-test-gcc424-x86-64.obj",
    "windows-exec": "src/debug/pe/testdata/gcc-386-mingw-no-symbols-exec", "darwin-exec": "src/debug/macho/testdata/clang-amd64-darwin-exec-with-rpath.base64",
    "security.md": "src/cmd/vendor/github.com/ianlancetaylor/demangle/README.md", "attributes": "src/cmd/vendor/golang.org/x/telemetry/.gitattributes",
    "hello.zst": "src/internal/zstd/testdata/f2a8e35c.helloworld-11000x.zst", "rules.txt": "src/cmd/compile/internal/ssa/_gen/386splitload.rules",
}

STORIES = "A river does not ask the way. It tries every stone, and where one gives way it goes.\n"

TEXTS = {
    "schema.sql": "CREATE TABLE reading (\n  id INTEGER PRIMARY KEY,\n  station TEXT NOT NULL,\n  level REAL,\n  taken TIMESTAMP DEFAULT CURRENT_TIMESTAMP\n);\n\n"
                  "CREATE INDEX by_station ON reading (station, taken);\n\nINSERT INTO reading (station, level) VALUES ('upper weir', 1.25), ('mill', 0.8);\n\n"
                  "SELECT station, avg(level) AS mean, count(*)\nFROM reading\nWHERE level IS NOT NULL\nGROUP BY station\nHAVING count(*) > 1\nORDER BY mean DESC\nLIMIT 10;\n",
    "levels.csv": "date,station,level,flow\n" + "".join(f"2024-03-{d:02d},{s},{1 + d * 7 % 11 / 10:.2f},{d * 13 % 29}\n" for d in range(1, 29) for s in ("upper", "mill")),
    "settings.ini": "; station settings\n[station]\nname = upper weir\ninterval = 600\n\n[alarm]\nhigh = 2.4\nlow = 0.3\nmail = keeper@example.org\n\n[log]\nlevel = info\npath = /var/log/weir.log\n",
    "project.toml": "[package]\nname = \"gauge\"\nversion = \"0.3.1\"\nedition = \"2021\"\nlicense = \"Apache-2.0\"\n\n[dependencies]\nserde = { version = \"1.0\", features = [\"derive\"] }\nlog = \"0.4\"\n\n[profile.release]\nlto = true\n",
    "gauge.rs": "use std::collections::BTreeMap;\n\n/// The level of one station over time.\n#[derive(Debug, Default)]\npub struct Gauge {\n    readings: BTreeMap<u64, f64>,\n}\n\nimpl Gauge {\n"
                "    pub fn record(&mut self, second: u64, level: f64) -> Option<f64> {\n        self.readings.insert(second, level)\n    }\n\n    pub fn highest(&self) -> Option<(u64, f64)> {\n"
                "        self.readings\n            .iter()\n            .map(|(&s, &l)| (s, l))\n            .max_by(|a, b| a.1.total_cmp(&b.1))\n    }\n}\n\nfn main() {\n    let mut gauge = Gauge::default();\n"
                "    gauge.record(0, 1.25);\n    gauge.record(600, 1.5);\n    println!(\"{:?}\", gauge.highest());\n}\n",
    "Gauge.java": "package org.example.river;\n\nimport java.util.ArrayList;\nimport java.util.List;\n\npublic class Gauge {\n    private final List<Double> levels = new ArrayList<>();\n\n    public void record(double level) {\n"
                  "        if (Double.isNaN(level)) {\n            throw new IllegalArgumentException(\"no level\");\n        }\n        levels.add(level);\n    }\n\n    public double mean() {\n"
                  "        return levels.stream().mapToDouble(Double::doubleValue).average().orElse(0.0);\n    }\n\n    public static void main(String[] args) {\n        Gauge gauge = new Gauge();\n"
                  "        gauge.record(1.25);\n        System.out.println(gauge.mean());\n    }\n}\n",
    "gauge.rb": "# frozen_string_literal: true\n\nrequire 'json'\n\nmodule River\n  class Gauge\n    attr_reader :levels\n\n    def initialize(name)\n      @name = name\n      @levels = []\n    end\n\n    def <<(level)\n"
                "      raise ArgumentError, 'no level' if level.nil?\n\n      @levels << level\n      self\n    end\n\n    def mean\n      @levels.sum / @levels.size.to_f\n    end\n  end\nend\n\nputs River::Gauge.new('mill').<<(1.5).mean\n",
    "page.xml": "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<stations xmlns=\"http://example.org/river\">\n" + "".join(
        f"  <station id=\"{i}\">\n    <name>Station {i}</name>\n    <level unit=\"m\">{i * 0.3:.2f}</level>\n  </station>\n" for i in range(1, 12)) + "</stations>\n",
    "drop.svg": "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"64\" height=\"64\" viewBox=\"0 0 64 64\">\n  <title>A drop</title>\n  <path d=\"M32 4 C44 24 52 32 52 42 A20 20 0 0 1 12 42 C12 32 20 24 32 4 Z\" fill=\"#28c\"/>\n"
                "  <circle cx=\"26\" cy=\"44\" r=\"5\" fill=\"white\" opacity=\"0.6\"/>\n</svg>\n",
    "gauge.lua": "local Gauge = {}\nGauge.__index = Gauge\n\nfunction Gauge.new(name)\n  return setmetatable({ name = name, levels = {} }, Gauge)\nend\n\nfunction Gauge:record(level)\n  if level == nil then\n"
                 "    error(\"no level\", 2)\n  end\n  self.levels[#self.levels + 1] = level\nend\n\nlocal g = Gauge.new(\"mill\")\ng:record(1.25)\nprint(g.name, #g.levels)\nreturn Gauge\n",
    "gauge.ts": "interface Reading {\n  station: string;\n  level: number | null;\n}\n\nexport function highest(readings: readonly Reading[]): Reading | undefined {\n  let best: Reading | undefined;\n"
                "  for (const reading of readings) {\n    if (reading.level !== null && (best?.level ?? -Infinity) < reading.level) {\n      best = reading;\n    }\n  }\n  return best;\n}\n\n"
                "const sample: Reading[] = [{ station: 'mill', level: 1.5 }, { station: 'upper', level: null }];\nconsole.log(highest(sample)?.station);\n",
    "film.srt": "".join(f"{i}\n00:00:{i * 4:02d},000 --> 00:00:{i * 4 + 3:02d},500\n{line}\n\n" for i, line in enumerate(("The river rises.", "Open the gate!", "Too late,\nthe mill is under water.", "Then we row."), 1)),
    "paper.tex": "\\documentclass{article}\n\\usepackage{amsmath}\n\\title{Flow over a weir}\n\\author{A. Keeper}\n\\begin{document}\n\\maketitle\n\\section{Discharge}\nThe discharge over a sharp crest is\n\\begin{equation}\n"
                 "  Q = \\tfrac{2}{3} C_d b \\sqrt{2g}\\, h^{3/2},\n\\end{equation}\nwhere $b$ is the width and $h$ the head.\n\\end{document}\n",
    "story.txt": STORIES * 80,
    "indented.txt": " \n\t" * 1500 + "The text begins only after more than four thousand blanks.\n" + " " * 30,
    "exactly.txt": (STORIES * 50)[:4096],
    "one-more.txt": (STORIES * 50)[:4097],
    "short.txt": "weir\n", "accents.txt": "é\n", "latin1.txt": "gew\xe4hr", "blanks.txt": " \n" * 3000, "few.txt": "      ab\n\n     ", "empty": "",
}


def pdf():
    """One page with a line of text and right offsets."""
    stream = b"BT /F1 24 Tf 72 720 Td (The river does not ask the way.) Tj ET"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
               b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream), b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, offsets = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for n, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % o for o in offsets)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)


def archive(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in files.items():
            z.writestr(zipfile.ZipInfo(name, (2024, 3, 1, 12, 0, 0)), content)
    return out.getvalue()


def sqlite():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.db")
        with sqlite3.connect(path) as db:
            db.executescript(TEXTS["schema.sql"])
        db.close()
        return Path(path).read_bytes()


def sound():
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(8000)
        w.writeframes(np.int16(9000 * np.sin(np.arange(4000) * 0.35)).tobytes())
    return out.getvalue()


def java(directory):
    subprocess.run(["javac", "--release", "8", "-Xlint:-options", "-d", directory, str(SAMPLES / "Gauge.java")], check=True)
    return (Path(directory) / "org/example/river/Gauge.class").read_bytes()


def saved(save, *arguments, **named):
    out = io.BytesIO()
    save(out, *arguments, **named)
    return out.getvalue()


def bitmap():
    pixels = b"".join(bytes((x * 8, y * 8, 128)) for y in range(32) for x in range(32))
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 32, 32, 1, 24, 0, len(pixels), 2835, 2835, 0, 0) + pixels


def tarball():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, text in list(TEXTS.items())[:3]:
            info = tarfile.TarInfo("river/" + name)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def webassembly():
    """A module that exports add(i32, i32) i32."""
    def section(kind, body):
        return bytes((kind, len(body))) + body
    return (b"\0asm\1\0\0\0" + section(1, b"\1\x60\2\x7f\x7f\1\x7f") + section(3, b"\1\0") + section(7, b"\1\3add\0\0") +
            section(10, b"\1\7\0\x20\0\x20\1\x6a\x0b") + section(0, b"\4name\1\6\1\0\3add"))


def made():
    text = TEXTS["story.txt"].encode()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        compiled = java(folder)
        source = Path(folder) / "gauge.py"
        source.write_text("def mean(levels):\n    return sum(levels) / len(levels)\n\n\nclass Gauge:\n    '''One station.'''\n    levels = []\n")
        code = compile(source.read_text(), "gauge.py", "exec")
    import importlib.util
    import marshal
    onnx_model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]>\ng (float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}> { h = Mul (x, w)  y = Softmax (h) }')
    return {
        "page.pdf": pdf(), "texts.zip": archive(TEXTS), "classes.jar": archive({"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nMain-Class: org.example.river.Gauge\r\n\r\n", "org/example/river/Gauge.class": compiled}),
        "Gauge.class": compiled, "river.db": sqlite(), "tone.wav": sound(), "square.bmp": bitmap(), "three.tar": tarball(), "add.wasm": webassembly(),
        "story.gz": gzip.compress(text, mtime=0), "story.bz2": bz2.compress(text), "story.xz": lzma.compress(text), "story.zlib": zlib.compress(text),
        "levels.npy": saved(np.save, np.arange(60, dtype=np.float32).reshape(5, 12)), "levels.npz": saved(np.savez, a=np.arange(9), b=np.eye(3)),
        "table.pickle": pickle.dumps({"mill": [1.25, 1.5], "upper": list(range(40)), "names": {"a", "b"} and ["a", "b"]}, protocol=4),
        "gauge.pyc": importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, 0, 120) + marshal.dumps(code), "tiny.onnx": onnx_model.SerializeToString(),
        "random": rng.randbytes(9000), "random-words": "".join(rng.choice("qwxzjkvpbmfgh ,;") for _ in range(3000)).encode(),
        "utf16.txt": ("\ufeff" + STORIES * 5).encode("utf-16-le"), "invalid": b"\xff\xfe\x00\x01\x02",
    }


def features(path, magika):
    """The model's input for the file, or None if the package does not ask the model."""
    config = magika._model_config
    with open(path, "rb") as f:
        result, parts = magika._get_result_or_features_from_seekable(Seekable(f), path)
        return None if result else np.array(parts.beg[:config.beg_size] + parts.end[-config.end_size:], "<i4")


def main():
    shutil.rmtree(SAMPLES, ignore_errors=True)
    SAMPLES.mkdir(parents=True)
    goroot = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    version = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    for name, path in FROM_GO.items():
        content = Path(goroot, path).read_bytes()
        (SAMPLES / name).write_bytes(base64.b64decode(content) if path.endswith(".base64") else content)
    for name, text in TEXTS.items():
        (SAMPLES / name).write_bytes(text.encode("latin-1" if name.startswith("latin1") else "utf-8"))
    for name, content in made().items():
        (SAMPLES / name).write_bytes(content)

    modes = {mode: Magika(prediction_mode=mode) for mode in (PredictionMode.HIGH_CONFIDENCE, PredictionMode.MEDIUM_CONFIDENCE, PredictionMode.BEST_GUESS)}
    rows, labels = [], set()
    for path in sorted(SAMPLES.iterdir()):
        answers = {mode: magika.identify_path(path).prediction for mode, magika in modes.items()}
        first = answers[PredictionMode.HIGH_CONFIDENCE]
        tokens = features(path, modes[PredictionMode.HIGH_CONFIDENCE])
        rows.append({"file": path.name, "label": str(first.output.label), "medium": str(answers[PredictionMode.MEDIUM_CONFIDENCE].output.label),
                     "guess": str(answers[PredictionMode.BEST_GUESS].output.label), "model": str(first.dl.label), "score": first.score,
                     "description": first.output.description, "mime": first.output.mime_type, "text": first.output.is_text,
                     "input": None if tokens is None else hashlib.sha256(tokens.tobytes()).hexdigest()})
        labels.add(rows[-1]["label"])
    with open(HERE / "expected.json", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    with open(HERE / "README.md", "w", encoding="utf-8") as f:
        f.write("# Samples\n\n`../samples.py` writes this folder. `expected.json` is what the package magika 1.0.3 says about each file.\n\n"
                f"From the source tree of {version}, under the licence in `GO-LICENSE`:\n\n| sample | file |\n|---|---|\n")
        f.writelines(f"| {name} | {path}{' (decoded)' if path.endswith('.base64') else ''} |\n" for name, path in FROM_GO.items())
        f.write("\nAll others were made for this example, and have the repository's licence.\n")
    shutil.copyfile(Path(goroot, "LICENSE"), HERE / "GO-LICENSE")
    print(f"{len(rows)} files, {len(labels)} types, {sum(p.stat().st_size for p in SAMPLES.iterdir())} bytes")


if __name__ == "__main__":
    main()
