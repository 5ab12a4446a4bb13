"""The same REST requests to weir-serve and MLServer: status, and fields of the answer. protocol.py WEIR MLSERVER, each HOST:PORT, with the models of serving.py."""
import json
import sys
import urllib.error
import urllib.request

ROW = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}
NESTED = ROW | {"data": [[[[0.5] * 8] * 8]]}
REQUESTS = {
    "live": ("/v2/health/live", None), "ready": ("/v2/health/ready", None), "server metadata": ("/v2", None),
    "model ready": ("/v2/models/digits/ready", None), "ready, unknown model": ("/v2/models/nobody/ready", None),
    "model metadata": ("/v2/models/digits", None), "metadata, unknown model": ("/v2/models/nobody", None),
    "infer": ("/v2/models/digits/infer", {"id": "7", "inputs": [ROW]}), "infer, nested data": ("/v2/models/digits/infer", {"inputs": [NESTED]}),
    "infer, one output": ("/v2/models/digits/infer", {"inputs": [ROW], "outputs": [{"name": "scores"}]}),
    "infer, unknown model": ("/v2/models/nobody/infer", {"inputs": [ROW]}), "infer, no JSON": ("/v2/models/digits/infer", "{"),
    "infer, no inputs": ("/v2/models/digits/infer", {}), "infer, wrong name": ("/v2/models/digits/infer", {"inputs": [ROW | {"name": "x"}]}),
    "infer, wrong type": ("/v2/models/digits/infer", {"inputs": [ROW | {"datatype": "FP65"}]}),
    "infer, wrong shape": ("/v2/models/digits/infer", {"inputs": [ROW | {"shape": [1, 1, 8, 9]}]}),
    "infer, unknown output": ("/v2/models/digits/infer", {"inputs": [ROW], "outputs": [{"name": "x"}]}),
    "repository index": ("/v2/repository/index", {}), "load, unknown model": ("/v2/repository/models/nobody/load", {}),
}


def ask(address, path, body):
    data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    try:
        a = urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", data, {"Content-Type": "application/json"}), timeout=20)
    except urllib.error.HTTPError as e:
        a = e
    text = a.read()
    try:
        return a.status, json.loads(text)
    except ValueError:
        return a.status, text.decode()[:60]


def form(x):
    """An answer's fields."""
    if isinstance(x, list):
        return "[" + (form(x[0]) if x else "") + "]"
    if isinstance(x, dict):
        return "{" + ", ".join(k + (form(v) if isinstance(v, (dict, list)) and v else "") for k, v in sorted(x.items())) + "}"
    return "" if not isinstance(x, str) else "text"


def main():
    print("| request | weir-serve | MLServer |\n|---|---|---|")
    for name, (path, body) in REQUESTS.items():
        cells = [ask(address, path, body) for address in sys.argv[1:3]]
        print(f"| {name} | " + " | ".join(f"{status} {form(answer)}" for status, answer in cells) + " |")


if __name__ == "__main__":
    main()
