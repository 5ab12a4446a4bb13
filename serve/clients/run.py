"""Drives weir-serve by clients that others wrote, and holds the table of docs/serving-clients.md.

    run.py WEIR_SERVE GRPCURL [--rewrite] [--kserve PYTHON]

GRPCURL may be empty: its column stays as it is. PYTHON has the KServe SDK; without it, the SDK's table stays as it is.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import curl
import models
import openai_client
import tei_client
import triton
from process import Server

DOCUMENT = pathlib.Path(__file__).parent / "../../docs/serving-clients.md"


def drive(check, *arguments):
    """What a check says: nothing, a refusal's text or NONE; an exception if it fails."""
    try:
        return check(*arguments)
    except Exception as e:
        traceback.print_exc()
        return e


def example(server):
    """Runs the Python of docs/serving.md against the server."""
    printed = []
    for text in (DOCUMENT.parent / "serving.md").read_text().split("```python\n")[1:]:
        code, _, _ = text.partition("```")
        exec(code.replace("localhost:8000", server.rest).replace("dimensions=128", "dimensions=8"), {"print": lambda *all: printed.append(all)})
    if len(printed) != 2 or printed[0][0].shape != (1, 10) or printed[1][:2] != (2, 8):
        sys.exit(f"the examples of docs/serving.md print {printed}")


def columns(server, grpcurl):
    """By column, by row: what the checks say."""
    found = {}
    for client in triton.clients(server):
        found[client.kind] = {name: drive(check, client) for name, check in (triton.RPCS | triton.FEATURES).items()}
        client.close()
    if grpcurl:
        calls = drive(curl.calls, grpcurl, server)
        found["grpcurl"] = {"reflection": calls} if isinstance(calls, Exception) else calls
    return found


def table(found, rows, notes):
    lines = ["| | " + " | ".join(f"`{c}`" for c in found) + " |", "|---" * (len(found) + 1) + "|"]
    for row in rows:
        cells = []
        for column in found.values():
            said = column.get(row, triton.NONE)
            if said is None:
                said = "works"
            elif said != triton.NONE:
                if said not in notes:
                    notes.append(said)
                said = f"refused ({notes.index(said) + 1})"
            cells.append(said)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def between(text, name, new):
    """The document with a generated part replaced; new is empty if the part stays."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    head, _, rest = text.partition(begin)
    old, _, tail = rest.partition(end)
    return head + begin + (new or old) + end + tail


def main():
    p = argparse.ArgumentParser()
    p.add_argument("server")
    p.add_argument("grpcurl")
    p.add_argument("--rewrite", action="store_true")
    p.add_argument("--kserve", default="")
    a = p.parse_args()
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "models"
        models.folder(root)
        with Server(a.server, root, "--mode", "none", "--limit", "1GiB") as server:
            example(server)
            openai_client.check(server.rest, "minilm", ["a text", "another one", "", "naïve 東京"])
            tei_client.check(server.rest, ["a text", "another one", "", "naïve 東京"])
            found = columns(server, a.grpcurl)
            kserve = json.loads(subprocess.run([a.kserve, pathlib.Path(__file__).parent / "kserve_sdk.py", server.rest, server.grpc], check=True,
                                               stdout=subprocess.PIPE).stdout) if a.kserve else {}
    wrong = [(column, row, said) for column, rows in (found | kserve).items() for row, said in rows.items() if isinstance(said, Exception)]
    for column, row, said in wrong:
        print(f"{column}, {row}: {type(said).__name__}: {said}")
    if wrong:
        sys.exit(f"{len(wrong)} checks of the clients failed")
    text = DOCUMENT.read_text()
    new = text
    if a.grpcurl:
        notes = []
        parts = [table(found, triton.RPCS, notes), table({k: v for k, v in found.items() if k != "grpcurl"}, triton.FEATURES, notes)]
        parts.append("\n".join(f"{i + 1}. {note}" for i, note in enumerate(notes)))
        new = between(new, "clients", "\n\n".join(parts))
    if kserve:
        new = between(new, "KServe SDK", table(kserve, next(iter(kserve.values())), []))
    if a.rewrite:
        DOCUMENT.write_text(new)
    elif new != text:
        sys.exit(f"{DOCUMENT.resolve()} is not what the clients show; make serve-rewrite writes it")
    count = sum(len(rows) for rows in (found | kserve).values())
    print(f"   {count} cells of client and call, as docs/serving-clients.md has them, in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
