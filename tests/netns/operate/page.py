# SPDX-License-Identifier: Apache-2.0
"""page.py URL FOLDER: the dashboard in headless Chromium, by the DevTools protocol. Expects a pool `score` with the
backends a and b, an error rate while FOLDER/loaded exists, and none without. Writes screenshots to FOLDER.

Prints one line `ok TEXT` or `FAIL TEXT: WHY` for each check."""
import asyncio
import base64
import json
import os
import subprocess
import sys
import time
import zlib

import websockets

URL, FOLDER = sys.argv[1:3]
POINTS = int(os.environ.get("PAGE_POINTS", "12"))  # seconds of history before the screenshots
CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--remote-debugging-port=0", "--user-data-dir=" + FOLDER + "/profile", "about:blank"]
failed = 0


def report(text, why=None):
    global failed
    failed += why is not None
    print("ok " + text if why is None else "FAIL %s: %s" % (text, why), flush=True)


class Page:
    def __init__(self, ws):
        self.ws, self.number, self.errors = ws, 0, []

    async def call(self, method, **params):
        self.number += 1
        await self.ws.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            o = json.loads(await asyncio.wait_for(self.ws.recv(), 60))
            if o.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(o["params"])[:600])
            self.errors = [e for e in self.errors if "size=many" not in e]  # refused on purpose
            if o.get("id") == self.number:
                if "error" in o:
                    raise RuntimeError(o["error"])
                return o["result"]

    async def value(self, expression):
        o = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in o:
            raise RuntimeError(o["exceptionDetails"])
        return o["result"].get("value")

    async def until(self, text, expression, seconds=40):
        end, found = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                found = await self.value(expression)
            except RuntimeError as e:  # not loaded yet
                found = e
            if found and not isinstance(found, RuntimeError):
                report(text)
                return
            await asyncio.sleep(.3)
        report(text, "found %r" % found)

    async def screenshot(self, name, width, height, dark):
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        await self.call("Emulation.setEmulatedMedia",
                        features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        await asyncio.sleep(1.5)
        o = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=width > 1000)
        png = base64.b64decode(o["data"])
        with open("%s/%s.png" % (FOLDER, name), "wb") as f:
            f.write(png)
        colors, background = look_at(png)
        report("%s is not blank" % name, None if len(colors) > 200 else "%d colours" % len(colors))
        report("%s has its background" % name, None if (sum(background) < 200) == dark else "found %r" % (background,))
        wide = await self.value("document.documentElement.scrollWidth")
        report("%s needs no sideways scrolling" % name, None if wide <= width else "%d of %d pixels" % (wide, width))
        drawn = await self.value(DRAWN)
        report("%s has four charts with lines" % name, None if drawn == 4 else "found %r" % drawn)

    async def save_top(self, name, height):
        """The upper part, as README shows it."""
        await self.call("Emulation.setDeviceMetricsOverride", width=1280, height=1600, deviceScaleFactor=1, mobile=False)
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        await asyncio.sleep(1.5)
        clip = {"x": 0, "y": 0, "width": 1280, "height": await self.value(height), "scale": 1}
        o = await self.call("Page.captureScreenshot", format="png", clip=clip)
        with open("%s/%s.png" % (FOLDER, name), "wb") as f:
            f.write(base64.b64decode(o["data"]))


def look_at(png):
    """Returns the set of colours, and that of the first pixel, of a PNG of 8 bits without interlacing."""
    at, data, width, depth = 8, b"", 0, 0
    while at < len(png):
        size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
        if kind == b"IHDR":
            width, depth = int.from_bytes(png[at + 8:at + 12], "big"), {2: 3, 6: 4}[png[at + 17]]
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    raw, line = zlib.decompress(data), bytearray(width * depth)
    colors, first = set(), None
    for start in range(0, len(raw), width * depth + 1):
        kind, row = raw[start], bytearray(raw[start + 1:start + 1 + width * depth])
        for i, v in enumerate(row):
            a, b = row[i - depth] if i >= depth else 0, line[i]
            c = line[i - depth] if i >= depth else 0
            if kind == 4:
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                row[i] = (v + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
            else:
                row[i] = (v + (0, a, b, (a + b) // 2)[kind]) & 255
        line = row
        colors.update(bytes(row[i:i + 3]) for i in range(0, len(row), depth))
        first = first or tuple(row[:3])
    return colors, first


# Charts whose canvas has pixels of the first series' colour.
DRAWN = """(() => { let n = 0;
    for (const c of document.querySelectorAll(".uplot canvas")) {
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
        for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
        n += seen.size > 20;
    }
    return n; })()"""
ROW = """((id, name) => { const r = [...document.querySelectorAll("#" + id + " tr")].find(r => r.cells[0].textContent === name);
    return r ? [...r.cells].map(c => c.textContent) : []; })"""

OVERRIDE = """((target, name, value) => { const f = document.querySelector("#overrides form"), [t, n, v] = f.elements;
    t.value = target; t.onchange(); n.value = name; v.value = value; f.requestSubmit(); })"""


async def check_page(page):
    for domain in ("Page", "Runtime", "Log"):
        await page.call(domain + ".enable")
    await page.call("Page.navigate", url=URL)
    await page.until("the page is connected", "document.getElementById('state').textContent === 'ready'")
    await page.until("it shows requests", "parseFloat(document.querySelector('#tiles b').textContent) > 0")
    await page.until("the pool has a rate, errors and a batch",
                     ROW + "('pools', 'score').slice(1, 7).filter(t => parseFloat(t) > 0).length >= 5")
    await page.until("the pool has its statuses", ROW + "('pools', 'score').join().includes('500 ×')")
    await page.until("a backend is up, with a rate", "(r => r[1] === 'up' && parseFloat(r[2]) > 0)(" + ROW + "('backends', 'score/a'))")
    await page.until("a backend that is down has a reason", "(r => r[1] === 'down' && r[9].length > 5)(" + ROW + "('backends', 'score/gone'))")
    await page.until("the route has its statuses", ROW + "('routes', '/score').join().includes('200 ×')")
    await page.until("a listener has its certificate's end", "document.getElementById('listeners').textContent.includes('ends in')")
    await page.until("events have a reason", "document.getElementById('notes').textContent.includes('backend score/b is')")
    await page.until("the history grows", "times.length > %s" % POINTS, 60 + POINTS)
    await page.screenshot("light-wide", 1280, 900, False)
    await page.screenshot("dark-wide", 1280, 900, True)
    await page.screenshot("light-narrow", 390, 844, False)
    await page.screenshot("dark-narrow", 390, 844, True)
    await page.save_top("top", "document.getElementById('backends').closest('section').getBoundingClientRect().bottom + 8")
    report("nothing comes from elsewhere", None if await page.value(
        "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))") else "foreign requests")
    await page.value("document.querySelector('details').open = true")
    await page.until("details show the workers", "document.querySelectorAll('#workers tr').length > 1")
    await page.value(OVERRIDE + "('score', 'size', '16')")
    await page.until("an override is in force", ROW + "('pools', 'score').pop() === 'size=16'")
    await page.value(OVERRIDE + "('score', 'size', 'many')")
    await page.until("a wrong one is refused with what is allowed", "document.getElementById('answer').textContent.includes('allowed:')")
    await page.value(OVERRIDE + "('score/b', 'state', 'drain')")
    await page.until("a drained backend is shown", ROW + "('backends', 'score/b')[1] === 'drained'")
    os.unlink(FOLDER + "/loaded")
    await page.until("values follow the end of the load", "parseFloat(document.querySelector('#tiles b').textContent) === 0")
    report("no error of the page", "; ".join(page.errors) if page.errors else None)


async def main():
    with open(FOLDER + "/chromium.log", "w", encoding="utf-8") as log:
        browser = subprocess.Popen(CHROMIUM, stderr=log, stdout=log, env={**os.environ, "HOME": FOLDER})
    try:
        port, end = FOLDER + "/profile/DevToolsActivePort", time.monotonic() + 60
        while not (os.path.exists(port) and open(port, encoding="utf-8").read().count("\n")):
            if time.monotonic() > end or browser.poll() is not None:
                sys.exit("Chromium does not start")
            await asyncio.sleep(.1)
        number = open(port, encoding="utf-8").readline().strip()
        targets = json.loads(subprocess.check_output(["curl", "-sS", "http://127.0.0.1:%s/json" % number]))
        page = [t for t in targets if t["type"] == "page"][0]
        async with websockets.connect(page["webSocketDebuggerUrl"], max_size=None) as ws:
            await check_page(Page(ws))
    finally:
        browser.terminate()
        browser.wait()
    sys.exit(failed > 0)


if __name__ == "__main__":
    asyncio.run(main())
