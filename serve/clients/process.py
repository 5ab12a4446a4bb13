"""A weir-serve process on free ports of loopback."""
import pathlib
import re
import subprocess
import threading
import time
import urllib.request


class Server:
    """A server that is ready; leaving the context ends it, and checks that it ended by itself."""

    def __init__(self, command, folder, *flags):
        self.log = []
        self.process = subprocess.Popen([command, folder, "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cache", "", *flags],
                                        stderr=subprocess.PIPE, text=True)
        self.ports = {}
        threading.Thread(target=self.read, daemon=True).start()
        wanted = {"rest", "grpc"} | ({"management"} if "--manage" in flags else set())
        self.until(lambda: wanted <= set(self.ports))
        self.until(lambda: any("msg=ready" in line for line in self.log))
        self.rest, self.grpc = (f"127.0.0.1:{self.ports[name]}" for name in ("rest", "grpc"))

    def read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if at := re.search(r"for=(\w+) address=\S*:(\d+)", line):
                self.ports[at[1]] = int(at[2])

    def until(self, true):
        for _ in range(3000):
            if true():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise SystemExit("the server did not start:\n" + "".join(self.log))

    def resident(self):
        """The bytes that the process holds, and the most that it held."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return tuple(int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024 for name in ("VmRSS", "VmHWM"))

    def get(self, path):
        return urllib.request.urlopen(f"http://{self.rest}{path}", timeout=10).read()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        try:
            code = self.process.wait(40)
        finally:
            self.process.kill()
        if kind is None and code != 0:
            raise SystemExit(f"the server ended with {code}:\n" + "".join(self.log[-40:]))
