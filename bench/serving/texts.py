"""Texts a second, and processor time a text, of servers with OpenAI's /v1/embeddings: weir-serve beside FastAPI with sentence-transformers.

Usage: texts.py NAME=PORT:PID ...                        measures servers that run
       texts.py --rival FOLDER PORT                      serves a folder by FastAPI and sentence-transformers (its Python needs both, and torch)

Each server serves the same model under the name minilm. They are asked one after the other in each of two turns; of texts a second the better turn counts, of processor time the
sum. Texts have 3 to 100 words.
"""
import http.client
import json
import os
import pathlib
import random
import sys
import threading
import time

WORDS = ("of a to and in is for the river station baker paints engineers measured bridge museum rain hills bread leaves train music window garden letter "
         "winter morning").split()
SETTINGS = ((1, 1), (8, 1), (64, 1), (1, 64))  # clients, texts of a request
SECONDS = 4


def serve(folder, port):
    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer
    model, app = SentenceTransformer(folder, device="cpu"), FastAPI()

    @app.post("/v1/embeddings")
    def embeddings(body: dict):
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        return {"object": "list", "model": body["model"], "data": [{"object": "embedding", "index": i, "embedding": v.tolist()}
                                                                   for i, v in enumerate(model.encode(texts, show_progress_bar=False))]}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def processor(pid):
    """The seconds of processor time that a process has had."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port, clients, each, texts):
    """The texts that were computed, the seconds, and the median of the requests' seconds."""
    count, took, began = [0] * clients, [], time.time()

    def client(at):
        choice, connection = random.Random(at).choice, http.client.HTTPConnection("127.0.0.1", port)
        while time.time() < began + SECONDS:
            sent = time.time()
            connection.request("POST", "/v1/embeddings", json.dumps({"model": "minilm", "input": [choice(texts) for _ in range(each)]}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                sys.exit(f"status {answer.status}: {body[:300]}")
            took.append(time.time() - sent)
            count[at] += each

    threads = [threading.Thread(target=client, args=(at,)) for at in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(count), time.time() - began, sorted(took)[len(took) // 2]


def main():
    if sys.argv[1] == "--rival":
        return serve(sys.argv[2], int(sys.argv[3]))
    servers = {name: tuple(map(int, rest.split(":"))) for name, _, rest in (a.partition("=") for a in sys.argv[1:])}
    make = random.Random(1)
    texts = [" ".join(make.choice(WORDS) for _ in range(make.choice((3, 5, 8, 12, 20, 35, 60, 100)))) for _ in range(4000)]
    for clients, each in SETTINGS:
        best, spent, done = {}, dict.fromkeys(servers, 0), dict.fromkeys(servers, 0)
        for _ in range(2):
            for name, (port, pid) in servers.items():
                before = processor(pid)
                count, seconds, median = load(port, clients, each, texts)
                spent[name], done[name] = spent[name] + processor(pid) - before, done[name] + count
                best[name] = max(best.get(name, (0, 0)), (count / seconds, median))
        print(f"{clients} clients, {each} texts a request: " + "; ".join(
            f"{name} {best[name][0]:.0f} texts/s, p50 {best[name][1] * 1e3:.1f} ms, {spent[name] / done[name] * 1e3:.1f} ms of a processor a text" for name in servers))


if __name__ == "__main__":
    main()
