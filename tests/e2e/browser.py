"""A page in headless Chromium, by its DevTools protocol over a pipe: what it logs as errors, what a script in it says, pictures."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
path = next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, width=1440, height=900):
        to_read, self.to = os.pipe()
        self.come_from, to_write = os.pipe()
        self.home = tempfile.mkdtemp(prefix="ditrace-browser.")

        def ends():
            # --remote-debugging-pipe: commands at 3, answers at 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={self.home}", f"--window-size={width},{height}"],
            preexec_fn=ends,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.rest, self.last, self.problems, self.loaded, self.requests = b"", 0, [], False, []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.come_from, 1 << 20)
            assert more, "the browser has ended"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        m = json.loads(text)
        method, about = m.get("method"), m.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(about["exceptionDetails"].get("exception", {}).get("description", str(about)))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(about["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.problems.append(str(about["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return m

    def call(self, method, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.last:
                assert "error" not in m, (method, m["error"])
                return m["result"]

    def open(self, url):
        self.loaded = False
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.message()

    def says(self, script):
        """What the JavaScript expression is; a promise is waited for."""
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def picture(self, file):
        with open(file, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)
